//! The timing wheel against an ordered map of deadlines.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use transport_common::timing_wheel::{
    HORIZON, Polled, TICK, TICK_BITS, TimingWheel, WORK_PER_POLL, WheelTick,
};
use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};

const N: usize = 16;
/// Half of the number circle of ticks.
const HALF: u64 = 1 << (TICK_BITS - 1);

/// Returns the tick of a time that does not wrap.
fn tick(time: u64) -> WheelTick {
    WheelTick(0).after(time)
}

/// Returns the time that does not wrap, of a tick within half of the number circle around `near`.
fn time(tick: WheelTick, near: u64) -> u64 {
    let shift = u64::BITS - TICK_BITS;
    near.wrapping_add_signed((tick.0.wrapping_sub(near) << shift) as i64 >> shift)
}

/// The wheel, and its expected content: id -> time in ticks at which it must fire. The times here do not wrap, the ticks of
/// the wheel do.
#[derive(Default)]
struct Checked {
    wheel: TimingWheel<N>,
    filed: BTreeMap<u32, u64>,
    /// Largest tick that was polled.
    now: u64,
    /// Tick of the last entry that fired.
    last_fired: u64,
}

impl Checked {
    fn schedule(&mut self, id: u32, deadline: u64) {
        self.wheel.schedule(id, tick(deadline));
        self.filed.insert(id, deadline.max(self.now));
        self.check();
    }

    fn cancel(&mut self, id: u32) {
        self.wheel.cancel(id);
        self.filed.remove(&id);
        self.check();
    }

    /// Polls once. The result of the wheel must agree with the expected content.
    fn poll(&mut self, at: u64) -> Polled {
        self.now = self.now.max(at);
        let polled = self.wheel.poll(tick(at));
        match polled {
            Polled::Expired(id) => {
                let expiry = self.filed.remove(&id).expect("only a filed id fires, and once");
                assert!(expiry <= self.now, "id {id} fired at {} before {expiry}", self.now);
                assert!(expiry >= self.last_fired, "{expiry} fired after {}", self.last_fired);
                assert!(self.filed.values().all(|&other| expiry <= other), "fired out of order");
                self.last_fired = expiry;
            }
            Polled::Idle => {
                assert!(
                    self.filed.values().all(|&expiry| expiry > self.now),
                    "idle although entries are due"
                );
            }
            Polled::Busy => assert!(!self.filed.is_empty(), "busy although nothing is filed"),
        }
        self.check();
        polled
    }

    /// Polls until nothing is due. Returns the ids that fired.
    fn catch_up(&mut self, at: u64) -> Vec<u32> {
        let mut fired = Vec::new();
        // An entry moves down at most 5 levels, after it was filed again at most once per horizon that passed.
        for _ in 0..N as u64 * (64 + HALF / HORIZON) {
            match self.poll(at) {
                Polled::Expired(id) => fired.push(id),
                Polled::Idle => return fired,
                Polled::Busy => {}
            }
        }
        panic!("the wheel does not finish at {at}");
    }

    fn next_event(&self) -> Option<u64> {
        self.wheel.next_event().map(|tick| time(tick, self.now))
    }

