//! A small world, walked entirely: every order in which its events can happen.
//!
//! Two hosts have one connection with windows of a few packets, and a few operations. In each state the walk takes every
//! step that is possible: an engine serves a connection; a frame arrives, any of those on their way; a frame is lost; a
//! copy of it arrives; time passes to the next timer, also while there is other work; the target posts a receive; an end
//! closes the connection. How often the network and the timers may interfere is limited. Whatever cannot be undone is
//! checked after each step, the results at the end of each path. States are compared by a hash, so none is walked twice.
//!
//! The clock stands still between timers. IVs, which would tell apart states that differ in nothing else, are not hashed.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use host_nic::{HostConfig, HostNic, testbed};
use rustc_hash::{FxHashSet, FxHasher};
use transport_common::connection::{Entry, State, Statistics};
use transport_common::datapath::Verdict;
use transport_common::queues::{
    AccessFlags, Completion, ReceiveRequest, Region, Verb, WorkFlags, WorkRequest,
};
use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};

use super::host::Before;
use super::invariants;

use SmallOp::{FetchAdd, Read, Send, Write};

/// The slot of the connection at both hosts.
const SLOT: usize = 5;
/// Region of each host that the other may use: its key, its place, its length.
const KEY: u32 = 1;
const REMOTE: u64 = 8192;
const REMOTE_BYTES: u64 = 4096;
/// Bytes of a WRITE, a READ or a SEND.
const BYTES: u32 = 24;
/// Where receives begin.
const RECEIVES: u64 = 16384;
const MEMORY: usize = 1 << 16;
/// Offset of the fields in a frame without a VLAN tag over IPv4.
const IV: usize = 14 + 20 + 8 + 8;
/// Longest path. A longer one is a livelock.
const LONGEST_PATH: usize = 400;
/// Number of `engine_frame` calls after which the engine has looked at the timing wheel.
const LOOKS: usize = 8;

/// An operation of a small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallOp {
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// Fetch-add.
    FetchAdd,
    /// SEND, for which the target has to post a receive.
    Send,
}

/// A small world, and how often the network and the timers may interfere.
#[derive(Clone, Debug)]
pub struct SmallWorld {
    /// A name for people.
    pub name: &'static str,
    /// Whether the connection is ordered.
    pub ordered: bool,
    /// Operations of both hosts.
    pub operations: [&'static [SmallOp]; 2],
    /// Size of the request and data windows, packets.
    pub window: u32,
    /// Frames that may be lost.
    pub losses: u8,
    /// Frames of which a copy may arrive.
    pub duplicates: u8,
    /// Timers that may run although there is other work.
    pub timeouts: u8,
    /// Whether an end may close the connection.
    pub close: bool,
}

/// What a walk saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Walk {
    /// Different states.
    pub states: u64,
    /// Steps from one state to another.
    pub steps: u64,
    /// States in which everything has ended.
    pub ends: u64,
    /// Steps of the longest path.
    pub longest: usize,
    /// Whether every state was seen. Otherwise the limit was reached.
    pub complete: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The engine of a host works.
    Engine(usize),
    /// A frame arrives, by its place among those on their way.
    Deliver(usize),
    /// A frame arrives, and a copy of it stays on its way.
    Duplicate(usize),
    /// A frame is lost.
    Lose(usize),
    /// Time passes to the next timer.
    Timeout,
    /// A host posts its next receive.
    Receive(usize),
    /// A host closes the connection.
    Close(usize),
}

/// A state of the world.
struct Small<'a> {
    world: &'a SmallWorld,
    hosts: [HostNic; 2],
    now: Picoseconds,
    /// Frames on their way, with the host that they go to.
    frames: Vec<(usize, Vec<u8>)>,
    completions: [Vec<Completion>; 2],
    receives: [u64; 2],
    losses: u8,
    duplicates: u8,
    timeouts: u8,
    closed: bool,
}

const EVERY_KIND: &[SmallOp] = &[Write, Read, Send];

