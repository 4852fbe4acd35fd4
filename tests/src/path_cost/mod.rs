//! How many instructions a WRITE, a READ and an ACK execute in the programs, and how much code that is.
//!
//! The counts are those of the object that the node loads. They do not depend on the machine, so they tell whether a change
//! makes the way of a packet longer where a bench cannot. The kernel's own changes to the programs (map lookups in place of
//! calls) are not in them.
//!
//! Two model cards exchange the operations. Before a step of one of them, its state is copied to the maps of an interpreter,
//! which takes the same step with the programs. Verdict and frame must be the same.

mod machine;
mod storage;

use core::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, ensure};
use host_nic::testbed::{connection, node};
use host_nic::{HostConfig, HostNic};
use tiercel_node::programs::{ENGINE, REDELIVER, WIRE};
use transport_common::connection::Snapshot;
use transport_common::datapath::Verdict;
use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
use transport_common::shard::NodePage;
use transport_common::units::Picoseconds;

use crate::differential::{Case, Stimulus, bytes};
use crate::verifier::object;

pub use machine::Count;
use machine::{Machine, Ran};

/// The slot of the connection.
const SLOT: usize = 5;
/// Bytes of a small operation.
const SMALL: u32 = 64;
/// Operations before those that are counted: the first ones of a connection are not typical.
const BEFORE: usize = 32;
/// Time between two steps.
const STEP: Picoseconds = Picoseconds(1_000_000);
/// An interface that is not the loopback interface.
const INTERFACE: u32 = 7;

/// The number of a program in the machine. The programs behind the first are in the order in which they are jumped to.
#[derive(Clone, Copy)]
enum Program {
    Wire = 0,
    Engine = 1,
}

/// A card of the model, and the machine that takes its steps too.
struct Card {
    nic: HostNic,
    machine: Machine,
}

impl Card {
    fn new(side: usize) -> Result<Self> {
        let config = node(side);
        let mut nic = HostNic::new(HostConfig::new(config));
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        nic.register(Region { offset: 0, length: 4096, key: 1, access, ..Region::default() });
        nic.open(SLOT, &connection(side, SLOT));
        let machine = Machine::new(storage::load(&object()?, &config, &[WIRE, ENGINE, REDELIVER])?);
        Ok(Self { nic, machine })
    }

    /// Copies the state of the card to the machine's maps.
    fn copy_state(&mut self) -> Result<()> {
        let case = Case::snapshot(&self.nic, SLOT, Stimulus::Frame(Vec::new()));
        let put = |to: u64, from: &[u8]| {
            // SAFETY: the value of the map is as large as what the caller copies into it.
            unsafe { (to as *mut u8).copy_from(from.as_ptr(), from.len()) };
        };
        let locked = self.machine.value("CONNECTIONS", SLOT as u32)?;
        put(locked, &0_u64.to_ne_bytes());
        put(locked + 8, bytemuck::bytes_of::<Snapshot>(&case.entry));
        put(self.machine.value("QUEUE_PAIRS", SLOT as u32)?, &bytes(&case.queues));
        put(self.machine.value("REGIONS", 0)?, bytemuck::cast_slice(&case.regions[..]));
        let page = self.machine.value("NODE", 0)?;
        let ready = &self.nic.page().ready;
        put(page + core::mem::offset_of!(NodePage, ready.words) as u64, bytemuck::cast_slice(&ready.bits()));
        let summary = ready.summary.load(Relaxed).to_ne_bytes();
        put(page + core::mem::offset_of!(NodePage, ready.summary) as u64, &summary);
        // The next frame of the engine does not look at the wheel, as seven of eight do not.
        put(page + core::mem::offset_of!(NodePage, frames) as u64, &0_u64.to_ne_bytes());
        self.nic.set_frames(0);
        self.machine.clock = self.nic.now().0 / 1000;
        Ok(())
    }

    /// Receives a frame with card and machine.
    fn receive(&mut self, frame: &[u8]) -> Result<(Option<Vec<u8>>, Count)> {
        self.copy_state()?;
        let ran = self.machine.run(Program::Wire as usize, frame, INTERFACE)?;
        let (verdict, answer) = self.nic.receive(frame.to_vec());
        compare(verdict, &answer, &ran, 3)
    }

    /// Takes a turn of the engine with card and machine.
    fn turn(&mut self) -> Result<(Option<Vec<u8>>, Count)> {
        self.copy_state()?;
        let ran = self.machine.run(
            Program::Engine as usize,
            &[0; bpf_call::LONGEST_LIVE_FRAME as usize],
            INTERFACE,
        )?;
        let (verdict, sent) = self.nic.engine_frame().context("the engine has nothing to do")?;
        compare(verdict, &sent, &ran, 4)
    }
}

