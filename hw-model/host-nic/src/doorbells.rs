//! The ready bits of the connections, and the engine's round robin over them.

use transport_common::queues::CONNECTIONS;

const WORD_BITS: u32 = u64::BITS;
const WORDS: usize = CONNECTIONS / WORD_BITS as usize;

/// The connections that request service by the engine, and the start of the round robin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doorbells {
    /// Bit n is set if connection slot n requests service.
    pub ready: [u64; WORDS],
    /// The slot where the round robin starts.
    pub next: u32,
}

impl Doorbells {
    /// Requests service for `slot`, taken modulo [`CONNECTIONS`].
    pub const fn ring(&mut self, slot: u32) {
        let slot = slot % CONNECTIONS as u32;
        self.ready[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
    }

    /// Returns true if no connection requests service.
    pub fn is_silent(&self) -> bool {
        self.ready == [0; WORDS]
    }

    /// Returns the next connection that requests service. Its request stays set. The word with the start slot is
    /// checked twice: its upper part first, its lower part last.
    pub fn next_ready(&mut self) -> Option<u32> {
        for n in 0..=WORDS {
            let index = (self.next / WORD_BITS) as usize + n;
            let index = index % WORDS;
            let mut bits = self.ready[index];
            if n == 0 {
                bits &= u64::MAX << (self.next % WORD_BITS);
            }
            if bits != 0 {
                let slot = index as u32 * WORD_BITS + bits.trailing_zeros();
                self.next = (slot + 1) % CONNECTIONS as u32;
                return Some(slot);
            }
        }
        None
    }

    /// Withdraws the request of `slot`, taken modulo [`CONNECTIONS`].
    pub const fn answer(&mut self, slot: u32) {
        let slot = slot % CONNECTIONS as u32;
        self.ready[(slot / WORD_BITS) as usize] &= !(1 << (slot % WORD_BITS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_robin_and_each_request_is_served_once() {
        let mut doorbells = Doorbells { next: 70, ..Doorbells::default() };
        [3, 65, 70, 255].iter().for_each(|slot| doorbells.ring(*slot));
        doorbells.ring(70);
        let turn = || {
            let slot = doorbells.next_ready()?;
            doorbells.answer(slot);
            Some(slot)
        };
        let turns: Vec<u32> = std::iter::from_fn(turn).collect();
        assert_eq!(turns, [70, 255, 3, 65]);
        assert!(doorbells.is_silent());
    }

    #[test]
    fn who_goes_on_asking_has_a_turn_in_every_round() {
        let mut doorbells = Doorbells::default();
        [3, 65].iter().for_each(|slot| doorbells.ring(*slot));
        let turns: Vec<u32> = (0..4).filter_map(|_| doorbells.next_ready()).collect();
        assert_eq!(turns, [3, 65, 3, 65]);
    }
}
