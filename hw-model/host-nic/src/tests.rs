//! Tests the card: bounds, frames, and one WRITE between two cards.

mod tunnel;

use super::*;
use transport_common::connection::State;
use transport_common::datapath::{Atomic, Frames, Memory, Scratch};
use transport_common::queues::{AccessFlags, DEFAULT_MEMORY, Verb, WorkFlags};
use transport_common::tape::{Recorded, RunKind, Tape};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::Protocol;
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

/// Two cards with a connection. The second one has a region for WRITEs with the R_Key 1, from 8192 on.
fn connected() -> (HostNic, HostNic) {
    let (mut a, mut b) = (nic(0), nic(1));
    a.open(SLOT, &parameters(0));
    b.open(SLOT, &parameters(1));
    b.register(Region {
        offset: 8192,
        length: 4096,
        key: 1,
        access: AccessFlags::REMOTE_WRITE,
        ..Region::default()
    });
    (a, b)
}

#[test]
fn write_is_placed_acknowledged_and_completed() {
    let (mut a, mut b) = connected();
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
    assert_eq!((a.take_notices(), b.take_notices()), (vec![], vec![]), "nobody sleeps");
    let completion = a.poll_completion(SLOT).expect("acknowledged");
    assert_eq!((completion.wr_id, completion.status, completion.rsn), (42, 0, parameters(0).tx.rsn.0));
    assert_eq!(a.poll_completion(SLOT), None);
    assert_eq!(b.counter(Counter::SentInReceivedFrame), 1);
}

/// A sleeping application is woken once by completions and once by another state. Meanwhile its packets wake nobody.
#[test]
fn an_application_that_sleeps_is_woken_by_its_completions() {
    let (mut a, mut b) = connected();
    let work =
        WorkRequest { opcode: Verb::WRITE, flags: WorkFlags::SIGNALED, rkey: 1, ..WorkRequest::default() };
    let write = |a: &mut HostNic, b: &mut HostNic, count: usize| {
        for _ in 0..count {
            a.post(SLOT, work).expect("the queue has space");
        }
        for _ in 0..count {
            let (_, frame) = a.engine_frame().expect("the doorbell was rung");
            assert_eq!(a.take_notices(), [], "nothing is complete");
            a.receive(b.receive(frame).1);
        }
    };
    let arm = |nic: &HostNic, taken: u32| {
        let queue = nic.queue_pair(SLOT).completion_queue();
        queue.arm(State::Open as u32, taken);
        assert!(queue.get(taken).is_none());
    };
    [&a, &b].into_iter().for_each(|nic| arm(nic, 0));
    write(&mut a, &mut b, 2);
    assert_eq!((a.take_notices(), b.take_notices()), (vec![SLOT as u32], vec![]));
    write(&mut a, &mut b, 1);
    assert_eq!(a.take_notices(), [], "it is awake");
    arm(&a, 3);
    a.close(SLOT);
    while a.engine_frame().is_some() {}
    assert_eq!(a.take_notices(), [SLOT as u32], "the connection is closed");
}