/// Returns the frame that was sent, if both sent the same, and the count.
fn compare(verdict: Verdict, frame: &[u8], ran: &Ran, sends: u32) -> Result<(Option<Vec<u8>>, Count)> {
    let action = match verdict {
        Verdict::Drop => 1,
        Verdict::Pass => 2,
        Verdict::Transmit => sends,
    };
    ensure!(ran.action == action, "the programs end with action {}, the model with {action}", ran.action);
    if verdict != Verdict::Transmit {
        return Ok((None, ran.count));
    }
    ensure!(ran.frame == frame, "the programs send\n{:02x?}\nand the model\n{frame:02x?}", ran.frame);
    Ok((Some(ran.frame.clone()), ran.count))
}

/// Two cards.
struct Pair {
    a: Card,
    b: Card,
    now: Picoseconds,
    /// The last request.
    last: Vec<u8>,
}

impl Pair {
    fn step(&mut self) {
        self.now = self.now.after(transport_common::units::PicosecondSpan(STEP.0));
        self.a.nic.set_time(self.now);
        self.b.nic.set_time(self.now);
    }

    /// Posts two operations, of which the second is the last of a burst, and returns the counts of both: the sender's engine,
    /// the receiver, and the sender when it gets the answer, if there was one.
    fn operations(&mut self, opcode: Verb) -> Result<[[Count; 3]; 2]> {
        let work = WorkRequest {
            opcode,
            length: SMALL,
            rkey: 1,
            flags: WorkFlags::SIGNALED,
            ..WorkRequest::default()
        };
        for _ in 0..2 {
            self.a.nic.post(SLOT, work).map_err(|_| anyhow::anyhow!("the send queue is full"))?;
        }
        let counts = [self.exchange()?, self.exchange()?];
        while self.a.nic.poll_completion(SLOT).is_some() {}
        Ok(counts)
    }

    /// Receives the last request again. The next one comes after [`STEP`].
    fn copy(&mut self) -> Result<Count> {
        self.step();
        let (answer, count) = self.b.receive(&self.last.clone())?;
        ensure!(answer.is_none(), "a copy is answered at once");
        Ok(count)
    }

    fn exchange(&mut self) -> Result<[Count; 3]> {
        self.step();
        let (sent, engine) = self.a.turn()?;
        let sent = sent.context("nothing was sent")?;
        self.last.clone_from(&sent);
        let (answer, wire) = self.b.receive(&sent)?;
        let Some(mut frame) = answer else { return Ok([engine, wire, Count::default()]) };
        let (more, back) = self.a.receive(&frame)?;
        // What an answer asks for goes on until nobody replies.
        let mut next = more;
        let mut at_b = true;
        while let Some(reply) = next {
            frame = reply;
            let card = if at_b { &mut self.b } else { &mut self.a };
            next = card.receive(&frame)?.0;
            at_b = !at_b;
        }
        Ok([engine, wire, back])
    }
}

/// Returns the counts by the name of what is done.
///
/// # Errors
/// If the programs and the model do not do the same, or an operation does not go the way that is expected.
pub fn counts() -> Result<Vec<(&'static str, Count)>> {
    let mut pair = Pair { a: Card::new(0)?, b: Card::new(1)?, now: STEP, last: vec![] };
    for n in 0..BEFORE {
        pair.operations(if n % 2 == 0 { Verb::WRITE } else { Verb::READ })?;
    }
    let [write, placed, _] = typical(&mut pair, Verb::WRITE, false)?;
    let [_, acknowledged, ack] = typical(&mut pair, Verb::WRITE, true)?;
    // The first plans an ACK. The others are what a storm consists of.
    pair.copy()?;
    let copy = pair.copy()?;
    let [read, answered, taken] = typical(&mut pair, Verb::READ, true)?;
    Ok(vec![
        ("WRITE: the engine sends it", write),
        ("WRITE: the target places it", placed),
        ("WRITE: the target places it and acknowledges", acknowledged),
        ("ACK: the initiator completes a WRITE", ack),
        ("READ: the engine sends the request", read),
        ("READ: the target answers", answered),
        ("READ: the initiator takes the answer", taken),
        ("WRITE: the target drops a copy", copy),
    ])
}

/// Returns the counts of the first operation that is answered, or is not.
fn typical(pair: &mut Pair, opcode: Verb, answered: bool) -> Result<[Count; 3]> {
    for _ in 0..BEFORE {
        let counts = pair.operations(opcode)?.into_iter().find(|of| (of[2] != Count::default()) == answered);
        if let Some(counts) = counts {
            return Ok(counts);
        }
    }
    anyhow::bail!("no {opcode:?} of {BEFORE} is {}", if answered { "answered" } else { "not answered" })
}
