//! Cards that a fabric connects, all with the same clock.

use clocked::Cycle;
use fabric_model::{Fabric, Port, Time};
use transport_common::units::Picoseconds;

use super::nic::FalconNic;

/// Cards at the ports of a fabric. Card n is at port n. The cards' lines limit the rate. The fabric adds delay,
/// loss and reordering.
pub struct Joined {
    cards: Vec<FalconNic>,
    fabric: Fabric,
    now: Cycle,
}

impl Joined {
    /// Connects cards that are in the state after a reset.
    ///
    /// # Panics
    /// Panics if there are no cards, or if their clock periods differ.
    #[must_use]
    pub fn new(cards: Vec<FalconNic>, fabric: Fabric) -> Self {
        let period = |card: &FalconNic| card.pipeline().parameters().period;
        assert!(
            !cards.is_empty() && cards.iter().all(|card| period(card) == period(&cards[0])),
            "at least one card, one period"
        );
        Self { cards, fabric, now: Cycle::ZERO }
    }

    /// Returns a card.
    pub fn card(&self, number: usize) -> &FalconNic {
        &self.cards[number]
    }

    /// Returns a card for changes.
    pub fn card_mut(&mut self, number: usize) -> &mut FalconNic {
        &mut self.cards[number]
    }

    /// Returns the fabric.
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the earliest cycle that the next [`Self::step`] can compute.
    pub const fn now(&self) -> Cycle {
        self.now
    }

    /// Computes the next cycle with work. Returns false if there is none before `limit`.
    pub fn step(&mut self, limit: Cycle) -> bool {
        let first = self.cards[0].pipeline();
        let arrival = self.fabric.next_event().map(|at| first.cycle_of(Picoseconds(at.0)));
        let cards = self.cards.iter().filter_map(FalconNic::next_event);
        let Some(cycle) = cards.chain(arrival).min().map(|cycle| cycle.max(self.now)) else { return false };
        if cycle >= limit {
            return false;
        }
        let time = Time(first.time_of(cycle).0);
        while let Some(delivery) = self.fabric.poll(time) {
            self.cards[usize::from(delivery.port.0)].receive(delivery.frame, Picoseconds(delivery.time.0));
        }
        for (port, card) in (0..).map(Port).zip(&mut self.cards) {
            if card.next_event().is_some_and(|event| event <= cycle) {
                card.pass_to(cycle);
                card.step();
            }
            while let Some(sent) = card.take_sent() {
                self.fabric.offer(Time(sent.at.0), port, sent.frame);
            }
        }
        self.now = cycle + 1;
        true
    }
}