    fn check(&self) {
        for id in 0..N as u32 {
            assert_eq!(self.wheel.deadline_of(id), self.filed.get(&id).map(|&at| tick(at)));
            assert_eq!(self.wheel.is_filed(id), self.filed.contains_key(&id));
        }
        let first = self.filed.values().min();
        match (self.next_event(), first) {
            (None, None) => {}
            (Some(event), Some(&first)) => {
                assert!(event <= first, "sleeping until {event} would miss {first}");
            }
            (event, first) => panic!("next event {event:?} with first deadline {first:?}"),
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    /// Deadline relative to now, possibly in the past.
    Schedule(u32, i64),
    /// As far away as possible: this side of half of the number circle, or beyond it, which is past.
    ScheduleFar(u32, i64),
    Cancel(u32),
    /// One poll after this many ticks.
    Poll(u64),
    /// A poll with a time that is earlier by this much.
    PollBack(u64),
    CatchUp(u64),
    /// A poll at the tick that the wheel names, as a sleeping engine does.
    Sleep,
}

/// Distances of every order of magnitude, at and around the borders of slots and levels.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..3u64,
        4 => 0..200u64,
        4 => (0..37u32, 0..64u64).prop_map(|(shift, n)| n << shift),
        2 => (1..8u32, -2..3i64).prop_map(|(level, n)| (1u64 << (6 * level).min(42)).wrapping_add_signed(n)),
        1 => (-2..3i64).prop_map(|n| HORIZON.wrapping_add_signed(n)),
        1 => (0..43u32).prop_flat_map(|bits| 0..1u64 << bits),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let id = || 0..N as u32;
    prop_oneof![
        10 => (id(), distance()).prop_map(|(id, d)| Operation::Schedule(id, d as i64)),
        1 => (id(), distance()).prop_map(|(id, d)| Operation::Schedule(id, -(d as i64))),
        1 => (id(), -3..4i64).prop_map(|(id, off)| Operation::ScheduleFar(id, off)),
        3 => id().prop_map(Operation::Cancel),
        // An owner polls again before what is due is half of the number circle behind.
        10 => distance().prop_map(|d| Operation::Poll(d.min(HORIZON))),
        1 => distance().prop_map(Operation::PollBack),
        2 => distance().prop_map(Operation::CatchUp),
        3 => Just(Operation::Sleep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 2000 }))]

    /// Every id fires once, never early, in the order of deadlines, and not late when polled.
    #[test]
    fn model_check(
        start in prop_oneof![
            Just(0), distance(), Just((1 << 36) - 1), Just(HALF - 9), Just(2 * HALF - 9), Just(2 * HALF - (1 << 36)),
            distance().prop_map(|d| 2 * HALF - 1 - d)
        ],
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let mut checked = Checked::default();
        checked.poll(start);
        for operation in operations {
            let now = checked.now;
            match operation {
                Operation::Schedule(id, d) => checked.schedule(id, now.saturating_add_signed(d)),
                Operation::ScheduleFar(id, off) => {
                    let d = (HALF - 1).wrapping_add_signed(off);
                    checked.wheel.schedule(id, tick(now + d));
                    checked.filed.insert(id, if d < HALF { now + d } else { now });
                    checked.check();
                }
                Operation::Cancel(id) => checked.cancel(id),
                Operation::Poll(d) => drop(checked.poll(now + d)),
                Operation::PollBack(d) => drop(checked.poll(now.saturating_sub(d))),
                Operation::CatchUp(d) => drop(checked.catch_up(now + d)),
                Operation::Sleep => if let Some(event) = checked.next_event() {
                    checked.poll(event);
                },
            }
        }
        // A deadline that is far away is filed again and again. All must fire.
        let reachable: BTreeSet<u32> = checked.filed.keys().copied().collect();
        let mut fired = BTreeSet::new();
        while let Some(event) = checked.next_event() {
            if let Polled::Expired(id) = checked.poll(event) {
                prop_assert!(fired.insert(id), "id {} fired twice", id);
            }
        }
        prop_assert_eq!(fired, reachable);
    }

    /// If an engine wakes up only at the wheel's next events, it fires each deadline at its exact tick, and wakes
    /// up at most once per level for each deadline.
    #[test]
    fn a_sleeper_is_on_time_and_wakes_seldom(
        start in prop_oneof![0..1u64 << 40, 2 * HALF - (1 << 38)..2 * HALF],
        distances in prop::collection::vec(distance().prop_map(|d| d.min(HORIZON)), 1..N),
    ) {
        let mut checked = Checked::default();
        checked.catch_up(start);
        for (id, d) in (0..).zip(&distances) {
            checked.schedule(id, start + d);
        }
        let mut wakes = 0;
        while let Some(event) = checked.next_event() {
            wakes += 1;
            for id in checked.catch_up(event) {
                prop_assert_eq!(event, start + distances[id as usize]);
            }
        }
        prop_assert!(checked.filed.is_empty());
        prop_assert!(wakes <= 6 * distances.len(), "{} wakes", wakes);
    }

    #[test]
    fn deadlines_never_fire_early_and_lag_less_than_a_tick(
        filed: u64, delay: u32, off in -2 * TICK.0 as i64..2 * TICK.0 as i64,
    ) {
        let (filed, delay) = (Picoseconds(filed), Ticks(delay));
        let deadline = filed.after(delay.as_picos());
        let now = Picoseconds(deadline.0.wrapping_add_signed(off));
        let fires = !WheelTick::deadline(filed, delay).is_after(WheelTick::at(now));
        prop_assert!(!fires || off >= 0);
        prop_assert!(fires || off < TICK.0 as i64);
        prop_assert!(now.since(WheelTick::at(now).start()).0 < TICK.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 24 }))]

    /// If polled at every tick, a deadline fires at its exact tick, whatever the other deadlines are.
    #[test]
    fn fires_at_its_tick(
        start in prop_oneof![0..1u64 << 40, 2 * HALF - 9000..2 * HALF],
        deadlines in prop::collection::vec(0..9000u64, N),
    ) {
        let mut checked = Checked::default();
        checked.catch_up(start);
        for (id, d) in (0..).zip(&deadlines) {
            checked.schedule(id, start + d);
        }
        for d in 0..9000 {
            let mut fired = checked.catch_up(start + d);
            fired.sort_unstable();
            let due: Vec<u32> = (0..).zip(&deadlines).filter(|(_, at)| **at == d).map(|(id, _)| id).collect();
            prop_assert_eq!(fired, due);
        }
    }
}

