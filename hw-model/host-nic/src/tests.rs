//! Tests the card: bounds, frames, and one WRITE between two cards.

use super::*;
use transport_common::datapath::{Frames, Memory};
use transport_common::queues::{AccessFlags, MEMORY_GUARD, Verb, WorkFlags};
use transport_common::tape::{Recorded, RunKind, Tape};
use transport_common::units::Ticks;

use super::testbed::{connection, node};

/// The slot of the connection.
const SLOT: usize = 5;

fn nic(side: usize) -> HostNic {
    HostNic::new(HostConfig::new(node(side)))
}

fn parameters(side: usize) -> Parameters {
    connection(side, SLOT)
}

#[test]
fn write_is_placed_acknowledged_and_completed() {
    let (mut a, mut b) = (nic(0), nic(1));
    a.open(SLOT, &parameters(0));
    b.open(SLOT, &parameters(1));
    b.register(Region { offset: 8192, length: 4096, key: 1, access: AccessFlags::REMOTE_WRITE });
    a.memory_mut()[..100].copy_from_slice(&[0xa5; 100]);
    let work = WorkRequest {
        opcode: Verb::WRITE,
        flags: WorkFlags::SIGNALED,
        length: 100,
        remote_address: 50,
        rkey: 1,
        wr_id: 42,
        ..WorkRequest::default()
    };
    assert_eq!(a.post(SLOT, work), Ok(parameters(0).tx.rsn));
    let (verdict, frame) = a.engine_frame().expect("the doorbell was rung");
    assert_eq!(verdict, Verdict::Transmit);
    let (verdict, answer) = b.receive(frame);
    assert_eq!(b.memory()[8192 + 49..8192 + 151], [&[0][..], &[0xa5; 100], &[0]].concat());
    assert_eq!(verdict, Verdict::Transmit, "the last of a burst asks for its ACK (F-9.1.3.1-1)");
    assert_eq!(a.receive(answer).0, Verdict::Drop);
    let completion = a.poll_completion(SLOT).expect("acknowledged");
    assert_eq!((completion.wr_id, completion.status, completion.rsn), (42, 0, parameters(0).tx.rsn.0));
    assert_eq!(a.poll_completion(SLOT), None);
    assert_eq!(b.counter(Counter::SentInReceivedFrame), 1);
}

/// F-10.1-1, F-10.1-3: the time that a frame waits in the card's receive buffer counts for the receiver, not for
/// the fabric.
#[test]
fn a_wait_in_the_receive_buffer_is_no_delay_of_the_fabric() {
    let at = |ticks: u64| Picoseconds(ticks << 17);
    let (mut a, mut b) = (nic(0), nic(1));
    a.open(SLOT, &parameters(0));
    b.open(SLOT, &parameters(1));
    b.register(Region { offset: 8192, length: 4096, key: 1, access: AccessFlags::REMOTE_WRITE });
    a.set_time(at(1_000));
    let work = WorkRequest { opcode: Verb::WRITE, length: 100, rkey: 1, ..WorkRequest::default() };
    a.post(SLOT, work).expect("the queue is empty");
    let (_, frame) = a.engine_frame().expect("the doorbell was rung");
    b.set_time(at(1_100));
    b.set_rx_buffer_level(20);
    let (_, answer) = b.receive_waited(frame, at(1_010));
    a.set_time(at(1_130));
    a.receive_waited(answer, at(1_120));
    let delays = a.entry(SLOT).connection.congestion.delays.map(|delay| delay.last.0);
    assert_eq!(delays, [120, 30, 10, 20], "full, fabric, forward, reverse");
    assert_eq!(a.entry(SLOT).connection.congestion.rtt, Ticks(120));
    assert_eq!(a.scratch.step.output.event.rx_buffer_level, 20, "F-10.2-3");
}

