//! Memories with several ports, compared with plain arrays.

use proptest::prelude::*;

use crate::{BankedMemory, ContextStore, Memory, PortConflict, Ports};

const DEPTH: usize = 16;
const FOUR: Ports = Ports { reads: 4, writes: 4 };

type Reads = Vec<Option<usize>>;
type Writes = Vec<Option<(usize, u64)>>;

/// The accesses of a cycle through four read and four write ports. The addresses of the writes are distinct.
fn legal_cycle() -> impl Strategy<Value = (Reads, Writes)> {
    let reads = prop::collection::vec(prop::option::of(0..DEPTH), 4);
    let addresses = Just((0..DEPTH).collect::<Vec<_>>()).prop_shuffle();
    let words = prop::collection::vec(prop::option::of(any::<u64>()), 4);
    let writes = (addresses, words).prop_map(|(addresses, words)| {
        words.into_iter().zip(addresses).map(|(word, address)| word.map(|word| (address, word))).collect()
    });
    (reads, writes)
}

proptest! {
    #[test]
    fn four_reads_and_four_writes_out_of_dual_ported_rams(cycles in prop::collection::vec(legal_cycle(), 1..200)) {
        let mut banked = BankedMemory::new(DEPTH, FOUR, &0u64);
        let mut ideal = Memory::<u64, 4, 4>::new(DEPTH, &0);
        let mut plain = [0u64; DEPTH];
        prop_assert_eq!(banked.banks(), 16);
        for (reads, writes) in cycles {
            let read = banked.cycle(&reads, &writes).expect("legal use");
            let mut ports = ideal.read_ports();
            for (port, address) in reads.iter().enumerate() {
                let expected = address.map(|address| plain[address]);
                prop_assert_eq!(read[port], expected, "port {}", port);
                if let Some(address) = *address {
                    prop_assert_eq!(ports.read(address), Ok(&plain[address]));
                }
            }
            let addresses = core::array::from_fn::<_, 4, _>(|port| writes[port].map(|write| write.0));
            let mut ports = ideal.write_ports(addresses);
            for (port, write) in writes.into_iter().enumerate() {
                prop_assert_eq!(ports.word(port).is_some(), write.is_some());
                if let Some((address, word)) = write {
                    *ports.word(port).expect("in use") = word;
                    plain[address] = word;
                }
            }
            prop_assert!(ideal.iter().eq(&plain));
        }
    }

    /// A lookup delivers what a memory without latency would return in the cycle of the delivery.
    #[test]
    fn a_lookup_sees_all_writes_up_to_its_delivery(
        latency in 1..8usize,
        cycles in prop::collection::vec(legal_cycle(), 1..100),
    ) {
        let mut store = ContextStore::new(DEPTH, 4, latency, &0u64);
        let mut plain = [0u64; DEPTH];
        let mut asked: Vec<Reads> = Vec::new();
        prop_assert!(store.is_idle());
        for (now, (reads, writes)) in cycles.into_iter().enumerate() {
            let begun = now.checked_sub(latency).map_or(&[None; 4][..], |begun: usize| &asked[begun]);
            for (port, address) in begun.iter().enumerate() {
                let delivered = store.delivered(port).map(|(address, word)| (address, *word));
                prop_assert_eq!(delivered, address.map(|address| (address, plain[address])));
            }
            let writes: Vec<_> = writes.into_iter().flatten().collect();
            store.commit(&reads, &writes);
            writes.iter().for_each(|(address, word)| plain[*address] = *word);
            let in_flight = asked.iter().rev().take(latency - 1).flatten().chain(&reads).any(Option::is_some);
            prop_assert_eq!(store.is_idle(), !in_flight);
            asked.push(reads);
        }
    }
}

#[test]
fn more_accesses_than_ports_are_refused() {
    let mut ideal = Memory::<u8, 2, 2>::new(DEPTH, &0);
    let mut reads = ideal.read_ports();
    assert_eq!(reads.read(3), Ok(&0));
    assert_eq!(reads.read(3), Ok(&0), "the same address through the other port");
    assert_eq!(reads.read(3), Err(PortConflict::Reads(2)));

    let mut writes = ideal.write_ports([Some(5), Some(5)]);
    *writes.word(0).expect("in use") = 1;
    *writes.word(1).expect("in use") += 1;
    assert_eq!(*ideal.peek(5), 2);
    assert_eq!(ideal.depth(), DEPTH);

    let mut banked = BankedMemory::new(DEPTH, FOUR, &0u8);
    let same = [Some((1, 7)), None, Some((1, 8))];
    assert_eq!(banked.cycle(&[], &same), Err(PortConflict::SameAddress(1)));
    assert_eq!(banked.cycle(&[Some(0); 5], &[]), Err(PortConflict::Reads(4)));
    assert_eq!(banked.cycle(&[], &[None, None, None, None, None]), Err(PortConflict::Writes(4)));
    assert_eq!(banked.cycle(&[Some(1)], &[]), Ok(vec![Some(0)]), "a refused cycle changes nothing");
}

/// Two lookups of one address are less than one lookup latency apart. The update after the second must not undo
/// the update after the first.
#[test]
fn without_bypass_an_update_would_be_lost() {
    let mut store = ContextStore::new(DEPTH, 1, 2, &0u32);
    store.commit(&[Some(4)], &[]);
    store.commit(&[Some(4)], &[]);
    for count in 1..=2 {
        let (address, word) =
            store.delivered(0).map(|(address, word)| (address, *word)).expect("two lookups");
        store.commit(&[None], &[(address, word + 1)]);
        assert_eq!(word + 1, count);
    }
}
