//! Several connections on one card, and the bytes of their frames.

use host_nic::testbed::{self, connection, node};
use host_nic::{HostConfig, HostNic, node_config};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Endpoint, Parameters, Path, State};
use transport_common::datapath::Verdict;
use transport_common::ids::Cid;
use transport_common::queues::{AccessFlags, Completion, Region, Verb, WorkFlags, WorkRequest};
use transport_common::units::Picoseconds;

/// Bytes before the PSP header: Ethernet, IPv4, UDP.
const PSP: usize = 14 + 20 + 8;
/// Bytes before the Falcon header.
const FALCON: usize = PSP + 16;
/// Bytes of BTH and RETH; of BTH and AETH.
const REQUEST: usize = 12 + 16;
const RESPONSE: usize = 12 + 4;

const MILLI: u64 = 1_000_000_000;

fn nic(side: usize) -> HostNic {
    HostNic::new(HostConfig::new(node(side)))
}

/// A card that offers its first bytes of memory.
fn target(side: usize) -> HostNic {
    let mut card = nic(side);
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    card.register(Region { offset: 0, length: 4096, key: 1, access, ..Region::default() });
    card
}

fn work(opcode: Verb, length: u32) -> WorkRequest {
    WorkRequest { opcode, length, rkey: 1, flags: WorkFlags::SIGNALED, ..WorkRequest::default() }
}

/// Runs the engine until it has nothing more to do now. Returns the frames that it sends.
fn drain(card: &mut HostNic) -> Vec<Vec<u8>> {
    let mut sent = vec![];
    let mut idle = 0;
    // The engine polls the timing wheel in every eighth frame.
    while idle < 16 {
        match card.engine_frame() {
            Some((Verdict::Transmit, frame)) => sent.push(frame),
            Some(_) => idle = 0,
            None => idle += 1,
        }
    }
    sent
}

/// Receives a frame. Returns the reply.
fn reply(card: &mut HostNic, frame: &[u8]) -> Option<Vec<u8>> {
    let (verdict, reply) = card.receive(frame.to_vec());
    (verdict == Verdict::Transmit).then_some(reply)
}

fn completions(card: &mut HostNic, slot: usize) -> Vec<Completion> {
    std::iter::from_fn(|| card.poll_completion(slot)).collect()
}

fn destination_cid(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[FALCON..FALCON + 4].try_into().expect("4 bytes")) & 0x00ff_ffff
}

fn length_at(frame: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]))
}

/// F-7.1-2, F-7.3-3, F-7.5-2: after the Falcon header of each type comes the header of the protocol that it names,
/// RDMA. The Request Length of a pull is the length of the payload of its Pull Data.
#[test]
fn the_ulp_header_follows_the_falcon_header() {
    let slot = 5;
    let (mut a, mut b) = (nic(0), target(1));
    a.open(slot, &connection(0, slot));
    b.open(slot, &connection(1, slot));
    let is_rdma = |frame: &[u8]| assert_eq!(frame[FALCON + 7] >> 5, 2);
    for length in [1, 100, 1000] {
        a.post(slot, work(Verb::WRITE, length)).expect("the queue is empty");
        let [push] = &drain(&mut a)[..] else { panic!("one packet") };
        is_rdma(push);
        assert_eq!(push[FALCON + 28], 0x0a, "RDMA WRITE Only of BTH");
        assert_eq!(length_at(push, FALCON + 26), push.len() - FALCON - 28);
        assert_eq!(push.len(), FALCON + 28 + REQUEST + length as usize);
        a.receive(reply(&mut b, push).expect("the last push of a burst asks for an ACK"));

        a.post(slot, work(Verb::READ, length)).expect("the queue is empty");
        let [pull] = &drain(&mut a)[..] else { panic!("one packet") };
        is_rdma(pull);
        assert_eq!((pull[FALCON + 32], pull.len()), (0x0c, FALCON + 32 + REQUEST), "RDMA READ Request");
        let answer = reply(&mut b, pull).expect("Pull Data");
        is_rdma(&answer);
        assert_eq!(answer[FALCON + 24], 0x10, "RDMA READ Response Only");
        let payload = answer.len() - FALCON - 24;
        assert_eq!(payload, RESPONSE + length as usize);
        assert_eq!(length_at(pull, FALCON + 26), payload, "F-7.3-3");
        a.receive(answer);
        for frame in drain(&mut a) {
            b.receive(frame);
        }
        assert_eq!(completions(&mut a, slot).len(), 2);
    }
}

