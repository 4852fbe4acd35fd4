//! The states of one end, each with a number, and the steps between them, each made once.
//!
//! A step touches one end. What it does depends only on the state of that end, the time and what comes in: the engine's
//! turn, a frame, the application. In a whole world the same step is possible in a great many states, which differ at the
//! other end or on the network. So the core makes it and the checks of one end follow it once, and afterwards only its result
//! is looked up.

use rustc_hash::FxHashMap;
use transport_common::datapath::Verdict;
use transport_common::queues::{LKey, ReceiveRequest};
use transport_common::units::Picoseconds;

use super::canonical::{canonical_bytes, canonical_frame, canonical_key};
use super::card::{Card, START, Saved};
use super::operations::{RECEIVES, SLOT, stride};
use super::results::Facts;
use super::small_world::SmallWorld;
use crate::simulation::host::Before;
use crate::simulation::{attention, invariants};

/// An engine frame with a multiple of this number looks at the timing wheel.
const LOOKS_AT_WHEEL: u64 = 8;
/// One state in so many, of those that were reached again, is compared step by step with the first.
const COMPARED: u64 = 64;

/// What comes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    /// The engine works.
    Engine,
    /// The application gets ready for one more request.
    Ready,
    /// The application closes the connection.
    Close,
    /// A frame arrives.
    Frame(u16),
}

/// What a step makes of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) state: u32,
    /// The frame that it sends.
    pub(super) sent: Option<u16>,
}

/// A state of an end.
#[derive(Debug)]
struct Local {
    saved: Saved,
    facts: Facts,
}

/// A frame on its way.
#[derive(Debug)]
pub(super) struct Frame {
    /// Where it goes.
    pub(super) to: usize,
    pub(super) bytes: Vec<u8>,
}

/// The states of both ends that were seen so far.
pub(super) struct Locals<'a> {
    world: &'a SmallWorld,
    cards: [Card; 2],
    states: [Vec<Local>; 2],
    /// The states by their canonical form.
    numbers: [FxHashMap<u128, u32>; 2],
    frames: Vec<Frame>,
    /// The frames by side and canonical form.
    frame_numbers: FxHashMap<(usize, Vec<u8>), u16>,
    outcomes: [FxHashMap<(u32, u64, Input), Outcome>; 2],
    /// Number of states that were reached again with other bytes.
    again: u64,
    /// Number of steps that were made again, and compared.
    pub(super) compared: u64,
    canonical_bases: [Vec<u8>; 2],
}

impl<'a> Locals<'a> {
    /// Creates the tables, and returns the numbers of the first states as well.
    pub(super) fn new(world: &'a SmallWorld) -> (Self, [u32; 2]) {
        let cards = Card::pair(world);
        let canonical_bases = cards.each_ref().map(canonical_bytes);
        let mut this = Self {
            world,
            cards,
            states: [vec![], vec![]],
            numbers: [FxHashMap::default(), FxHashMap::default()],
            frames: vec![],
            frame_numbers: FxHashMap::default(),
            outcomes: [FxHashMap::default(), FxHashMap::default()],
            again: 0,
            compared: 0,
            canonical_bases,
        };
        let first = [0, 1].map(|side| this.number(side, START));
        (this, first)
    }

    pub(super) fn facts(&self, side: usize, state: u32) -> &Facts {
        &self.states[side][state as usize].facts
    }

    pub(super) fn frame(&self, number: u16) -> &Frame {
        &self.frames[usize::from(number)]
    }

    /// Returns the numbers of states and steps of each end so far.
    pub(super) fn counts(&self) -> [[usize; 2]; 2] {
        [0, 1].map(|side| [self.states[side].len(), self.outcomes[side].len()])
    }

    /// Loads a state into its card, to look at it.
    pub(super) fn load(&mut self, side: usize, state: u32) -> &Card {
        self.cards[side].load(&self.states[side][state as usize].saved);
        &self.cards[side]
    }

    /// Returns what a step makes of a state.
    pub(super) fn step(&mut self, side: usize, state: u32, now: Picoseconds, input: Input) -> Outcome {
        if let Some(outcome) = self.outcomes[side].get(&(state, now.0, input)) {
            return *outcome;
        }
        self.cards[side].load(&self.states[side][state as usize].saved);
        let sent = self.make(side, now, input);
        let sent = sent.map(|bytes| self.number_frame(1 - side, bytes));
        let outcome = Outcome { state: self.number(side, now), sent };
        self.outcomes[side].insert((state, now.0, input), outcome);
        outcome
    }

