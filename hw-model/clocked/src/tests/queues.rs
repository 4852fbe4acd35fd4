//! Queues, delay lines, dividers and timers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use crate::{Cycle, DelayLine, Divider, Division, Fifo, FifoOverflow, Quotient, Timers};

proptest! {
    #[test]
    fn a_fifo_keeps_order_and_refuses_what_does_not_fit(
        cycles in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..4)), 0..100),
    ) {
        let mut fifo = Fifo::new(8);
        let mut plain = VecDeque::new();
        for (pop, pushes) in cycles {
            prop_assert_eq!(fifo.head(), plain.front());
            prop_assert_eq!(fifo.len() + fifo.room(), 8);
            if pop {
                plain.pop_front();
            }
            let fits = plain.len() + pushes.len() <= 8;
            plain.extend(pushes.iter().copied().take(8 - plain.len()));
            let result = fifo.commit(pop, pushes);
            prop_assert_eq!(result, if fits { Ok(()) } else { Err(FifoOverflow { capacity: 8 }) });
            prop_assert_eq!(fifo.is_empty(), plain.is_empty());
        }
    }

    #[test]
    fn a_line_delays_by_its_length(
        registers in 1..9usize,
        inputs in prop::collection::vec(prop::option::of(any::<u8>()), 0..60),
    ) {
        let mut line = DelayLine::new(registers);
        for (now, input) in inputs.iter().enumerate() {
            let expected = now.checked_sub(registers).and_then(|earlier| inputs[earlier]);
            prop_assert_eq!(line.output().copied(), expected);
            line.commit(*input);
            let inside = &inputs[(now + 1).saturating_sub(registers)..=now];
            prop_assert_eq!(line.is_empty(), inside.iter().all(Option::is_none));
        }
    }

    #[test]
    fn a_divider_rounds_up_and_takes_its_time(latency in 1..5usize, dividend: u64, divisor in prop_oneof![any::<u64>(), 0..1_000u64]) {
        let mut divider = Divider::new(latency);
        divider.commit(Some(Division { dividend, divisor, tag: 7u8 }));
        for _ in 1..latency {
            prop_assert_eq!(divider.output(), None);
            prop_assert!(!divider.is_empty());
            divider.commit(None);
        }
        let Some(&Quotient { value, tag: 7 }) = divider.output() else { panic!("the result is due") };
        // The quotient is the least value whose product with the divisor reaches the dividend.
        let product = u128::from(value) * u128::from(divisor);
        if divisor == 0 {
            prop_assert_eq!(value, u64::MAX);
        } else {
            prop_assert!(product >= dividend.into() && product < u128::from(dividend) + u128::from(divisor));
        }
        divider.commit(None);
        prop_assert!(divider.is_empty());
    }

    /// Compares the timers with a map that is searched in full. Idle cycles are skipped as far as the bank allows.
    /// Some expiries are rounded up, so that timers set long before and shortly before expire in the same cycle.
    /// They must expire in the order in which they were set.
    #[test]
    fn timers_expire_in_order_and_on_time(
        mut sets in prop::collection::vec(
            (0..5_000u64, 0..64u32, prop_oneof![0..10u64, 0..70_000u64], prop_oneof![Just(1), Just(4_096u64)]),
            1..80,
        ),
    ) {
        sets.sort_by_key(|set| set.0);
        let mut sets = VecDeque::from(sets);
        let mut timers = Timers::<64>::default();
        let mut armed: BTreeMap<u32, (Cycle, usize)> = BTreeMap::new();
        let mut now = Cycle::ZERO;
        let (mut fired, mut expected) = (Vec::new(), Vec::new());
        while !sets.is_empty() || !armed.is_empty() || timers.next_event(now).is_some() {
            let expired = timers.expired();
            fired.extend(expired.map(|id| (now, id)));
            let set = sets.pop_front_if(|set| set.0 <= now.0);
            let set = set.map(|(_, id, delay, grain)| (id, Cycle((now.0 + 1 + delay).next_multiple_of(grain))));
            timers.commit(now, expired.is_some(), set);
            armed.extend(set.map(|(id, expiry)| (id, (expiry, sets.len()))));
            let next_set = sets.front().map_or(Cycle::NEVER, |set| Cycle(set.0));
            now = now + 1;
            let event = timers.next_event(now).unwrap_or(Cycle::NEVER).min(next_set);
            if event < Cycle::NEVER {
                now = now.max(event);
            }
            let mut due: Vec<_> = armed.extract_if(.., |_, (expiry, _)| *expiry <= now).collect();
            // A larger number of timers left to set means that this timer was set earlier.
            due.sort_by_key(|(_, (expiry, left))| (*expiry, Reverse(*left)));
            expected.extend(due.into_iter().map(|(id, (expiry, _))| (expiry, id)));
        }
        let mut free = Cycle::ZERO;
        for ((at, id), (expiry, _)) in fired.iter().zip(&expected) {
            prop_assert_eq!(*at, free.max(*expiry), "timer {}", id);
            free = *at + 1;
        }
        let ids: Vec<_> = fired.into_iter().map(|(_, id)| id).collect();
        let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
        prop_assert_eq!(ids, expected);
    }
}