/// The peer asks for all that a packet of the MTU holds, which is more than a segment of this end. The answer leaves in the
/// frame of the request, and in one of the engine when it is sent again.
#[test]
fn an_answer_may_be_longer_than_a_segment() {
    let slot = 5;
    for (mtu, longest) in [(2000, 1916), (3390, 3306)] {
        let (mut a, mut b) = (nic(0), target(1));
        let [mut asks, mut answers] = [0, 1].map(|side| connection(side, slot));
        // Its MTU is larger.
        asks.config.max_segment = 4000;
        answers.config.max_segment = longest - 8;
        answers.config.max_answer = longest;
        a.open(slot, &asks);
        b.open(slot, &answers);
        for (n, byte) in b.memory_mut()[..4096].iter_mut().enumerate() {
            *byte = (n * 31 + n / 256) as u8;
        }
        a.post(slot, work(Verb::READ, longest)).expect("the queue is empty");
        let [pull] = &drain(&mut a)[..] else { panic!("one packet") };
        let lost = reply(&mut b, pull).expect("Pull Data");
        // The first 14 bytes are the Ethernet header.
        assert_eq!((lost.len(), lost.len() - 14), (FALCON + 24 + RESPONSE + longest as usize, mtu));
        drain(&mut b);
        b.set_time(Picoseconds(2 * MILLI));
        // The timing wheel may need several polls.
        let sent = [drain(&mut b), drain(&mut b)].concat();
        let again = sent.into_iter().find(|frame| frame.len() == lost.len());
        a.receive(again.expect("the engine sends it again"));
        assert_eq!(a.memory()[..longest as usize], b.memory()[..longest as usize]);
        let [done] = &completions(&mut a, slot)[..] else { panic!("one completion") };
        assert_eq!((done.status, done.ulp_code, done.length), (0, 0, longest));
        for frame in drain(&mut a) {
            b.receive(frame);
        }

        // A byte more is refused.
        a.post(slot, work(Verb::READ, longest + 1)).expect("the queue has space");
        let sent = drain(&mut a);
        let pull = sent.iter().find(|frame| frame.len() == FALCON + 32 + REQUEST).expect("a Pull Request");
        a.receive(reply(&mut b, pull).expect("an answer"));
        let [refused] = &completions(&mut a, slot)[..] else { panic!("one completion") };
        assert_ne!(refused.ulp_code, 0);
    }
}

/// F-6.2-3, F-6.2-4, F-8.4.3.1-1: two peers hand out the same CID. The packets to them differ in nothing of Falcon,
/// and each answer finds the connection that it is for.
#[test]
fn two_peers_may_hand_out_the_same_cid() {
    let third = ([2, 0, 0, 0, 0, 3], [10, 7, 0, 3]);
    let mut a = nic(0);
    let mut b = target(1);
    let mut c = HostNic::new(HostConfig::new(node_config(third.0, third.1, [0; 16])));
    c.register(Region {
        offset: 0,
        length: 4096,
        key: 1,
        access: AccessFlags::REMOTE_WRITE,
        ..Region::default()
    });
    let to_b = connection(0, 5);
    let mut to_c = to_b;
    (to_c.config.local_cid, to_c.config.peer_cid) = (Cid(6), Cid(5));
    to_c.config.path.destination[..4].copy_from_slice(&third.1);
    to_c.config.path.destination_mac = third.0;
    let mut of_c = connection(1, 5);
    of_c.config.peer_cid = Cid(6);
    of_c.config.path.source[..4].copy_from_slice(&third.1);
    of_c.config.path.source_mac = third.0;
    a.open(5, &to_b);
    a.open(6, &to_c);
    b.open(5, &connection(1, 5));
    c.open(5, &of_c);
    a.memory_mut()[..8].fill(0xa5);
    for slot in [5, 6] {
        a.post(slot, work(Verb::WRITE, 8)).expect("the queue is empty");
    }
    let sent = drain(&mut a);
    let [first, second] = &sent[..] else { panic!("{} packets", sent.len()) };
    assert_eq!(first[FALCON..], second[FALCON..], "Falcon header, ULP header and data");
    assert_eq!((destination_cid(first), destination_cid(second)), (5, 5));
    let (to_b, to_c) = if first[5] == 2 { (first, second) } else { (second, first) };
    for (card, frame, own) in [(&mut c, to_c, 6), (&mut b, to_b, 5)] {
        let ack = reply(card, frame).expect("an ACK");
        assert_eq!((destination_cid(&ack), &card.memory()[..8]), (own, &[0xa5; 8][..]));
        a.receive(ack);
        assert_eq!(completions(&mut a, own as usize).len(), 1);
        assert_eq!(completions(&mut a, 11 - own as usize).len(), 0, "the other connection");
    }
}