    /// Makes a step from the loaded state, and checks what it made. Returns the frame that it sends.
    fn make(&mut self, side: usize, now: Picoseconds, input: Input) -> Option<Vec<u8>> {
        let card = &mut self.cards[side];
        card.nic.restore_time(now);
        let before = Before::of(&card.nic.entry(SLOT).connection);
        let sent = match input {
            Input::Engine => {
                // The next frame looks at the timing wheel. In a service by the doorbell all timers that are due run as
                // well, so nothing is left out.
                card.nic.set_frames(LOOKS_AT_WHEEL - 1);
                card.nic.engine_frame()
            }
            Input::Frame(number) => Some(card.nic.receive(self.frames[usize::from(number)].bytes.clone())),
            Input::Ready => {
                get_ready(self.world, card);
                None
            }
            Input::Close => {
                card.nic.close(SLOT);
                None
            }
        };
        while let Some(completion) = card.nic.poll_completion(SLOT) {
            card.completions.push(completion);
        }
        let entry = card.nic.entry(SLOT);
        invariants::check(entry);
        before.check(&entry.connection);
        assert_eq!(
            card.nic.cells_in_use(),
            entry.connection.target.held as usize,
            "the cells in use are those of held requests"
        );
        attention::check(&mut card.nic, SLOT, true);
        sent.filter(|(verdict, _)| *verdict == Verdict::Transmit).map(|(_, bytes)| bytes)
    }

    fn number_frame(&mut self, to: usize, bytes: Vec<u8>) -> u16 {
        let next = u16::try_from(self.frames.len()).expect("a small world has few frames");
        let number = *self.frame_numbers.entry((to, canonical_frame(&bytes))).or_insert(next);
        if number == next {
            self.frames.push(Frame { to, bytes });
        }
        number
    }

    /// Returns the number of the state that a card is in.
    fn number(&mut self, side: usize, now: Picoseconds) -> u32 {
        let key = self.key(side);
        let next = self.states[side].len() as u32;
        let number = *self.numbers[side].entry(key).or_insert(next);
        let saved = self.cards[side].save();
        if number == next {
            let facts = Facts::of(self.world, side, &mut self.cards[side]);
            self.states[side].push(Local { saved, facts });
        } else {
            self.again += 1;
            if self.again.is_multiple_of(COMPARED) {
                self.compare(side, number, &saved, now);
            }
        }
        number
    }

    fn key(&mut self, side: usize) -> u128 {
        canonical_key(&mut self.cards[side], &self.canonical_bases[side])
    }

    /// Makes all steps again that were made from a state, now from another one with the same number, and checks that they
    /// come to the same. This is what it means that no step depends on what the canonical form leaves out.
    fn compare(&mut self, side: usize, state: u32, other: &Saved, now: Picoseconds) {
        let frames = (0..self.frames.len() as u16).map(Input::Frame);
        for input in [Input::Engine, Input::Ready, Input::Close].into_iter().chain(frames) {
            let Some(outcome) = self.outcomes[side].get(&(state, now.0, input)).copied() else { continue };
            self.cards[side].load(other);
            let sent = self.make(side, now, input);
            let number = self.key(side);
            let number = self.numbers[side].get(&number).copied();
            self.cards[side].save();
            let sent =
                sent.map(|bytes| self.frame_numbers.get(&(1 - side, canonical_frame(&bytes))).copied());
            assert_eq!(
                (number, sent),
                (Some(outcome.state), outcome.sent.map(Some)),
                "two states that count as one are not: {input:?}"
            );
            self.compared += 1;
        }
    }
}

/// Lets the application get ready for one more request: it posts a receive, or makes the region free.
fn get_ready(world: &SmallWorld, card: &mut Card) {
    if world.blocks {
        card.set_busy(false);
    } else {
        let number = u64::from(card.readied);
        let local_offset = RECEIVES + number * stride(world);
        let receive = ReceiveRequest { local_offset, wr_id: number, length: world.bytes(), lkey: LKey::OWN };
        card.nic.post_receive(SLOT, receive).expect("the queue has room");
    }
    card.readied += 1;
}