/// Returns the frame of a WRITE, with other data. It has no UDP checksum.
fn with_data(frame: &[u8], data: &[u8]) -> Vec<u8> {
    const HEADERS: usize = 14 + 20 + 8 + 16 + 28 + 12 + 16;
    let mut frame = [&frame[..HEADERS], data].concat();
    let mut put = |at: usize, value: usize| frame[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
    put(16, HEADERS - 14 + data.len()); // IPv4
    put(38, HEADERS - 34 + data.len()); // UDP
    put(40, 0);
    put(84, 28 + data.len()); // Request Length
    put(112, data.len()); // RETH
    put(24, 0);
    let sum: u32 = frame[14..34].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// F-11-16: a request that fits the wire, but not a frame of the engine, cannot wait in a cell. It is refused for lack of
/// resources and not in error, and accepted when it is sent again in its turn.
#[test]
fn a_request_that_no_frame_of_the_engine_can_carry_is_not_held() {
    for length in [3380, 3381, 3398] {
        let (mut a, mut b) = (nic(0), nic(1));
        a.open(SLOT, &parameters(0));
        b.open(SLOT, &parameters(1));
        b.register(Region {
            offset: 8192,
            length: 4096,
            key: 1,
            access: AccessFlags::REMOTE_WRITE,
            ..Region::default()
        });
        let work = WorkRequest { opcode: Verb::WRITE, length: 8, rkey: 1, ..WorkRequest::default() };
        for _ in 0..2 {
            a.post(SLOT, work).expect("the queue has space");
        }
        let [first, second] = [(); 2].map(|()| a.engine_frame().expect("the doorbell was rung").1);
        let data: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let second = with_data(&second, &data);
        let early = b.receive(second.clone());
        assert_eq!(b.counter(Counter::DropResources), u64::from(length > 3380), "{:?}", early.0);
        b.receive(first);
        while b.engine_frame().is_some() {}
        let now = Picoseconds(b.now().0 + 1_000_000_000);
        b.set_time(now);
        b.receive(second);
        while b.engine_frame().is_some() {}
        assert!(b.memory()[8192..][..length] == data, "{length} bytes are placed");
        assert_eq!(b.entry(SLOT).connection.target.nrsn, parameters(0).tx.rsn.add(2));
        assert_eq!(b.counter(Counter::PlatformFault), 0);
    }
}

/// F-10.1-1, F-10.1-3: the time that a frame waits in the card's receive buffer counts for the receiver, not for
/// the fabric.
#[test]
fn a_wait_in_the_receive_buffer_is_no_delay_of_the_fabric() {
    let at = |ticks: u64| Picoseconds(ticks << 17);
    let (mut a, mut b) = connected();
    a.set_time(at(1_000));
    let work = WorkRequest { opcode: Verb::WRITE, length: 100, rkey: 1, ..WorkRequest::default() };
    a.post(SLOT, work).expect("the queue is empty");
    let (_, frame) = a.engine_frame().expect("the doorbell was rung");
    b.set_time(at(1_100));
    b.set_rx_buffer_level(20);
    let (_, answer) = b.receive_waited(frame, at(1_010));
    a.set_time(at(1_130));
    a.receive_waited(answer, at(1_120));
    let delays = a.entry(SLOT).connection.flow.congestion.delays.map(|delay| delay.last.0);
    assert_eq!(delays, [120, 30, 10, 20], "full, fabric, forward, reverse");
    assert_eq!(a.entry(SLOT).connection.flow.congestion.rtt, Ticks(120));
    assert_eq!(a.scratch.step.output.event.rx_buffer_level, 20, "F-10.2-3");
}

/// F-7.1-2, F-7.2-6: two cards with the block protocol. The bytes of a command and of a status are those of its page, and
/// nothing of RDMA is in them.
#[test]
fn blocks_cross_as_the_page_says() {
    let open = |side: usize| {
        let mut nic = nic(side);
        let mut parameters = parameters(side);
        parameters.config.protocol = Protocol::BLOCK;
        nic.open(SLOT, &parameters);
        nic
    };
    let (mut a, mut b) = (open(0), open(1));
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    b.register(Region { offset: 8192, length: 4096, key: 7, access, ..Region::default() });
    a.memory_mut()[..1024].fill(0xa5);
    let work = WorkRequest {
        opcode: Verb::WRITE,
        flags: WorkFlags::SIGNALED,
        length: 1024,
        remote_address: 512,
        rkey: 7,
        ..WorkRequest::default()
    };
    a.post(SLOT, work).expect("the queue is empty");
    let (_, command) = a.engine_frame().expect("the doorbell was rung");
    assert_eq!(command[FALCON + 7] >> 5, 3, "the protocol type of NVMe");
    assert_eq!(command[FALCON + 28..FALCON + 44], [1, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(command.len(), FALCON + 28 + 16 + 1024);
    let (_, answer) = b.receive(command);
    assert!(b.memory()[8192 + 512..8192 + 1536].iter().all(|byte| *byte == 0xa5));
    assert_eq!((b.memory()[8192 + 511], b.memory()[8192 + 1536]), (0, 0));
    a.receive(answer);

    a.memory_mut()[..1024].fill(0);
    a.post(SLOT, WorkRequest { opcode: Verb::READ, length: 512, remote_address: 1024, ..work })
        .expect("the queue is empty");
    let (_, command) = a.engine_frame().expect("the doorbell was rung");
    assert_eq!(command[FALCON + 32..], [2, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2]);
    let (verdict, status) = b.receive(command);
    assert_eq!((verdict, &status[FALCON + 24..FALCON + 28]), (Verdict::Transmit, &[2, 0, 0, 0][..]));
    assert_eq!(status.len(), FALCON + 24 + 4 + 512);
    a.receive(status);
    assert!(a.memory()[..512].iter().all(|byte| *byte == 0xa5) && a.memory()[512] == 0);

    // D-45: a read of a block that is not there; and one whose region is removed before the answer is built.
    for rkey in [7, 8] {
        a.post(SLOT, WorkRequest { opcode: Verb::READ, length: 512, remote_address: 4096, rkey, ..work })
            .expect("the queue is empty");
        let (_, command) = a.engine_frame().expect("the doorbell was rung");
        let (_, status) = b.receive(command);
        assert_eq!(status[FALCON + 24..], [2, 2, 0, 0], "access");
        a.receive(status);
    }
    let ends: Vec<_> =
        std::iter::from_fn(|| a.poll_completion(SLOT)).map(|c| (c.status, c.ulp_code)).collect();
    assert_eq!(ends, [(0, 0), (0, 0), (0, 2), (0, 2)]);
}

/// Offset of the Falcon header in a frame with IPv4.
const FALCON: usize = 14 + 20 + 8 + 16;

/// Returns the frame with the protocol type of NVMe and without a checksum.
fn of_another_ulp(frame: &[u8]) -> Vec<u8> {
    const UDP: usize = 14 + 20;
    let mut frame = frame.to_vec();
    frame[FALCON + 7] = frame[FALCON + 7] & 0x1f | 3 << 5;
    frame[UDP + 6..UDP + 8].fill(0);
    frame
}

/// F-7.2-6, F-7.8-5, F-11-31: a request for a ULP that does not know the connection never reaches this connection's ULP.
/// A push is refused with NACK code 8, a pull is reclaimed. An answer of another ULP completes its pull in error.
#[test]
fn a_packet_of_another_ulp_does_not_reach_the_ulp() {
    let asked = [
        ("Push Data", WorkRequest { opcode: Verb::WRITE, length: 100, rkey: 1, ..WorkRequest::default() }),
        ("Pull Request", WorkRequest { opcode: Verb::READ, length: 100, rkey: 1, ..WorkRequest::default() }),
    ];
    for (name, work) in asked {
        let pull = work.opcode == Verb::READ;
        let (mut a, mut b, mut c) = (nic(0), nic(1), nic(1));
        a.open(SLOT, &parameters(0));
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        for target in [&mut b, &mut c] {
            target.open(SLOT, &parameters(1));
            target.register(Region { offset: 8192, length: 4096, key: 1, access, ..Region::default() });
            target.memory_mut()[8192..8292].fill(0x11);
        }
        a.memory_mut()[..100].fill(0xa5);
        a.post(SLOT, WorkRequest { flags: WorkFlags::SIGNALED, ..work }).expect("the queue is empty");
        let (_, request) = a.engine_frame().expect("the doorbell was rung");
        let (verdict, nack) = b.receive(of_another_ulp(&request));
        assert_eq!(b.counter(Counter::DropProtocol), 1, "{name}");
        assert!(b.memory()[8192..8292].iter().all(|byte| *byte == 0x11), "{name}");
        if !pull {
            assert_eq!((verdict, nack[FALCON + 7] >> 1 & 0xf, nack[FALCON + 36]), (Verdict::Transmit, 8, 8));
            continue;
        }
        assert!(verdict == Verdict::Drop || nack[FALCON + 7] >> 1 & 0xf == 9, "nothing but an ACK");
        let (_, answer) = c.receive(request);
        a.receive(of_another_ulp(&answer));
        assert!(a.memory()[..100].iter().all(|byte| *byte == 0xa5), "nothing was placed");
        let completion = a.poll_completion(SLOT).expect("it is over");
        assert_eq!(completion.status, CompletionCode::OperationError as u8);
    }
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
fn memory_is_refused_where_an_access_does_not_fit() {
    let mut nic = nic(0);
    let end = DEFAULT_MEMORY;
    let mut frame = FrameAtHand { bytes: vec![1; 200], ..FrameAtHand::default() };
    let mut platform = nic.platform(&mut frame);
    assert!(platform.store_value(end - 8, 1));
    assert!(!platform.store_value(end - 7, 1));
    assert!(!platform.store_value(u64::MAX, 1));
    assert!(platform.frame_to_memory(0, end - 200, 200));
    assert!(!platform.frame_to_memory(1, end - 200, 200), "beyond the frame");
    assert!(!platform.frame_to_memory(0, end - 199, 200), "beyond the memory");
    assert!(!platform.frame_to_memory(0, end - 200, 0), "a copy of zero bytes is rejected");
    assert_eq!(
        [end - 8, end - 1].map(|at| platform.atomic(Atomic::FetchAdd, at, 1, 0)),
        [u64::from_ne_bytes([1; 8]), u64::from_ne_bytes([1; 8]) + 1]
    );
    assert_eq!(platform.atomic(Atomic::FetchAdd, end, 1, 0), 0);
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
    let expected = u64::from(u16::from_ne_bytes([1, 2])) + u64::from(u16::from_ne_bytes([3, 0]));
    let s: Box<Scratch> = bytemuck::zeroed_box();
    assert_eq!(nic.platform(&mut FrameAtHand::default()).sum_packet(&s, 0, 3), expected);
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