#[test]
fn zeroed_memory_is_an_empty_wheel() {
    const SIZE: usize = size_of::<TimingWheel<N>>();
    let new: [u8; SIZE] =
        // SAFETY: the structure is repr(C) with its padding named, so all of its bytes are initialised.
        unsafe { core::mem::transmute(TimingWheel::<N>::new()) };
    assert!(new.iter().all(|&byte| byte == 0));

    let mut wheel = TimingWheel::<N>::new();
    assert_eq!(wheel.next_event().map(|tick| tick.0), None);
    assert_eq!(wheel.poll(WheelTick(5)), Polled::Idle);
    assert!((0..N as u32).all(|id| !wheel.is_filed(id)));
}

#[test]
fn equal_deadlines_fire_in_order_of_filing() {
    for distance in [0, 1, 100, 10_000, 1 << 35, HORIZON + 5] {
        let mut checked = Checked::default();
        let ids: Vec<u32> = (0..N as u32).rev().collect();
        for &id in &ids {
            checked.schedule(id, distance);
        }
        assert_eq!(checked.catch_up(distance), ids, "distance {distance}");
    }
}

#[test]
fn filing_again_and_again_for_now_starves_nobody() {
    let mut checked = Checked::default();
    checked.catch_up(1000);
    for id in 1..N as u32 {
        checked.schedule(id, 1000 + u64::from(id));
    }
    checked.poll(2000);
    let mut others = 0;
    for _ in 0..4 * N {
        checked.schedule(0, 0);
        others += usize::from(matches!(checked.poll(2000), Polled::Expired(id) if id != 0));
    }
    assert_eq!(checked.filed.keys().filter(|&&id| id != 0).count(), 0);
    assert!(others >= N - 2);
}

#[test]
fn a_poll_moves_a_bounded_number_of_entries() {
    let mut wheel = TimingWheel::<1024>::new();
    for id in 0..1024 {
        wheel.schedule(id, WheelTick(100));
    }
    // All 1024 are in one slot of level 1. They move once, then one fires per poll.
    let moves = 1024 / WORK_PER_POLL;
    for _ in 0..moves {
        assert_eq!(wheel.poll(WheelTick(100)), Polled::Busy);
    }
    for id in 0..1024 {
        assert_eq!(wheel.poll(WheelTick(100)), Polled::Expired(id));
    }
    assert_eq!(wheel.poll(WheelTick(100)), Polled::Idle);
}

#[test]
fn a_cascade_survives_what_happens_between_its_steps() {
    let mut checked = Checked::default();
    for id in 0..N as u32 {
        checked.schedule(id, HORIZON);
    }
    assert_eq!(checked.poll(HORIZON), Polled::Busy);
    checked.cancel(9); // not yet moved
    checked.cancel(0); // already moved
    checked.schedule(10, HORIZON + HORIZON + (1 << 30) - 1); // the top level's last slot
    checked.schedule(11, 0);
    let mut fired = checked.catch_up(HORIZON);
    fired.sort_unstable();
    assert_eq!(fired, [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15]);
    assert_eq!(checked.catch_up(HORIZON + HORIZON + (1 << 30) - 2), []);
    assert_eq!(checked.catch_up(HORIZON + HORIZON + (1 << 30) - 1), [10]);
}

#[test]
fn a_near_deadline_is_exact_however_long_the_wheel_was_idle() {
    let mut wheel = TimingWheel::<N>::new();
    for now in [0, 1_000_000, 1 << 40] {
        // The first poll finds the wheel empty. The second has nothing to check.
        assert_eq!(wheel.poll(WheelTick(now / 2)), Polled::Idle);
        assert_eq!(wheel.poll(WheelTick(now)), Polled::Idle);
        wheel.schedule(3, WheelTick(now + 10));
        assert_eq!(wheel.next_event().map(|tick| tick.0), Some(now + 10));
        wheel.cancel(3);
        assert_eq!(wheel.next_event().map(|tick| tick.0), None);
    }
}

