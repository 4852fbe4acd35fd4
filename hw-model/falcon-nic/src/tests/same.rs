//! Tests that the card in cycles and the plain card produce the same bytes, contexts and counters.

use std::cell::RefCell;
use std::rc::Rc;

use clocked::Cycle;
use host_nic::{FrameAtHand, HostNic};
use transport_common::connection::State;
use transport_common::datapath::Verdict;
use transport_common::queues::{ReceiveRequest, Verb, WorkRequest};
use transport_common::timing_wheel::WheelTick;
use transport_common::units::Picoseconds;

use super::super::testbed::{self, Traffic};
use super::*;

const CONNECTIONS: usize = 12;

/// The card in cycles, the plain card, and the common peer of both.
struct Beside {
    card: Rc<RefCell<HostNic>>,
    pipeline: Pipeline<LiveFrame>,
    plain: HostNic,
    peer: HostNic,
    /// Every n-th frame to the peer is lost. With 0 none is lost.
    loses: u64,
    to_peer: u64,
}

fn end(side: usize) -> HostNic {
    let mut host = HostNic::new(testbed::host_config(side));
    testbed::open(&mut host, side, CONNECTIONS, Traffic::CONSTANT);
    host.register(REGION);
    for (at, byte) in host.memory_mut()[..1 << 20].iter_mut().enumerate() {
        *byte = (at * 31 + side) as u8;
    }
    for slot in 0..CONNECTIONS {
        for number in 0..16 {
            let local_offset = (4 << 20) + (slot * 16 + number) as u64 * 4096;
            let buffer = ReceiveRequest { local_offset, length: 4096, ..ReceiveRequest::default() };
            host.post_receive(slot, buffer).expect("there is room");
        }
    }
    host
}

impl Beside {
    fn offer(&mut self, task: Task, frame: FrameAtHand, at: Cycle) {
        let bytes = if task == Task::Receive { frame.bytes.len() as u32 } else { 0 };
        let backend = SharedCard::backend(Rc::clone(&self.card), frame);
        self.pipeline.offer(Offer { task, source: Source::Backend(backend), bytes }, at);
    }

    fn finish(&mut self) -> Vec<Finished<LiveFrame>> {
        self.pipeline.run_until(self.pipeline.now() + 1_000_000);
        assert_eq!(self.pipeline.unfinished(), 0);
        core::iter::from_fn(|| self.pipeline.take_finished()).collect()
    }

    /// Gives frames of the peer to the card in cycles, all in flight at once. Then gives the same frames to the
    /// plain card, one after the other, and compares the two.
    fn receive(&mut self, frames: Vec<Vec<u8>>) {
        let at = self.pipeline.now();
        let arrival = self.pipeline.time_of(at);
        for bytes in &frames {
            let limit = self.card.borrow().frame_limit(bytes);
            let frame = FrameAtHand { bytes: bytes.clone(), limit, arrival: Some(arrival) };
            self.offer(Task::Receive, frame, at);
        }
        let mut finished = self.finish();
        assert_eq!(finished.len(), frames.len());
        for frame in frames {
            // Each frame is of another connection, so its UDP source port identifies the finished run. All runs
            // read the clock once.
            let place = finished.iter().position(|of| {
                self.plain.set_readings(of.readings.iter().copied());
                of.readings.len() == 1
                    && of.offered == at
                    && same_connection(&of.backend.0.frame.bytes, &frame)
            });
            let of = finished.remove(place.expect("it finished"));
            self.plain.set_readings(of.readings);
            let (verdict, bytes) = self.plain.receive_waited(frame, arrival);
            assert_eq!((Some(verdict), &bytes), (of.verdict, &of.backend.0.frame.bytes));
            if verdict == Verdict::Transmit {
                self.answer(bytes);
            }
        }
        self.compare();
    }

    /// Gives a frame to the peer, unless it is lost.
    fn answer(&mut self, frame: Vec<u8>) {
        self.to_peer += 1;
        if self.loses == 0 || !self.to_peer.is_multiple_of(self.loses) {
            self.peer.receive(frame);
        }
    }