const fn world(name: &'static str, ordered: bool, operations: [&'static [SmallOp]; 2]) -> SmallWorld {
    SmallWorld { name, ordered, operations, window: 2, losses: 1, duplicates: 1, timeouts: 1, close: false }
}

impl SmallWorld {
    /// The small worlds that are walked.
    pub const ALL: [Self; 8] = [
        world("ordered", true, [EVERY_KIND, &[]]),
        world("unordered", false, [EVERY_KIND, &[]]),
        SmallWorld { losses: 2, ..world("ordered, two losses", true, [&[Write, Read], &[]]) },
        SmallWorld { losses: 2, ..world("unordered, two losses", false, [&[Send, FetchAdd], &[]]) },
        SmallWorld {
            duplicates: 2,
            losses: 0,
            ..world("ordered, two copies", true, [&[FetchAdd, Send], &[]])
        },
        SmallWorld {
            duplicates: 0,
            timeouts: 0,
            ..world("ordered, both ends", true, [&[Write, Send], &[Read]])
        },
        SmallWorld {
            duplicates: 0,
            timeouts: 0,
            ..world("unordered, both ends", false, [&[FetchAdd], &[Send, Write]])
        },
        SmallWorld {
            losses: 0,
            duplicates: 1,
            close: true,
            ..world("ordered, closed", true, [&[Write, Read], &[]])
        },
    ];

    /// Walks the world. Stops after `most` states.
    ///
    /// # Panics
    /// If a check fails; `on_failure` gets the path before.
    pub fn walk(
        &self,
        most: u64,
        progress: &mut dyn FnMut(&Walk),
        on_failure: &mut dyn FnMut(&[Choice]),
    ) -> Walk {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut walk = Walk { complete: true, ..Walk::default() };
        // Paths that are still to be walked. A path is played from the beginning, because a card cannot be copied.
        let mut open: Vec<Vec<Choice>> = vec![vec![]];
        while let Some(mut path) = open.pop() {
            let mut state = Small::new(self);
            let guard = Guard { path: &mut path, tell: on_failure };
            for number in 0..guard.path.len() {
                state.take(guard.path[number]);
            }
            loop {
                if !seen.insert(state.hash()) {
                    break;
                }
                walk.states += 1;
                if walk.states.is_multiple_of(4096) {
                    progress(&walk);
                }
                if walk.states >= most {
                    walk.complete = false;
                    core::mem::forget(guard);
                    return walk;
                }
                let choices = state.choices();
                let Some((first, others)) = choices.split_first() else {
                    state.verify();
                    walk.ends += 1;
                    break;
                };
                walk.steps += choices.len() as u64;
                let here = &*guard.path;
                open.extend(
                    others.iter().map(|choice| here.iter().copied().chain([*choice]).collect::<Vec<_>>()),
                );
                guard.path.push(*first);
                walk.longest = walk.longest.max(guard.path.len());
                assert!(guard.path.len() < LONGEST_PATH, "the world does not come to rest");
                state.take(*first);
            }
            core::mem::forget(guard);
        }
        walk
    }
}

/// Tells the path if a check fails.
struct Guard<'a> {
    path: &'a mut Vec<Choice>,
    tell: &'a mut dyn FnMut(&[Choice]),
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        (self.tell)(self.path);
    }
}

