//! The results that the operations of a small world must have.

use transport_common::connection::State;
use transport_common::queues::{Completion, Verb};
use transport_common::timing_wheel::WheelTick;
use transport_common::transaction::{CompletionCode, TRANSACTIONS, TransactionState};
use transport_common::units::Picoseconds;

use super::card::Card;
use super::operations::{ADDEND, RECEIVES, SLOT, first_rsn, local, pattern, remote, stride};
use super::small_world::{SmallOp, SmallWorld};
use crate::simulation::invariants;

/// What the walk has to know of a state of an end, without loading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The connection asks for a service by the engine.
    pub(super) asks: bool,
    /// When the timing wheel has something next.
    pub(super) timer: Option<Picoseconds>,
    /// How often the application got ready for a request.
    pub(super) readied: u8,
    /// Bit n: operation n of this end has ended well, whether or not its application knows it yet.
    pub(super) succeeded: u8,
    /// Bit n: operation n of the other end has taken effect here. Nothing shows it of a read.
    pub(super) accepted: u8,
}

impl Facts {
    /// Gathers the facts about a card, and checks what holds in every state of it.
    pub(super) fn of(world: &SmallWorld, side: usize, card: &mut Card) -> Self {
        let timer = card.nic.wheel().next_event();
        let asks = card.nic.asking() > 0;
        let view = View { world, side, card };
        view.check_completions();
        let bits = |bit: &dyn Fn(usize, SmallOp) -> bool, operations: &[SmallOp]| {
            let set = operations.iter().enumerate().filter(|(number, op)| bit(*number, **op));
            set.fold(0, |bits, (number, _)| bits | 1 << number)
        };
        Self {
            asks,
            timer: timer.map(WheelTick::start),
            readied: card.readied,
            succeeded: bits(&|number, op| view.has_succeeded(number, op), world.operations[side]),
            accepted: bits(&|number, op| view.has_accepted(number, op), world.operations[1 - side]),
        }
    }

    /// When the engine has work.
    pub(super) fn has_work(&self, now: Picoseconds) -> bool {
        self.asks || self.timer.is_some_and(|at| !at.is_later_than(now))
    }
}

/// A card, to look at its results.
pub(super) struct View<'a> {
    pub(super) world: &'a SmallWorld,
    pub(super) side: usize,
    pub(super) card: &'a Card,
}

impl View<'_> {
    /// Checks that each transaction ends and each message arrives at most once, in order where that is promised.
    fn check_completions(&self) {
        let completions = || self.card.completions.iter();
        let mut ended: Vec<u64> = completions().filter(|c| !is_receive(c)).map(|c| c.wr_id).collect();
        let mut arrived: Vec<u32> = completions().filter(|c| is_receive(c)).map(|c| c.rsn).collect();
        if self.world.ordered {
            assert!(ended.is_sorted(), "F-8.4.2-1: completions in RSN order: {ended:?}");
            assert!(arrived.is_sorted(), "F-5-1: messages in RSN order: {arrived:?}");
        }
        ended.sort_unstable();
        arrived.sort_unstable();
        assert!(ended.windows(2).all(|pair| pair[0] != pair[1]), "F-6.1-2: {ended:?}: one completed twice");
        assert!(arrived.windows(2).all(|pair| pair[0] != pair[1]), "a message arrived twice: {arrived:?}");
        let receives = completions().filter(|c| is_receive(c)).map(|c| c.wr_id);
        assert!(receives.eq(0..arrived.len() as u64), "receives are consumed in order, each once");
    }

    fn completion(&self, number: usize) -> Option<&Completion> {
        self.card.completions.iter().find(|c| !is_receive(c) && c.wr_id == number as u64)
    }

    /// Whether an operation of this end has ended well. If so, its own memory must show it.
    fn has_succeeded(&self, number: usize, op: SmallOp) -> bool {
        let nic = &self.card.nic;
        let rsn = first_rsn().add(number as u32);
        let transaction = &nic.entry(SLOT).tables.transactions[rsn.0 as usize % TRANSACTIONS];
        let done = transaction.state == TransactionState::Done
            && (transaction.code, transaction.ulp_code) == (CompletionCode::Ack as u8, 0);
        let reported = self.completion(number).is_some_and(|c| (c.status, c.ulp_code) == (0, 0));
        if !done && !reported {
            return false;
        }
        let got = &nic.memory()[local(self.world, number)..];
        match op {
            SmallOp::Read => {
                let length = self.world.bytes() as usize;
                assert!(got[..length] == *pattern(self.world, 1 - self.side, number), "data of a READ");
            }
            SmallOp::FetchAdd => assert_eq!(got[..8], [0; 8], "the original value of an atomic"),
            SmallOp::Write | SmallOp::Send => {}
        }
        true
    }

    /// Whether an operation of the other end has taken effect here. If so, it did once and entirely.
    fn has_accepted(&self, number: usize, op: SmallOp) -> bool {
        let memory = self.card.nic.memory();
        let bytes = pattern(self.world, 1 - self.side, number);
        match op {
            SmallOp::Read => true,
            SmallOp::Write => {
                let got = &memory[remote(self.world, number)..][..bytes.len()];
                assert!(got == bytes || got.iter().all(|byte| *byte == 0), "data of a WRITE");
                got == bytes
            }
            SmallOp::FetchAdd => {
                let word = &memory[remote(self.world, number)..][..8];
                let word = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
                assert!([0, ADDEND].contains(&word), "an atomic is executed once: {word}");
                word == ADDEND
            }
            SmallOp::Send => {
                let rsn = first_rsn().add(number as u32).0;
                let arrived = self.card.completions.iter().find(|c| is_receive(c) && c.rsn == rsn);
                let Some(arrived) = arrived else { return false };
                let place = RECEIVES as usize + arrived.wr_id as usize * stride(self.world) as usize;
                assert!(memory[place..][..bytes.len()] == *bytes, "data of a SEND");
                true
            }
        }
    }

    /// Checks the results of this end when nothing can happen any more.
    pub(super) fn verify(&self, closed: bool) {
        let (nic, operations) = (&self.card.nic, self.world.operations[self.side]);
        for number in 0..operations.len() {
            let end = self.completion(number);
            assert!(end.is_some(), "F-6.1-2: operation {number} never ended");
            let well = end.is_some_and(|end| (end.status, end.ulp_code) == (0, 0));
            assert!(well || closed, "operation {number} ended otherwise: {end:?}");
        }
        assert_eq!(nic.cells_in_use(), 0, "receive cells are given back");
        if closed {
            assert_ne!(nic.entry(SLOT).connection.state, State::Closing, "the close ends");
            return;
        }
        invariants::check_idle(nic.entry(SLOT));
        for (number, op) in self.world.operations[1 - self.side].iter().enumerate() {
            assert!(self.has_accepted(number, *op), "operation {number} of the other end had no effect");
        }
    }
}

fn is_receive(completion: &Completion) -> bool {
    [Verb::RECEIVE, Verb::RECEIVE_IMMEDIATE].contains(&completion.opcode)
}
