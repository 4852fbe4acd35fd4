//! NIC time and the four delays (10.1).

use proptest::prelude::*;
use transport_common::congestion::event::Event;
use transport_common::congestion::nic_time::{DelayCode, DelaySelect, Delays, NicTime};
use transport_common::units::{FalconTime, Picoseconds, Ticks};

const WRAP: u32 = 1 << 24;

fn at(time: u32) -> NicTime {
    NicTime(time % WRAP)
}

/// D-12: a tick is 2^17 ps, event times carry the low 24 bits and wrap after 2.199 s.
#[test]
fn event_time_is_the_low_24_bits_of_ticks() {
    assert_eq!(NicTime::from_picoseconds(Picoseconds(5 << 17)), NicTime(5));
    assert_eq!(NicTime::from_falcon_time(FalconTime(0xab12_3456)), NicTime(0x12_3456));
    let wrap_ps = u64::from(WRAP) << 17;
    assert_eq!(wrap_ps / 1_000_000_000, 2_199, "milliseconds");
    assert_eq!(NicTime::from_picoseconds(Picoseconds(wrap_ps + (9 << 17))), NicTime(9));
}

/// F-10.1-3: an ACK that is held for x increases the RTT by x and does not change the fabric delay.
#[test]
fn a_held_acknowledgement_moves_the_rtt_only() {
    for held in [0, 1, 61, 100_000] {
        let delays = Delays::new(at(100), at(5000), at(5000 + held), at(300 + held));
        assert_eq!(delays.full, Ticks(200 + held));
        assert_eq!(delays.fabric, Ticks(200));
    }
}

/// F-10.1-1: an additional delay of d in each direction adds d to t2 - t1 and to t4 - t3.
#[test]
fn delay_injected_each_way_shows_in_the_one_way_delays() {
    let plain = Delays::new(at(1000), at(1080), at(1090), at(1160));
    let slower = Delays::new(at(1000), at(1080 + 33), at(1090 + 33), at(1160 + 66));
    assert_eq!((plain.forward, plain.reverse), (Ticks(80), Ticks(70)));
    assert_eq!((slower.forward, slower.reverse), (Ticks(113), Ticks(103)));
    assert_eq!(slower.fabric.0 - plain.fabric.0, 66);
}

/// F-10.6.2.1-11: each selection uses another delay.
#[test]
fn delay_select_chooses() {
    let event = |select: DelaySelect| Event {
        t1: at(1000),
        t2: at(1080),
        t3: at(1100),
        t4: at(1170),
        delay_select: select.code(),
        ..Event::default()
    };
    assert_eq!(event(DelaySelect::Full).delay(), Ticks(170));
    assert_eq!(event(DelaySelect::Fabric).delay(), Ticks(150));
    assert_eq!(event(DelaySelect::Forward).delay(), Ticks(80));
    assert_eq!(event(DelaySelect::Reverse).delay(), Ticks(70));
    for (code, select) in DelaySelect::ALL.into_iter().enumerate() {
        assert_eq!(DelaySelect::from_code(DelayCode(code as u8)), select);
        assert_eq!(DelaySelect::from_name(select.name()), Some(select));
        assert_eq!(select.needs_synchronised_clocks(), code >= 2, "F-10.1-4");
    }
    assert_eq!(DelaySelect::from_name("sideways"), None);
}

/// A clock that runs late, or rounding, can make a short delay negative. It counts as 0, not as 2.2 s.
#[test]
fn a_delay_below_zero_is_zero() {
    let delays = Delays::new(at(1000), at(998), at(1002), at(1001));
    assert_eq!(delays, Delays { full: Ticks(1), fabric: Ticks(0), forward: Ticks(0), reverse: Ticks(0) });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-10.1-3, F-10.1-4 across the wrap of either clock: computed on clocks that do not wrap.
    #[test]
    fn delays_are_modular(
        sent in 0..4 * u64::from(WRAP),
        offset in 0..4 * u64::from(WRAP),
        forward in 0..4_000_000u32,
        held in 0..4_000_000u32,
        reverse in 0..4_000_000u32,
    ) {
        let low = |time: u64| NicTime((time % u64::from(WRAP)) as u32);
        let received = sent + u64::from(forward);
        let answered = received + u64::from(held);
        let back = answered + u64::from(reverse);
        let delays = Delays::new(low(sent), low(received + offset), low(answered + offset), low(back));
        prop_assert_eq!(delays.full.0, (forward + held + reverse) % WRAP);
        prop_assert_eq!(delays.fabric.0, forward + reverse);
        let same_clock = Delays::new(low(sent), low(received), low(answered), low(back));
        prop_assert_eq!((same_clock.forward.0, same_clock.reverse.0), (forward, reverse));
    }

    /// F-10.3.4-4, F-10.3.4-5, F-10.3.6-5: markers across the wrap, as long as they are younger than it.
    #[test]
    fn markers_are_modular(now in 0..WRAP, age in 0..WRAP, rtt in 0..WRAP) {
        let now_time = NicTime(now);
        let marker = now_time.before(Ticks(age));
        prop_assert_eq!(now_time.since(marker).0, age);
        prop_assert_eq!(now_time.has_elapsed(marker, Ticks(rtt)), age >= rtt);
        let dragged = now_time.drag(marker, Ticks(rtt));
        prop_assert_eq!(now_time.since(dragged).0, age.min(rtt));
        prop_assert!(dragged.0 < WRAP);
    }
}