impl<'a> Small<'a> {
    fn new(world: &'a SmallWorld) -> Self {
        let mut hosts = [0, 1].map(|side| {
            let config = HostConfig::new(testbed::node(side));
            let mut nic = HostNic::new(HostConfig { cells: 4, memory: MEMORY, ..config });
            let mut parameters = testbed::connection(side, SLOT);
            parameters.config.ordered = world.ordered.into();
            parameters.config.checksum = 0;
            (parameters.request_window, parameters.data_window) = (world.window, world.window);
            parameters.config.transaction_timeout = Ticks::from_nanos(200_000_000_000);
            if world.close {
                // The other end gives up soon.
                parameters.config.max_retransmit_attempts = 2;
            }
            assert_eq!(parameters.check(), Ok(()));
            nic.open(SLOT, &parameters);
            let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
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
            now: Picoseconds(1 << 40),
            frames: vec![],
            completions: [vec![], vec![]],
            receives: [0; 2],
            losses: world.losses,
            duplicates: world.duplicates,
            timeouts: world.timeouts,
            closed: false,
        }
    }

    /// Returns the steps that are possible. Steps that make the same of equal frames are returned once.
    fn choices(&self) -> Vec<Choice> {
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

    fn take(&mut self, choice: Choice) {
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
        nic.set_time(self.now);
        let before = Before::of(&nic.entry(SLOT).connection);
        // An idle frame does not look at the timing wheel, so a due timer may need some.
        let sent = (0..LOOKS).find_map(|_| nic.engine_frame());
        self.after(side, &before, sent);
    }

    fn deliver(&mut self, side: usize, frame: Vec<u8>) {
        let nic = &mut self.hosts[side];
        nic.set_time(self.now);
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

    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for nic in &self.hosts {
            let mut entry = Box::new(*nic.entry(SLOT));
            forget_history(&mut entry);
            hasher.write(bytemuck::bytes_of(&*entry));
            let queues = nic.queue_pair(SLOT);
            queues.command.load(core::sync::atomic::Ordering::Relaxed).hash(&mut hasher);
            hasher.write(&nic.memory()[..MEMORY]);
            nic.asking().hash(&mut hasher);
            nic.next_event().map(|at| at.0).hash(&mut hasher);
            nic.cells_in_use().hash(&mut hasher);
        }
        let mut frames: Vec<(usize, Vec<u8>)> = self.frames.clone();
        for (_, frame) in &mut frames {
            frame[IV..IV + 8].fill(0);
        }
        frames.sort_unstable();
        frames.hash(&mut hasher);
        for completion in self.completions.iter().flatten() {
            hasher.write(bytemuck::bytes_of(completion));
        }
        self.completions.each_ref().map(Vec::len).hash(&mut hasher);
        (self.now.0, self.receives, self.losses, self.duplicates, self.timeouts, self.closed)
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Checks the results when nothing can happen any more.
    fn verify(&self) {
        for side in [0, 1] {
            let nic = &self.hosts[side];
            let operations = self.world.operations[side];
            let completions = &self.completions[side];
            let own: Vec<&Completion> = completions.iter().filter(|c| !is_receive(c)).collect();
            let mut ended: Vec<u64> = own.iter().map(|completion| completion.wr_id).collect();
            if self.world.ordered {
                assert!(ended.is_sorted(), "F-8.4.2-1: completions in RSN order: {ended:?}");
            }
            ended.sort_unstable();
            assert_eq!(
                ended,
                (0..operations.len() as u64).collect::<Vec<_>>(),
                "F-6.1-2: each completes once"
            );
            assert_eq!(nic.cells_in_use(), 0, "receive cells are given back");
            if self.closed {
                assert_ne!(nic.entry(SLOT).connection.state, State::Closing, "the close ends");
                continue;
            }
            invariants::check_idle(nic.entry(SLOT));
            let peer = &self.hosts[1 - side];
            for completion in &own {
                assert_eq!((completion.status, completion.ulp_code), (0, 0), "{completion:?}");
            }
            for (number, op) in operations.iter().enumerate() {
                let (local, remote) = (local(number) as usize, remote(number) as usize);
                let length = BYTES as usize;
                match op {
                    SmallOp::Write => {
                        assert!(
                            peer.memory()[REMOTE as usize + remote..][..length]
                                == nic.memory()[local..][..length]
                        );
                    }
                    SmallOp::Read => {
                        assert!(
                            nic.memory()[local..][..length]
                                == peer.memory()[REMOTE as usize + remote..][..length]
                        );
                    }
                    SmallOp::FetchAdd => {
                        let word = &peer.memory()[REMOTE as usize + remote..][..8];
                        assert_eq!(word, 7u64.to_ne_bytes(), "an atomic is executed once");
                    }
                    SmallOp::Send => {}
                }
            }
            self.verify_receives(side);
        }
    }

    /// Checks that each SEND of the peer arrived once, with its bytes.
    fn verify_receives(&self, side: usize) {
        let sends: Vec<usize> = (0..)
            .zip(self.world.operations[1 - side])
            .filter(|(_, op)| **op == SmallOp::Send)
            .map(|(n, _)| n)
            .collect();
        let received: Vec<&Completion> = self.completions[side].iter().filter(|c| is_receive(c)).collect();
        assert_eq!(received.len(), sends.len(), "each message arrives once");
        let first = self.hosts[1 - side]
            .entry(SLOT)
            .connection
            .initiator
            .brsn
            .0
            .wrapping_sub(self.world.operations[1 - side].len() as u32);
        let mut numbers: VecDeque<usize> =
            received.iter().map(|c| c.rsn.wrapping_sub(first) as usize).collect();
        for (place, number) in numbers.iter().enumerate() {
            let got = &self.hosts[side].memory()[(RECEIVES + place as u64 * 64) as usize..][..BYTES as usize];
            assert!(
                got == &self.hosts[1 - side].memory()[local(*number) as usize..][..BYTES as usize],
                "data of a SEND"
            );
        }
        if !self.world.ordered {
            numbers.make_contiguous().sort_unstable();
        }
        assert_eq!(numbers, sends, "F-5-1: messages in RSN order");
    }
}

fn is_receive(completion: &Completion) -> bool {
    [Verb::RECEIVE, Verb::RECEIVE_IMMEDIATE].contains(&completion.opcode)
}

/// Removes what depends only on the number of packets so far.
fn forget_history(entry: &mut Entry) {
    entry.tables.statistics = Statistics::default();
    let security = &mut entry.connection.security;
    security.last_iv = Picoseconds(0);
    security.remote_time = Picoseconds(0);
    security.clock_lead = PicosecondSpan(0);
    security.clock_step = 0;
}

/// Returns the place of an operation's bytes at its initiator.
const fn local(number: usize) -> u64 {
    64 * number as u64
}

/// Returns the place of an operation's bytes in the target's region. Each has its own.
const fn remote(number: usize) -> u64 {
    64 * number as u64
}

fn work(number: usize, op: SmallOp) -> WorkRequest {
    let base = WorkRequest {
        flags: WorkFlags::SIGNALED,
        wr_id: number as u64,
        length: BYTES,
        local_offset: local(number),
        remote_address: remote(number),
        rkey: KEY,
        ..WorkRequest::default()
    };
    match op {
        SmallOp::Write => WorkRequest { opcode: Verb::WRITE, ..base },
        SmallOp::Read => WorkRequest { opcode: Verb::READ, ..base },
        SmallOp::FetchAdd => WorkRequest { opcode: Verb::FETCH_ADD, length: 0, swap_or_add: 7, ..base },
        SmallOp::Send => WorkRequest { opcode: Verb::SEND_ONLY, rkey: 0, remote_address: 0, ..base },
    }
}

/// Fills the bytes that an operation moves.
fn prepare(hosts: &mut [HostNic; 2], side: usize, number: usize, op: SmallOp) {
    let bytes = [0x10 * (side as u8 + 1) + number as u8 + 1; BYTES as usize];
    match op {
        SmallOp::Write | SmallOp::Send => {
            hosts[side].memory_mut()[local(number) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        SmallOp::Read => {
            let at = (REMOTE + remote(number)) as usize;
            hosts[1 - side].memory_mut()[at..][..bytes.len()].copy_from_slice(&bytes);
        }
        SmallOp::FetchAdd => {}
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.complete { "all" } else { "not all" };
        write!(
            f,
            "{} states ({all}), {} steps, {} ends, longest path {}",
            self.states, self.steps, self.ends, self.longest
        )
    }
}
