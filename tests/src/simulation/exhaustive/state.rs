//! A state of a small world, and the steps that lead to the next.

use host_nic::{Doorbells, HostConfig, HostNic, testbed};
use transport_common::connection::Entry;
use transport_common::datapath::Verdict;
use transport_common::queues::{
    AccessFlags, CONNECTIONS, Completion, NodeConfig, PAGE_BYTES, QueuePair, ReceiveRequest, Region,
};
use transport_common::timing_wheel::TimingWheel;
use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};

use super::results::{prepare, work};
use super::{BYTES, Choice, SmallOp, SmallWorld};
use crate::simulation::host::Before;
use crate::simulation::invariants;

/// The slot of the connection at both hosts.
pub(super) const SLOT: usize = 5;
/// Region of each host that the other may use: its key, its place, its length.
pub(super) const KEY: u32 = 1;
pub(super) const REMOTE: u64 = 512;
const REMOTE_BYTES: u64 = 512;
/// Where receives begin.
pub(super) const RECEIVES: u64 = 1024;
/// Bytes of a host's memory that are used.
pub(super) const USED: usize = 1536;
const MEMORY: u64 = 1 << 16;
const CELLS: usize = 4;
/// An engine frame with a multiple of this number looks at the timing wheel.
const LOOKS_AT_WHEEL: u64 = 8;
/// The time at the beginning.
const START: Picoseconds = Picoseconds(1 << 40);

/// A state of the world.
pub(super) struct Small<'a> {
    pub(super) world: &'a SmallWorld,
    pub(super) hosts: [HostNic; 2],
    pub(super) now: Picoseconds,
    /// Frames on their way, with the host that they go to.
    pub(super) frames: Vec<(usize, Vec<u8>)>,
    pub(super) completions: [Vec<Completion>; 2],
    pub(super) receives: [u64; 2],
    pub(super) losses: u8,
    pub(super) duplicates: u8,
    pub(super) timeouts: u8,
    pub(super) closed: bool,
}

/// A copy of a state.
pub(super) struct Saved {
    cards: [SavedCard; 2],
    now: Picoseconds,
    frames: Vec<(usize, Vec<u8>)>,
    completions: [Vec<Completion>; 2],
    receives: [u64; 2],
    budget: (u8, u8, u8),
    closed: bool,
}

/// What steps change of a card. Counters are not in it: nothing reads them.
struct SavedCard {
    entry: Box<Entry>,
    queues: Vec<u8>,
    wheel: Box<TimingWheel<CONNECTIONS>>,
    doorbells: Doorbells,
    free_cells: Vec<u32>,
    cells: Vec<u8>,
    memory: Vec<u8>,
}

impl SavedCard {
    fn of(nic: &mut HostNic) -> Self {
        let cells = (1..=CELLS as u32).filter_map(|cell| nic.cell(cell));
        Self {
            cells: cells.flat_map(|cell| cell[..USED_OF_CELL].iter().copied()).collect(),
            entry: Box::new(*nic.entry(SLOT)),
            queues: bytes(nic.queue_pair(SLOT)),
            wheel: Box::new(nic.wheel().clone()),
            doorbells: *nic.doorbells(),
            free_cells: nic.free_cells().to_vec(),
            memory: nic.memory()[..USED].to_vec(),
        }
    }

    fn restore(&self, nic: &mut HostNic, now: Picoseconds) {
        *nic.entry_mut(SLOT) = *self.entry;
        let queues = core::ptr::from_mut(nic.queue_pair_mut(SLOT)).cast::<u8>();
        // SAFETY: the bytes are those of queues, so they are as long and valid, and nothing else refers to the queues.
        unsafe { queues.copy_from_nonoverlapping(self.queues.as_ptr(), self.queues.len()) };
        nic.wheel().clone_from(&self.wheel);
        *nic.doorbells() = self.doorbells;
        nic.set_free_cells(self.free_cells.clone());
        for (cell, saved) in (1..).zip(self.cells.chunks(USED_OF_CELL)) {
            nic.cell_mut(cell).expect("the cell exists")[..USED_OF_CELL].copy_from_slice(saved);
        }
        nic.memory_mut()[..USED].copy_from_slice(&self.memory);
        nic.restore_time(now);
    }
}

