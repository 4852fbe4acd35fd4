//! What the machine reports: its addresses, its counters, its card, its regions, and the work that waits.

use core::sync::atomic::Ordering::Relaxed;

use transport_common::counters::Counter;
use transport_common::datapath::{Host as _, Memory as _, Services as _, mac_word, words};
use transport_common::queues::{AccessFlags, CONNECTIONS, REGIONS, Region};
use transport_common::transaction::TRANSACTIONS;
use transport_common::units::Picoseconds;

use super::fixture::{Fixture, IPV4, IPV6, MAC, MEMORY, frame_of, scratch};
use crate::testbed;

/// A frame is for this node only if both its MAC and its IP address are.
pub(super) fn only_own_addresses_are_owned(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    let (mac, ipv4, ipv6) = (mac_word(&MAC), u32::from_ne_bytes(IPV4), words(&IPV6));
    assert!(platform.owns_ipv4(mac, ipv4) && platform.owns_ipv6(mac, ipv6));
    for bit in [0, 7, 40, 47] {
        assert!(!platform.owns_ipv4(mac ^ 1 << bit, ipv4), "bit {bit} of the MAC address");
        assert!(!platform.owns_ipv6(mac ^ 1 << bit, ipv6), "bit {bit} of the MAC address");
    }
    for bit in [0, 31] {
        assert!(!platform.owns_ipv4(mac, ipv4 ^ 1 << bit), "bit {bit} of the address");
    }
    for bit in [0, 63] {
        assert!(!platform.owns_ipv6(mac, [ipv6[0] ^ 1 << bit, ipv6[1]]), "bit {bit} of the first half");
        assert!(!platform.owns_ipv6(mac, [ipv6[0], ipv6[1] ^ 1 << bit]), "bit {bit} of the second half");
    }
}

pub(super) fn counters_are_raised_by_one(node: &mut impl Fixture) {
    let mut expected = node.look(|nic| *nic.counters());
    let last = Counter::COUNT - 1;
    let mut platform = node.with(frame_of(vec![0; 64]));
    platform.count(0);
    platform.count(last as u32);
    for _ in 0..2 {
        platform.raise(Counter::DropProtocol);
    }
    for absent in [Counter::COUNT as u32, u32::MAX] {
        platform.count(absent);
    }
    drop(platform);
    for (counter, times) in [(0, 1), (last, 1), (Counter::DropProtocol as usize, 2)] {
        expected[counter] += times;
    }
    assert_eq!(node.look(|nic| *nic.counters()), expected);
}

/// F-10.1-1, F-10.2-3.
pub(super) fn the_card_reports_arrival_and_buffer(node: &mut impl Fixture) {
    let (now, earlier) = (Picoseconds(1_000_000_000_000), Picoseconds(999_000_000_000));
    assert_eq!(node.with(frame_of(vec![0; 64])).arrival(now), now, "the card reports nothing");
    let mut waited = frame_of(vec![0; 64]);
    waited.arrival = Some(earlier);
    assert_eq!(node.with(waited).arrival(now), earlier);
    for level in [0, 20, 31, 0] {
        node.arrange(|nic| nic.set_rx_buffer_level(level));
        let mut s = scratch();
        node.with(frame_of(vec![0; 64])).observe(&mut s, 0, false);
        assert_eq!(s.step.input.rx_buffer_level, u32::from(level));
    }
}

pub(super) fn regions_are_found_by_their_index(node: &mut impl Fixture) {
    let key = |index: usize| Region {
        offset: 4096 * index as u64,
        length: MEMORY / 2,
        key: (7 * REGIONS + index) as u32,
        access: AccessFlags::REMOTE_WRITE,
        ..Region::default()
    };
    node.arrange(|nic| [0, REGIONS - 1].into_iter().for_each(|index| nic.register(key(index))));
    let mut platform = node.with(frame_of(vec![0; 64]));
    for index in [0, REGIONS - 1] {
        assert_eq!(platform.region(key(index).key), key(index));
        assert_eq!(platform.region(index as u32), key(index), "it belongs to another key");
    }
    assert_eq!(platform.region(1), Region::default(), "it is free");
    assert_eq!(platform.region(u32::MAX), key(REGIONS - 1), "any key has an entry");
    drop(platform);
    // The table is untrusted.
    let last = key(REGIONS - 1);
    for (length, found) in
        [(MEMORY - last.offset, true), (MEMORY - last.offset + 1, false), (u64::MAX, false)]
    {
        let region = Region { length, ..last };
        node.arrange(|nic| nic.register(region));
        let expected = if found { region } else { Region::default() };
        assert_eq!(node.with(frame_of(vec![0; 64])).region(last.key), expected, "{length} bytes");
    }
    node.arrange(|nic| [0, REGIONS - 1].into_iter().for_each(|index| nic.deregister(key(index).key)));
}

pub(super) fn a_backlog_is_more_than_one_request(node: &mut impl Fixture) {
    const SLOT: usize = 9;
    let first = testbed::connection(0, SLOT).tx.rsn.0;
    assert!(!is_backlogged(node, SLOT), "it was never opened");
    node.arrange(|nic| nic.open(SLOT, &testbed::connection(0, SLOT)));
    // The application writes the counter, so it may have any value.
    let most = TRANSACTIONS as u32;
    for (waiting, expected) in
        [(0, false), (1, false), (2, true), (most, true), (most + 1, false), (1 << 31, false), (2, true)]
    {
        node.arrange(|nic| nic.queue_pair(SLOT).send_producer.store(first.wrapping_add(waiting), Relaxed));
        assert_eq!(is_backlogged(node, SLOT), expected, "{waiting} requests wait");
    }
    node.arrange(|nic| nic.queue_pair(SLOT).send_producer.store(first, Relaxed));
    let mut platform = node.with(frame_of(vec![0; 64]));
    for slot in [SLOT, CONNECTIONS, u32::MAX as usize] {
        platform.answer(slot as u32);
    }
    assert_eq!(platform.ready(), None);
}

/// Returns whether the request for a service of the only connection that asks stays after its answer.
fn is_backlogged(node: &mut impl Fixture, slot: usize) -> bool {
    let slot = slot as u32;
    let mut platform = node.with(frame_of(vec![0; 64]));
    platform.wake(slot, None);
    assert_eq!(platform.ready(), Some(slot));
    platform.answer(slot);
    let again = platform.ready();
    assert!(again.is_none_or(|again| again == slot));
    again.is_some()
}
