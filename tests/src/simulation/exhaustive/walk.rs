//! The walk through a world: depth first, every step of every state, no state twice.

use core::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};
use transport_common::units::{PicosecondSpan, Picoseconds};

use super::canonical::Mix;
use super::card::{START, TRANSACTION_TIMEOUT};
use super::local::{Input, Locals};
use super::results::View;
use super::small_world::{Choice, SmallOp, SmallWorld, Walk};
use crate::simulation::trace::summary;

/// Most frames on their way. Losses, copies and timers are limited, so there are always few.
const MOST_FRAMES: usize = 40;
/// Longest path. A longer one is a livelock in which time goes on.
const LONGEST_PATH: usize = 400;
/// For how long a frame, an engine or an application may be late at most: longer than any timer but that of a transaction,
/// which would rightly end it.
const LONGEST_DELAY: PicosecondSpan = PicosecondSpan(TRANSACTION_TIMEOUT.0 / 2);
/// Number of states between two reports of progress.
const REPORTED: u64 = 1 << 16;

/// A state of the world.
#[derive(Clone, Copy)]
struct State {
    /// The states of both ends, by number.
    ends: [u32; 2],
    now: Picoseconds,
    /// Frames on their way, by number, in ascending order: the network may deliver any of them next.
    frames: [u16; MOST_FRAMES],
    number: usize,
    losses: u8,
    duplicates: u8,
    timeouts: u8,
    /// Which ends were closed by their applications.
    closed: [bool; 2],
}

impl State {
    fn frames(&self) -> &[u16] {
        &self.frames[..self.number]
    }

    fn add(&mut self, frame: u16) {
        let place = self.frames().partition_point(|other| *other < frame);
        assert!(self.number < MOST_FRAMES, "{MOST_FRAMES} frames are on their way");
        self.frames.copy_within(place..self.number, place + 1);
        self.frames[place] = frame;
        self.number += 1;
    }

    fn remove(&mut self, frame: u16) {
        let place = self.frames().iter().position(|other| *other == frame).expect("it is on its way");
        self.frames.copy_within(place + 1..self.number, place);
        self.number -= 1;
    }

    fn hash(&self) -> u64 {
        let mut mix = Mix::default();
        mix.word(u64::from(self.ends[0]) << 32 | u64::from(self.ends[1]));
        mix.word(self.now.0);
        let closed = u8::from(self.closed[0]) << 1 | u8::from(self.closed[1]);
        let budget = [self.losses, self.duplicates, self.timeouts, closed];
        mix.word(u64::from(u32::from_ne_bytes(budget)) << 32 | self.number as u64);
        for four in self.frames().chunks(4) {
            mix.word(four.iter().fold(0, |word, frame| word << 16 | u64::from(*frame)));
        }
        (mix.finish() >> 64) as u64
    }
}

/// A state on the path, and the steps that were not taken yet.
struct Open {
    state: State,
    hash: u64,
    choices: Vec<Choice>,
}

/// A walk that is under way.
pub(super) struct Walker<'a> {
    world: &'a SmallWorld,
    locals: Locals<'a>,
    open: Vec<Open>,
    path: Vec<Choice>,
    on_path: FxHashSet<u64>,
    /// Ends whose results were checked, with whether the connection was closed.
    verified: FxHashMap<(usize, u32, bool), ()>,
    tell: &'a mut dyn FnMut(&str),
}

impl Drop for Walker<'_> {
    /// Tells the path if a check fails.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut text = String::new();
        for choice in &self.path {
            let frame = match choice {
                Choice::Deliver(number) | Choice::Duplicate(number) | Choice::Lose(number) => {
                    let frame = self.locals.frame(*number);
                    format!(" to {}: {}", frame.to, summary(&frame.bytes))
                }
                _ => String::new(),
            };
            writeln!(text, "    {choice:?}{frame}").expect("a text has room");
        }
        (self.tell)(&text);
    }
}

impl<'a> Walker<'a> {
    pub(super) fn new(world: &'a SmallWorld, tell: &'a mut dyn FnMut(&str)) -> (Self, Walk) {
        let (locals, ends) = Locals::new(world);
        let first = State {
            ends,
            now: START,
            frames: [0; MOST_FRAMES],
            number: 0,
            losses: world.losses,
            duplicates: world.duplicates,
            timeouts: world.timeouts,
            closed: [false; 2],
        };
        let mut this = Self {
            world,
            locals,
            open: vec![],
            path: vec![],
            on_path: FxHashSet::default(),
            verified: FxHashMap::default(),
            tell,
        };
        let mut walk = Walk { complete: true, states: 1, ..Walk::default() };
        this.enter(first, first.hash(), &mut walk);
        (this, walk)
    }

    /// Walks until every state was seen, or `most` of them.
    pub(super) fn walk(&mut self, walk: &mut Walk, most: u64, progress: &mut dyn FnMut(&Walk)) {
        let mut seen = FxHashSet::default();
        seen.extend(self.open.iter().map(|open| open.hash));
        while let Some(open) = self.open.last_mut() {
            let Some(choice) = open.choices.pop() else {
                self.on_path.remove(&open.hash);
                self.open.pop();
                self.path.pop();
                continue;
            };
            let mut state = open.state;
            self.path.push(choice);
            walk.longest = walk.longest.max(self.path.len());
            assert!(self.path.len() <= LONGEST_PATH, "a livelock: no end after {LONGEST_PATH} steps");
            self.take(&mut state, choice);
            let hash = state.hash();
            if !seen.insert(hash) {
                assert!(!self.on_path.contains(&hash), "a livelock: this state was on the path before");
                self.path.pop();
                continue;
            }
            walk.states += 1;
            if walk.states.is_multiple_of(REPORTED) {
                progress(walk);
            }
            self.enter(state, hash, walk);
            if walk.states >= most {
                walk.complete = false;
                break;
            }
        }
        walk.ends_of_connection = self.locals.counts();
        walk.compared = self.locals.compared;
    }