/// Another router takes over the work of the first. Packets that were sent to the first one are sent again to the other, and so
/// is what follows. The connection goes on as if they had been lost. A request that is meant for an earlier connection of the slot
/// changes nothing.
#[test]
fn another_next_hop_gets_what_is_sent_again() {
    const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 9];
    let (mut a, mut b) = (nic(0), target(1));
    a.open(5, &connection(0, 5));
    b.open(5, &connection(1, 5));
    a.memory_mut()[..8].fill(0xa5);
    a.post(5, work(Verb::WRITE, 8)).expect("the queue is empty");
    let sent = drain(&mut a);
    let [lost] = &sent[..] else { panic!("{} packets", sent.len()) };

    let path = Path { destination_mac: ROUTER, ..Path::default() };
    let request = Endpoint { path, local_cid: Cid(5), ..Endpoint::default() };
    let (before, generation) = (*a.entry(5), a.entry(5).connection.generation);
    assert!(!a.set_next_hop(5, &Endpoint { local_cid: Cid(261), ..request }, generation));
    assert!(!a.set_next_hop(5, &request, generation + 1));
    assert!(*a.entry(5) == before, "nothing has changed");
    assert!(a.set_next_hop(5, &request, generation));

    a.set_time(Picoseconds(2 * MILLI));
    // The timing wheel may need several polls.
    let again = [drain(&mut a), drain(&mut a)].concat();
    let again = again.into_iter().find(|frame| frame.len() == lost.len()).expect("it is sent again");
    assert_eq!((&lost[..6], &again[..6]), (&testbed::mac(1)[..], &ROUTER[..]));
    // The router forwards it.
    let forwarded = [&testbed::mac(1)[..], &again[6..]].concat();
    a.receive(reply(&mut b, &forwarded).expect("an ACK"));
    assert_eq!((completions(&mut a, 5).len(), &b.memory()[..8]), (1, &[0xa5; 8][..]));
    a.post(5, work(Verb::WRITE, 8)).expect("the queue has space");
    assert_eq!(drain(&mut a)[0][..6], ROUTER);
}

/// F-8.3-1, F-8.3-2: connections with a backlog take turns, packet by packet.
#[test]
fn connections_take_turns() {
    let mut a = nic(0);
    let slots = [1, 2, 3, 7, 200];
    for slot in slots {
        a.open(slot, &connection(0, slot));
        for _ in 0..20 {
            a.post(slot, work(Verb::WRITE, 64)).expect("the queue has space");
        }
    }
    let order: Vec<u32> = drain(&mut a).iter().map(|frame| destination_cid(frame)).collect();
    assert_eq!(order.len(), 20 * slots.len());
    for (n, turn) in order.chunks(slots.len()).enumerate() {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, slots.map(|slot| slot as u32), "turn {n}");
    }
}

/// The windows, the timeout and the completions of the connection of slot 2 after a second of traffic, with or
/// without a second connection that loses everything.
fn beside(a_broken_one: bool) -> (Parameters, [u32; 3], Vec<u32>, State) {
    let (mut a, mut b) = (nic(0), target(1));
    let mut parameters = connection(0, 2);
    parameters.settings = Settings::SWIFT;
    for slot in [2, 1] {
        let mut own = Parameters { settings: Settings::SWIFT, ..connection(0, slot) };
        own.config.max_retransmit_attempts = 3;
        let peer = Parameters { settings: Settings::SWIFT, ..connection(1, slot) };
        a.open(slot, &own);
        b.open(slot, &peer);
        if !a_broken_one {
            break;
        }
    }
    let mut done = vec![];
    for step in 1..1000 {
        let now = Picoseconds(MILLI / 10 * step);
        a.set_time(now);
        b.set_time(Picoseconds(now.0 + MILLI / 100));
        if step % 3 == 0 {
            for slot in if a_broken_one { &[1, 2][..] } else { &[2] } {
                // The queue of the broken connection fills.
                let _ = a.post(*slot, work(Verb::WRITE, 64));
            }
        }
        let mut frames = drain(&mut a);
        frames.retain(|frame| destination_cid(frame) == 2);
        let replies: Vec<_> = frames.iter().filter_map(|frame| reply(&mut b, frame)).collect();
        for reply in replies.into_iter().chain(drain(&mut b)) {
            a.receive(reply);
        }
        done.extend(completions(&mut a, 2).iter().map(|completion| completion.rsn));
    }
    let c = &a.entry(2).connection.flow.congestion;
    let broken = if a_broken_one { a.entry(1).connection.state } else { State::Closed };
    (parameters, [c.fcwnd.0, c.ncwnd, c.rto.0], done, broken)
}

/// F-6.3-1, F-6.4-6: a connection that loses everything, times out and fails changes no window and no timeout of
/// another, and costs it no completion.
#[test]
fn a_broken_connection_changes_nothing_of_another() {
    let (parameters, windows, done, _) = beside(false);
    let (_, beside_windows, beside_done, broken) = beside(true);
    assert_eq!(broken, State::Fatal);
    assert_eq!((beside_windows, &beside_done), (windows, &done));
    assert_eq!(done.len(), 333);
    assert_ne!(windows[0], parameters.fcwnd.0, "congestion control was at work");
}