/// Bytes of a receive cell that the operations use: headers and data.
const USED_OF_CELL: usize = 128;

/// Returns the bytes of queues that nobody else writes at this time.
fn bytes(queues: &QueuePair) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<QueuePair>()];
    // SAFETY: the vector has the size of the queues. All fields are numbers, in cells and atomics, without padding
    // between them (`transport_common::queues` asserts it). No reference to the contents of a cell is made.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(core::ptr::from_ref(queues).cast(), bytes.len()) };
    bytes
}

impl<'a> Small<'a> {
    pub(super) fn new(world: &'a SmallWorld) -> Self {
        let mut hosts = [0, 1].map(|side| {
            let node = NodeConfig { memory: MEMORY, ..testbed::node(side) };
            let mut nic = HostNic::new(HostConfig { cells: 4, ..HostConfig::new(node) });
            let mut parameters = testbed::connection(side, SLOT);
            parameters.config.ordered = world.ordered.into();
            parameters.config.checksum = 0;
            parameters.config.memory_pages = (MEMORY / PAGE_BYTES) as u32;
            // Whether a packet asks for an ACK depends on how many were sent before, and would tell states apart that
            // differ in nothing else. The last packet of a burst asks in any case.
            parameters.config.ack_request_percent = 0;
            // Both hosts have one clock, and no packet is refused for its time.
            parameters.config.replay_margin = PicosecondSpan(1 << 60);
            (parameters.request_window, parameters.data_window) = (world.window, world.window);
            parameters.config.transaction_timeout = Ticks::from_nanos(200_000_000_000);
            if world.close {
                // The other end gives up soon.
                parameters.config.max_retransmit_attempts = 2;
            }
            assert_eq!(parameters.check(), Ok(()));
            nic.open(SLOT, &parameters);
            let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
            nic.set_time(START);
            nic.register(Region { offset: REMOTE, length: REMOTE_BYTES, key: KEY, access });
            nic
        });
        for side in [0, 1] {
            for (number, op) in world.operations[side].iter().enumerate() {
                prepare(&mut hosts, side, number, *op);
                hosts[side].post(SLOT, work(number, *op)).expect("the queue is empty");
            }
        }
        Self {
            world,
            hosts,
            now: START,
            frames: vec![],
            completions: [vec![], vec![]],
            receives: [0; 2],
            losses: world.losses,
            duplicates: world.duplicates,
            timeouts: world.timeouts,
            closed: false,
        }
    }

    /// Returns a copy of the state.
    pub(super) fn save(&mut self) -> Saved {
        Saved {
            cards: self.hosts.each_mut().map(SavedCard::of),
            now: self.now,
            frames: self.frames.clone(),
            completions: self.completions.clone(),
            receives: self.receives,
            budget: (self.losses, self.duplicates, self.timeouts),
            closed: self.closed,
        }
    }

    /// Goes back to a state.
    pub(super) fn restore(&mut self, saved: &Saved) {
        for (card, nic) in saved.cards.iter().zip(&mut self.hosts) {
            card.restore(nic, saved.now);
        }
        self.now = saved.now;
        self.frames.clone_from(&saved.frames);
        self.completions.clone_from(&saved.completions);
        self.receives = saved.receives;
        (self.losses, self.duplicates, self.timeouts) = saved.budget;
        self.closed = saved.closed;
    }

