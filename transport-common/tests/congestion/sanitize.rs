//! The protection against engines that return illegal results.

use proptest::prelude::*;
use transport_common::congestion::entry::Entry;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::result::{Faults, Outcome};
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

use crate::input::{ack, plain, run};

/// Each fault alone is named and repaired to the nearest legal value, and nothing else changes.
#[test]
fn each_fault_is_named_and_repaired() {
    let legal = run(&ack(1000, 100), &plain());
    let p = Parameters::DEFAULT;
    assert!(legal.is_legal(&p));
    let cases = [
        ("fcwnd", Outcome { fcwnd: Fcwnd(0), ..legal }, Outcome { fcwnd: Fcwnd(1), ..legal }),
        ("fcwnd", Outcome { fcwnd: Fcwnd::MAX, ..legal }, Outcome { fcwnd: p.max_fcwnd, ..legal }),
        ("fcwnd", Outcome { fcwnd: Fcwnd(u32::MAX), ..legal }, Outcome { fcwnd: p.max_fcwnd, ..legal }),
        ("ncwnd", Outcome { ncwnd: 0, ..legal }, Outcome { ncwnd: 1, ..legal }),
        ("ncwnd", Outcome { ncwnd: 2048, ..legal }, Outcome { ncwnd: 2047, ..legal }),
        (
            "inter_packet_gap",
            Outcome { inter_packet_gap: InterPacketGap(1 << 20), ..legal },
            Outcome { inter_packet_gap: InterPacketGap((1 << 20) - 1), ..legal },
        ),
        (
            "retransmit_timeout",
            Outcome { retransmit_timeout: Ticks(0), ..legal },
            Outcome { retransmit_timeout: Ticks(1), ..legal },
        ),
        (
            "retransmit_timeout",
            Outcome { retransmit_timeout: Ticks(1 << 24), ..legal },
            Outcome { retransmit_timeout: Ticks((1 << 24) - 1), ..legal },
        ),
        (
            "cc_metadata",
            Outcome { cc_metadata: 0xff_ffff, ..legal },
            Outcome { cc_metadata: 0xff_fffc, ..legal },
        ),
        (
            "state",
            Outcome { fabric_window_time_marker: NicTime(1 << 24 | 5), ..legal },
            Outcome { fabric_window_time_marker: NicTime(5), ..legal },
        ),
        ("state", Outcome { randomize_path: 3, ..legal }, Outcome { randomize_path: 1, ..legal }),
        ("state", Outcome { cc_opaque: 4, ..legal }, Outcome { cc_opaque: 0, ..legal }),
    ];
    for (name, mut broken, repaired) in cases {
        assert!(!broken.is_legal(&p), "{name}");
        let faults = broken.sanitize(&p);
        assert_eq!(faults.names().collect::<Vec<_>>(), [name]);
        assert_eq!(broken, repaired, "{name}");
    }
}

#[test]
fn several_faults_are_all_named() {
    let mut outcome = Outcome::default();
    let faults = outcome.sanitize(&Parameters::DEFAULT);
    assert_eq!(faults, Faults(Faults::FCWND | Faults::NCWND | Faults::RETRANSMIT_TIMEOUT));
    assert_eq!(faults.names().collect::<Vec<_>>(), ["fcwnd", "ncwnd", "retransmit_timeout"]);
    assert!(!faults.is_none());
}

/// Picks a field.
type FieldOf<T> = fn(&mut Outcome) -> &mut T;

/// The quick check and the repair agree on every bit of every field.
#[test]
fn a_bit_beyond_any_field_is_seen() {
    let p = Parameters::DEFAULT;
    let legal = Outcome { cc_metadata: 0, ..run(&ack(1000, 100), &plain()) };
    let words: [(u32, FieldOf<u32>); 7] = [
        (20, |o| &mut o.inter_packet_gap.0),
        (24, |o| &mut o.retransmit_timeout.0),
        (24, |o| &mut o.fabric_window_time_marker.0),
        (24, |o| &mut o.nic_window_time_marker.0),
        (24, |o| &mut o.base_delay_target.0),
        (24, |o| &mut o.delay_state.0),
        (24, |o| &mut o.rtt_state.0),
    ];
    let bytes: [(u32, FieldOf<u8>); 5] = [
        (1, |o| &mut o.ncwnd_direction.0),
        (1, |o| &mut o.randomize_path),
        (2, |o| &mut o.event_queue_select),
        (2, |o| &mut o.delay_select.0),
        (2, |o| &mut o.cc_opaque),
    ];
    let mut cases = Vec::new();
    for bit in 0..u32::BITS {
        for (width, field) in words {
            let mut outcome = legal;
            *field(&mut outcome) |= 1 << bit;
            cases.push((bit < width, outcome));
        }
        cases.push(((2..24).contains(&bit), Outcome { cc_metadata: 1 << bit, ..legal }));
        cases.push((1 << bit <= p.max_fcwnd.0, Outcome { fcwnd: Fcwnd(1 << bit), ..legal }));
    }
    for bit in 0..u8::BITS {
        for (width, field) in bytes {
            let mut outcome = legal;
            *field(&mut outcome) |= 1 << bit;
            cases.push((bit < width, outcome));
        }
    }
    for ncwnd in 0..=u16::MAX {
        cases.push(((1..=2047).contains(&ncwnd), Outcome { ncwnd, ..legal }));
    }
    for (fits, mut outcome) in cases {
        assert_eq!(outcome.is_legal(&p), fits, "{outcome:?}");
        assert_eq!(outcome.sanitize(&p).is_none(), fits, "{outcome:?}");
        assert!(outcome.is_legal(&p), "{outcome:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 5000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any 64 bytes become a legal result. A second check finds nothing. A legal result does not change.
    #[test]
    fn any_bytes_become_legal(entry in any::<Entry>(), max in 1..=Fcwnd::MAX.0) {
        let p = Parameters { max_fcwnd: Fcwnd(max), ..Parameters::DEFAULT };
        let mut outcome = Outcome::default();
        outcome.decode(&entry);
        let before = outcome;
        let faults = outcome.sanitize(&p);
        prop_assert!(outcome.is_legal(&p));
        prop_assert!(outcome.fcwnd.0 >= 1 && outcome.fcwnd.0 <= max);
        prop_assert!((1..=2047).contains(&outcome.ncwnd));
        prop_assert!(outcome.retransmit_timeout.0 >= 1 && outcome.retransmit_timeout.0 < 1 << 24);
        prop_assert_eq!(faults.is_none(), outcome == before);
    }
}