/// F-7.2-6, D-23: nothing in a packet for an absent ULP is used, not even its acknowledgement.
#[test]
fn a_packet_of_an_absent_ulp_is_refused_before_anything_acts_on_it() {
    let asked = [
        ("Push Data", WorkRequest { opcode: Verb::WRITE, length: 100, rkey: 1, ..WorkRequest::default() }),
        ("Pull Request", WorkRequest { opcode: Verb::READ, length: 100, rkey: 1, ..WorkRequest::default() }),
    ];
    for (name, work) in asked {
        let (mut a, mut b) = (nic(0), nic(1));
        a.open(SLOT, &parameters(0));
        b.open(SLOT, &parameters(1));
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        b.register(Region { offset: 8192, length: 4096, key: 1, access });
        b.memory_mut()[8192..8292].fill(0x11);
        a.memory_mut()[..100].fill(0xa5);
        a.post(SLOT, work).expect("the queue is empty");
        let (_, request) = a.engine_frame().expect("the doorbell was rung");
        refused(&mut b, name, &request);
        assert!(b.memory()[8192..8292].iter().all(|byte| *byte == 0x11), "{name}");
        // The same packet with the RDMA protocol is served. Its response is rejected too if its protocol is not
        // RDMA.
        let (verdict, answer) = b.receive(request);
        assert_eq!(verdict, Verdict::Transmit, "{name}");
        if work.opcode == Verb::READ {
            refused(&mut a, "Pull Data", &answer);
            assert!(a.memory()[..100].iter().all(|byte| *byte == 0xa5), "nothing was placed");
            a.receive(answer);
            assert!(a.memory()[..100].iter().all(|byte| *byte == 0x11));
        }
    }
}

/// Changes the packet's protocol to NVMe, and asserts that it is dropped and counted, and does not change the
/// connection.
fn refused(nic: &mut HostNic, name: &str, frame: &[u8]) {
    const NVME: u8 = 3;
    let (udp, falcon) = (14 + 20, 14 + 20 + 8 + 16);
    let mut frame = frame.to_vec();
    frame[falcon + 7] = frame[falcon + 7] & 0x1f | NVME << 5;
    frame[udp + 6..udp + 8].fill(0);
    let (entry, counted) = (*nic.entry(SLOT), *nic.counters());
    assert_eq!(nic.receive(frame).0, Verdict::Drop, "{name}");
    assert!(*nic.entry(SLOT) == entry, "{name}");
    let mut expected = counted;
    expected[Counter::DropProtocol as usize] += 1;
    expected[Counter::ChecksumAbsent as usize] += 1;
    assert_eq!(*nic.counters(), expected, "{name}");
}

/// D-86: a damaged header length has its own counter. The checksum distinguishes it from real options.
#[test]
fn a_damaged_ipv4_header_length_is_told_from_options() {
    let counted = |frame: &[u8], counter: Counter, verdict: Verdict| {
        let mut b = nic(1);
        b.open(SLOT, &parameters(1));
        assert_eq!(b.receive(frame.to_vec()).0, verdict, "{}", counter.name());
        assert_eq!(b.counter(counter), 1, "{}", counter.name());
    };
    let mut a = nic(0);
    a.open(SLOT, &parameters(0));
    let work = WorkRequest { opcode: Verb::WRITE, length: 100, rkey: 1, ..WorkRequest::default() };
    a.post(SLOT, work).expect("the queue is empty");
    let (_, frame) = a.engine_frame().expect("the doorbell was rung");
    let tagged = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
    for (frame, ip) in [(&frame, 14), (&tagged, 18)] {
        let with_first_byte = |byte: u8| [&frame[..ip], &[byte], &frame[ip + 1..]].concat();
        for length in (0..16).filter(|length| *length != 5) {
            let fault = if length < 5 { Counter::DropIpv4Header } else { Counter::DropIpv4Checksum };
            counted(&with_first_byte(0x40 | length), fault, Verdict::Drop);
        }
        // The header would be longer than the frame.
        counted(&with_first_byte(0x4f)[..ip + 59], Counter::DropIpv4Header, Verdict::Drop);

        // Seven No Operation options and the end of options, with a checksum that covers them.
        let options = |udp_port: u8| {
            let mut frame = [&frame[..ip + 20], &[1, 1, 1, 1, 1, 1, 1, 0], &frame[ip + 20..]].concat();
            frame[ip] = 0x47;
            frame[ip + 3] += 8;
            frame[ip + 28 + 3] ^= udp_port;
            frame[ip + 10..ip + 12].fill(0);
            let words = frame[ip..ip + 28].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
            frame
        };
        counted(&options(0), Counter::DropIpOptions, Verdict::Drop);
        counted(&options(1), Counter::PassProtocol, Verdict::Pass);
        let mut damaged = options(1);
        damaged[ip + 22] ^= 4;
        counted(&damaged, Counter::DropIpv4Checksum, Verdict::Drop);
    }
}