    /// Returns the steps that are possible. Steps that make the same of equal frames are returned once.
    pub(super) fn choices(&self) -> Vec<Choice> {
        let mut choices = vec![];
        let distinct = (0..self.frames.len()).filter(|n| !self.frames[..*n].contains(&self.frames[*n]));
        let distinct: Vec<usize> = distinct.collect();
        choices.extend(distinct.iter().map(|n| Choice::Deliver(*n)));
        choices.extend((0..2).filter(|side| self.has_work(*side)).map(Choice::Engine));
        let busy = !choices.is_empty();
        choices.extend((0..2).filter(|side| self.lacks_receive(*side)).map(Choice::Receive));
        if self.losses > 0 {
            choices.extend(distinct.iter().map(|n| Choice::Lose(*n)));
        }
        if self.duplicates > 0 {
            choices.extend(distinct.iter().map(|n| Choice::Duplicate(*n)));
        }
        // Without a receive, a SEND would be tried again for ever.
        let early = busy || (0..2).any(|side| self.lacks_receive(side));
        if (!early || self.timeouts > 0) && self.next_timer().is_some() {
            choices.push(Choice::Timeout);
        }
        if self.world.close && !self.closed {
            choices.extend([Choice::Close(0), Choice::Close(1)]);
        }
        choices
    }

    fn has_work(&self, side: usize) -> bool {
        self.hosts[side].next_event().is_some_and(|at| !at.is_later_than(self.now))
    }

    /// Whether a host has not yet posted a receive for each SEND of the other.
    fn lacks_receive(&self, side: usize) -> bool {
        let sends = self.world.operations[1 - side].iter().filter(|op| **op == SmallOp::Send);
        (self.receives[side] as usize) < sends.count()
    }

    fn next_timer(&self) -> Option<Picoseconds> {
        let later = |nic: &HostNic| nic.next_event().filter(|at| at.is_later_than(self.now));
        self.hosts.iter().filter_map(later).min_by_key(|at| at.0)
    }

    pub(super) fn take(&mut self, choice: Choice) {
        match choice {
            Choice::Engine(side) => self.engine(side),
            Choice::Deliver(number) => {
                let (side, frame) = self.frames.remove(number);
                self.deliver(side, frame);
            }
            Choice::Duplicate(number) => {
                self.duplicates -= 1;
                let (side, frame) = self.frames[number].clone();
                self.deliver(side, frame);
            }
            Choice::Lose(number) => {
                self.losses -= 1;
                self.frames.remove(number);
            }
            Choice::Timeout => {
                let waits = |side| self.has_work(side) || self.lacks_receive(side);
                let early = !self.frames.is_empty() || (0..2).any(waits);
                self.timeouts -= u8::from(early);
                self.now = self.next_timer().expect("a timer runs");
                for nic in &mut self.hosts {
                    nic.set_time(self.now);
                }
            }
            Choice::Receive(side) => {
                let number = self.receives[side];
                let local_offset = RECEIVES + number * 64;
                let receive = ReceiveRequest { local_offset, wr_id: number, length: BYTES, reserved: 0 };
                self.hosts[side].post_receive(SLOT, receive).expect("the queue has room");
                self.receives[side] += 1;
            }
            Choice::Close(side) => {
                self.closed = true;
                self.hosts[side].close(SLOT);
            }
        }
        for side in [0, 1] {
            while let Some(completion) = self.hosts[side].poll_completion(SLOT) {
                self.completions[side].push(completion);
            }
        }
    }

    fn engine(&mut self, side: usize) {
        let nic = &mut self.hosts[side];
        let before = Before::of(&nic.entry(SLOT).connection);
        // The next frame looks at the timing wheel. In a service by the doorbell all timers that are due run as well, so
        // nothing is left out.
        nic.set_frames(LOOKS_AT_WHEEL - 1);
        let sent = nic.engine_frame();
        self.after(side, &before, sent);
    }

    fn deliver(&mut self, side: usize, frame: Vec<u8>) {
        let nic = &mut self.hosts[side];
        let before = Before::of(&nic.entry(SLOT).connection);
        let answer = nic.receive(frame);
        self.after(side, &before, Some(answer));
    }

    fn after(&mut self, side: usize, before: &Before, sent: Option<(Verdict, Vec<u8>)>) {
        if let Some((Verdict::Transmit, frame)) = sent {
            self.frames.push((1 - side, frame));
        }
        let entry = self.hosts[side].entry(SLOT);
        invariants::check(entry);
        before.check(&entry.connection);
    }
}