    /// Makes one turn on both cards and compares them.
    fn turn(&mut self, look_at_wheel: bool) {
        self.offer(Task::Turn { look_at_wheel }, FrameAtHand::of_the_engine(), self.pipeline.now());
        let of = self.finish().pop().expect("it finished");
        self.plain.set_readings(of.readings);
        // The plain card polls the timing wheel in every eighth frame.
        self.plain.set_frames(if look_at_wheel { 7 } else { 0 });
        match self.plain.engine_frame() {
            None => assert!(of.idle),
            Some((verdict, bytes)) => {
                assert_eq!((Some(verdict), &bytes), (of.verdict, &of.backend.0.frame.bytes));
                if verdict == Verdict::Transmit {
                    self.answer(bytes);
                }
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let card = self.card.borrow();
        for slot in 0..CONNECTIONS {
            assert!(card.entry(slot) == self.plain.entry(slot), "connection {slot}");
            assert_eq!(card.entry(slot).connection.state, State::Open);
        }
        assert_eq!(card.counters(), self.plain.counters());
        assert_eq!(card.free_cells().len(), self.plain.free_cells().len());
        assert!(card.memory() == self.plain.memory());
    }
}

/// Returns true if two untagged frames over IPv4 have the same UDP source port.
fn same_connection(a: &[u8], b: &[u8]) -> bool {
    // Each connection has its own UDP source port, the same in both directions.
    a[34..36] == b[34..36]
}

/// Frames of different connections are in flight at the same time and do not affect one another.
#[test]
fn the_card_in_cycles_and_the_plain_one_do_the_same_with_frames_in_flight_together() {
    let statistics = play(false);
    assert!(statistics.receives_in_flight_peak > 4, "frames were in flight together");
}

/// The receive cell of a held request, and the number of cells in use, are the same only for one frame after the
/// other. So this test has one frame in flight.
#[test]
fn the_card_in_cycles_and_the_plain_one_do_the_same_when_frames_are_lost() {
    let statistics = play(true);
    assert!(statistics.event(Event::HeldReceived).is_some(), "requests were held");
    assert!(statistics.event(Event::SentAgain).is_some(), "responses were lost too");
}

/// Plays all operations of a peer on both cards. If `lossy`, every fifteenth frame of the peer and every eleventh
/// frame to the peer is lost.
fn play(lossy: bool) -> Statistics {
    let card = Rc::new(RefCell::new(end(1)));
    let pipeline = Pipeline::new(Parameters::default()).expect("possible");
    let mut beside =
        Beside { card, pipeline, plain: end(1), peer: end(0), loses: if lossy { 11 } else { 0 }, to_peer: 0 };
    let kinds = [Verb::WRITE, Verb::READ, Verb::SEND_ONLY, Verb::FETCH_ADD];
    for slot in 0..CONNECTIONS {
        for number in 0..12_u64 {
            let opcode = kinds[(slot + number as usize) % kinds.len()];
            let length = if opcode == Verb::FETCH_ADD { 8 } else { 100 * number as u32 + 1 };
            let from = number * 4096;
            let to = (8 << 20) + (slot as u64 * 16 + number) * 4096;
            let work = match opcode {
                Verb::READ => write(to, from, length),
                Verb::FETCH_ADD => write(to, (12 << 20) + slot as u64 * 8, length),
                _ => write(from, to, length),
            };
            beside.peer.post(slot, WorkRequest { opcode, swap_or_add: 3, ..work }).expect("there is room");
        }
    }
    let (mut rounds, mut frame_number) = (0, 0);
    while rounds < 2_000 {
        rounds += 1;
        beside.peer.set_time(beside.pipeline.time_of(beside.pipeline.now()));
        let mut frames: Vec<Vec<u8>> = vec![];
        while let Some((verdict, frame)) = beside.peer.engine_frame() {
            let fresh = frames.iter().all(|other| !same_connection(other, &frame));
            frame_number += 1;
            if verdict != Verdict::Transmit || lossy && frame_number % 15 == 0 {
                continue;
            }
            if !fresh || lossy {
                beside.receive(core::mem::take(&mut frames));
            }
            frames.push(frame);
        }
        if !frames.is_empty() {
            beside.receive(frames);
        }
        while beside.card.borrow().asking() != 0 {
            beside.turn(false);
        }
        let due = beside.card.borrow_mut().wheel().next_event();
        let next = due.map_or(Picoseconds(0), WheelTick::start);
        let cycle = beside.pipeline.cycle_of(next).max(beside.pipeline.now() + 2_000);
        beside.pipeline.skip_to(cycle);
        beside.card.borrow_mut().set_time(beside.pipeline.time_of(cycle));
        if due.is_some() {
            beside.turn(true);
        }
        let done = (0..CONNECTIONS).all(|slot| {
            let initiator = &beside.peer.entry(slot).connection;
            let [data, request] = initiator.flow.delivery.lanes.map(|lane| lane.tx);
            data.base == data.next && request.base == request.next
        });
        if done && beside.peer.asking() == 0 && due.is_none() {
            break;
        }
    }
    assert!(rounds < 2_000, "it ends");
    let card = beside.card.borrow();
    let completions: usize =
        (0..CONNECTIONS).map(|slot| core::iter::from_fn(|| beside.peer.poll_completion(slot)).count()).sum();
    assert_eq!(completions, CONNECTIONS * 12);
    assert_eq!(card.cells_in_use(), 0);
    drop(card);
    beside.pipeline.statistics()
}