#[test]
fn memory_is_refused_where_the_longest_copy_would_not_fit() {
    let mut nic = nic(0);
    let edge = (MEMORY_BYTES - MEMORY_GUARD) as u64;
    let mut frame = FrameAtHand { bytes: vec![1; 200], ..FrameAtHand::default() };
    let mut platform = nic.platform(&mut frame);
    assert!(platform.store_value(edge, 1));
    assert!(!platform.store_value(edge + 1, 1));
    assert!(!platform.store_value(u64::MAX, 1));
    assert!(platform.frame_to_memory(0, edge, 200));
    assert!(!platform.frame_to_memory(1, edge, 200), "beyond the frame");
    assert!(!platform.frame_to_memory(0, edge, 0), "a copy of zero bytes is rejected");
    assert_eq!(platform.fetch_add(edge + 8, 1), 0);
}

#[test]
fn frames_grow_into_their_tail_room_and_shrink_to_an_ethernet_header() {
    let mut nic = nic(0);
    let mut frame = FrameAtHand { bytes: vec![7; 100], limit: 120, arrival: None };
    let mut platform = nic.platform(&mut frame);
    assert!(!platform.resize(121));
    assert!(platform.resize(120));
    assert_eq!(platform.frame.bytes[99..], [&[7][..], &[0; 20]].concat());
    assert!(platform.resize(14));
    assert!(!platform.resize(13));
}

#[test]
fn sums_pad_an_odd_last_byte_with_zero() {
    let mut nic = nic(0);
    nic.memory_mut()[..3].copy_from_slice(&[1, 2, 3]);
    let expected = u32::from(u16::from_ne_bytes([1, 2])) + u32::from(u16::from_ne_bytes([3, 0]));
    assert_eq!(nic.platform(&mut FrameAtHand::default()).sum_memory(0, 3), expected);
}

/// The host's node under test.
struct Tested(HostNic, FrameAtHand);

impl contract::Fixture for Tested {
    type Platform<'a> = HostPlatform<'a>;

    fn with(&mut self, frame: FrameAtHand) -> HostPlatform<'_> {
        self.1 = frame;
        self.0.platform(&mut self.1)
    }

    fn arrange(&mut self, change: impl FnOnce(&mut HostNic)) {
        change(&mut self.0);
    }

    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R {
        at(&mut self.0)
    }
}

/// The host's node behind the recorder, which must not change anything.
struct Taped(Tested, Box<Tape>);

impl contract::Fixture for Taped {
    type Platform<'a> = Recorded<'a, HostPlatform<'a>>;

    fn with(&mut self, frame: FrameAtHand) -> Recorded<'_, HostPlatform<'_>> {
        self.1.begin(RunKind::RECEIVE);
        Recorded::new(contract::Fixture::with(&mut self.0, frame), &self.1)
    }

    fn arrange(&mut self, change: impl FnOnce(&mut HostNic)) {
        self.0.arrange(change);
    }

    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R {
        self.0.look(at)
    }
}

fn tested() -> Tested {
    Tested(contract::node(), FrameAtHand::default())
}

#[test]
fn the_host_keeps_the_contract() {
    contract::check(&mut tested());
}

#[test]
fn the_recorder_keeps_the_contract() {
    contract::check(&mut Taped(tested(), bytemuck::zeroed_box()));
}