#[test]
fn ids_are_taken_modulo_the_size() {
    let mut wheel = TimingWheel::<N>::new();
    wheel.schedule(N as u32 + 3, WheelTick(7));
    assert_eq!(wheel.deadline_of(3).map(|tick| tick.0), Some(7));
    assert_eq!(wheel.poll(WheelTick(7)), Polled::Expired(3));
}

#[test]
fn size_of_a_thousand_entries() {
    let size = size_of::<TimingWheel<1024>>();
    println!("TimingWheel<1024>: {size} bytes");
    assert_eq!(size, 32 + 8 * 8 + 512 * 4 + 1024 * 24);
}

/// At 213.5 days of uptime the clock of 64 bits of picoseconds wraps, and a node may be started at any time.
#[test]
fn timers_run_where_the_clock_wraps() {
    for uptime in [0, 1 << 62, (1 << 63) - 5_000, 1 << 63, u64::MAX - 3_000_000_000, u64::MAX] {
        let mut wheel = TimingWheel::<N>::new();
        let mut now = Picoseconds(uptime);
        wheel.start(WheelTick::at(now));
        for round in 0..10_000 {
            let delay = Ticks(1 + round % 7 * 1000);
            wheel.schedule(1, WheelTick::deadline(now, delay));
            let due = now.after(delay.as_picos());
            assert_eq!(wheel.poll(WheelTick::at(due.before(PicosecondSpan(1)))), Polled::Idle, "{due:?}");
            let at = wheel.next_event().expect("one is filed");
            now = due.after(TICK);
            assert!(!at.is_after(WheelTick::at(now)), "a sleeper would wake at {at:?}, not at {now:?}");
            let fired = (0..6).any(|_| wheel.poll(WheelTick::at(now)) == Polled::Expired(1));
            assert!(fired, "uptime {uptime}, round {round}");
        }
    }
}

/// Carousel's use of the wheel: thousands of paced connections, each filed again one gap after its last departure.
/// The owner polls a few times per tick, as an engine does between packets. Departures are on time and rates are
/// kept.
#[test]
fn thousands_of_paced_connections_keep_their_gaps() {
    const CONNECTIONS: usize = 4096;
    const TICKS: u64 = 400_000;
    const POLLS_PER_TICK: u32 = 4;
    let mut wheel = TimingWheel::<CONNECTIONS>::new();
    // From 800 kb/s for packets of 1000 B (10 ms) down to a fortieth of it: about one departure per tick in total.
    let gap_of = |id: u32| 488 + (id as u64 * 7919) % 19_000;
    let mut due: Vec<u64> = (0..CONNECTIONS as u32).map(gap_of).collect();
    let mut departures = vec![0u64; CONNECTIONS];
    for id in 0..CONNECTIONS as u32 {
        wheel.schedule(id, WheelTick(due[id as usize]));
    }
    let (mut latest, mut late) = (0, 0u64);
    for tick in 1..TICKS {
        for _ in 0..POLLS_PER_TICK {
            if let Polled::Expired(id) = wheel.poll(WheelTick(tick)) {
                let n = id as usize;
                assert!(tick >= due[n], "early");
                latest = latest.max(tick - due[n]);
                late += tick - due[n];
                departures[n] += 1;
                due[n] += gap_of(id);
                wheel.schedule(id, WheelTick(due[n]));
            }
        }
    }
    let all: u64 = departures.iter().sum();
    assert!(all > TICKS / 3, "{all} departures");
    // When a slot of a higher level is cascaded, hundreds of entries move at the same time, a few at each poll.
    println!("{all} departures, {:.2} ticks late on average, {latest} at worst", late as f64 / all as f64);
    assert!(
        latest <= CONNECTIONS as u64 / u64::from(POLLS_PER_TICK * WORK_PER_POLL),
        "{latest} ticks late at worst"
    );
    assert!(late <= 16 * all, "{late} ticks late over {all} departures");
    for (id, count) in (0..).zip(departures) {
        let expected = (TICKS - 1) / gap_of(id);
        assert!(count == expected || count + 1 == expected, "id {id}: {count} of {expected} departures");
    }
}