    /// Checks a new state, and puts it on the path.
    fn enter(&mut self, state: State, hash: u64, walk: &mut Walk) {
        let facts = [0, 1].map(|side| self.locals.facts(side, state.ends[side]));
        for side in [0, 1] {
            let lost = facts[side].succeeded & !facts[1 - side].accepted;
            assert_eq!(
                lost, 0,
                "operations of end {side} ended well, and the other end had not accepted them"
            );
        }
        let choices = self.choices(&state);
        walk.steps += choices.len() as u64;
        if choices.is_empty() {
            self.verify(&state);
            walk.ends += 1;
        }
        self.on_path.insert(hash);
        self.open.push(Open { state, hash, choices });
    }

    /// Checks the results when nothing can happen any more.
    fn verify(&mut self, state: &State) {
        for side in [0, 1] {
            let closed = state.closed.contains(&true);
            let end = (side, state.ends[side], closed);
            if self.verified.insert(end, ()).is_none() {
                let card = self.locals.load(side, state.ends[side]);
                View { world: self.world, side, card }.verify(closed);
            }
        }
    }

    /// Returns the steps that are possible. Steps that make the same of equal frames are returned once.
    fn choices(&self, state: &State) -> Vec<Choice> {
        let mut choices = vec![];
        let facts = [0, 1].map(|side| self.locals.facts(side, state.ends[side]));
        let all = state.frames();
        let distinct =
            || all.iter().enumerate().filter(|(n, f)| *n == 0 || all[n - 1] != **f).map(|(_, f)| *f);
        let unready = [0, 1].map(|side| self.is_unready(side, facts[side].readied));
        choices.extend(distinct().map(Choice::Deliver));
        choices.extend((0..2).filter(|side| facts[*side].has_work(state.now)).map(Choice::Engine));
        // An application that is not ready will be: without that, a request would be tried again forever.
        let early = !choices.is_empty() || unready.contains(&true);
        choices.extend((0..2).filter(|side| unready[*side]).map(Choice::Ready));
        if state.losses > 0 {
            choices.extend(distinct().map(Choice::Lose));
        }
        if state.duplicates > 0 {
            choices.extend(distinct().map(Choice::Duplicate));
        }
        if let Some(at) = self.next_timer(state)
            && (!early || state.timeouts > 0 && at.since(state.now).0 < LONGEST_DELAY.0)
        {
            choices.push(Choice::Timeout { at, early });
        }
        // One end closes the connection at any time. The other is closed at last: it may hold requests whose predecessors
        // will never come, and learns nothing.
        match state.closed {
            [false, false] if self.world.close => choices.extend([Choice::Close(0), Choice::Close(1)]),
            [true, false] if choices.is_empty() => choices.push(Choice::Close(1)),
            [false, true] if choices.is_empty() => choices.push(Choice::Close(0)),
            _ => {}
        }
        choices
    }

    /// Whether an end is not yet ready for each request of the other that has to find it ready.
    fn is_unready(&self, side: usize, readied: u8) -> bool {
        if self.world.blocks {
            return self.world.busy && !self.world.operations[1 - side].is_empty() && readied == 0;
        }
        let sends = self.world.operations[1 - side].iter().filter(|op| **op == SmallOp::Send);
        usize::from(readied) < sends.count()
    }

    /// Returns when the next timer runs.
    fn next_timer(&self, state: &State) -> Option<Picoseconds> {
        let timers = [0, 1].map(|side| self.locals.facts(side, state.ends[side]).timer);
        timers.into_iter().flatten().filter(|at| at.is_later_than(state.now)).min_by_key(|at| at.0)
    }

    fn take(&mut self, state: &mut State, choice: Choice) {
        match choice {
            Choice::Engine(side) => self.step(state, side, Input::Engine),
            Choice::Deliver(frame) => {
                state.remove(frame);
                self.step(state, self.locals.frame(frame).to, Input::Frame(frame));
            }
            Choice::Duplicate(frame) => {
                state.duplicates -= 1;
                self.step(state, self.locals.frame(frame).to, Input::Frame(frame));
            }
            Choice::Lose(frame) => {
                state.losses -= 1;
                state.remove(frame);
            }
            Choice::Timeout { at, early } => {
                state.timeouts -= u8::from(early);
                state.now = at;
            }
            Choice::Ready(side) => self.step(state, side, Input::Ready),
            Choice::Close(side) => {
                state.closed[side] = true;
                self.step(state, side, Input::Close);
            }
        }
    }

    fn step(&mut self, state: &mut State, side: usize, input: Input) {
        let outcome = self.locals.step(side, state.ends[side], state.now, input);
        state.ends[side] = outcome.state;
        if let Some(frame) = outcome.sent {
            state.add(frame);
        }
    }
}
