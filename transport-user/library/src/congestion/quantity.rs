//! The kinds of parameters: their text form, and their conversion to the core's numbers.

use std::time::Duration;

use serde_json::Value;
use transport_common::congestion::dcqcn::RATE_BITS;
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::{DelaySelect, DelaySetting};
use transport_common::units::{Fcwnd, Ticks};

use crate::quantity::{format_duration, parse_duration, parse_number, parse_u32};

/// Length of a tick in seconds (D-12).
const TICK: f64 = 131.072e-9;

/// A kind of number.
pub(super) trait Quantity {
    /// The library's type.
    type Human: Copy;
    /// The core's type.
    type Core;
    /// Converts to the nearest number of the core, saturating.
    fn to_core(value: Self::Human) -> Self::Core;
    /// Returns false if the value is not of this kind, for example negative. The core checks ranges.
    fn is_sensible(_: Self::Human) -> bool {
        true
    }
    /// Parses the text of a node file or a command line.
    fn parse(text: &str) -> Result<Self::Human, String>;
    /// Returns the value in the form that [`Self::parse`] reads.
    fn value(value: Self::Human) -> Value;
}

fn is_positive(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// A number with a fraction, scaled for the core.
macro_rules! real {
    ($(#[$doc:meta])* $name:ident, $core:ty, $scale:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Quantity for $name {
            type Human = f64;
            type Core = $core;
            fn to_core(value: f64) -> $core {
                #[allow(clippy::redundant_closure_call)] // constructors of tuple structs and the identity alike
                ($scale)(value)
            }
            fn is_sensible(value: f64) -> bool {
                is_positive(value)
            }
            fn parse(text: &str) -> Result<f64, String> {
                parse_number(text)
            }
            fn value(value: f64) -> Value {
                value.into()
            }
        }
    };
}

real! {
    /// Packets of the fabric window (D-79).
    Packets, Fcwnd, |v: f64| Fcwnd((v * f64::from(1 << Fcwnd::FRACTION_BITS)).round() as u32)
}
real! {
    /// A factor or weight.
    Factor, Fraction, |v: f64| Fraction((v * f64::from(Fraction::ONE.0)).round() as u32)
}
real! {
    /// Packets per second.
    Rate, u32, |v: f64| (v * TICK * f64::from(1 << RATE_BITS)).round() as u32
}

/// A whole number.
pub(super) struct Count;

impl Quantity for Count {
    type Human = u32;
    type Core = u32;
    fn to_core(value: u32) -> u32 {
        value
    }
    fn parse(text: &str) -> Result<u32, String> {
        parse_u32(text)
    }
    fn value(value: u32) -> Value {
        value.into()
    }
}

/// Yes or no.
pub(super) struct Switch;

impl Quantity for Switch {
    type Human = bool;
    type Core = u32;
    fn to_core(value: bool) -> u32 {
        value.into()
    }
    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| format!("\"{text}\" is not a truth value: write true or false"))
    }
    fn value(value: bool) -> Value {
        value.into()
    }
}

/// A duration.
pub(super) struct Time;

impl Quantity for Time {
    type Human = Duration;
    type Core = Ticks;
    fn to_core(value: Duration) -> Ticks {
        Ticks::from_nanos(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }
    fn parse(text: &str) -> Result<Duration, String> {
        parse_duration(text)
    }
    fn value(value: Duration) -> Value {
        format_duration(value).into()
    }
}

/// One of the four delays.
pub(super) struct Delay;

/// The names of the four delays.
const DELAYS: [(&str, DelaySelect); 4] = [
    ("full", DelaySelect::Full),
    ("fabric", DelaySelect::Fabric),
    ("forward", DelaySelect::Forward),
    ("reverse", DelaySelect::Reverse),
];

impl Quantity for Delay {
    type Human = DelaySelect;
    type Core = DelaySetting;
    fn to_core(value: DelaySelect) -> DelaySetting {
        value.setting()
    }
    fn parse(text: &str) -> Result<DelaySelect, String> {
        let found = DELAYS.iter().find(|(name, _)| *name == text).map(|(_, delay)| *delay);
        found.ok_or_else(|| format!("\"{text}\" is not a delay: write full, fabric, forward or reverse"))
    }
    fn value(value: DelaySelect) -> Value {
        DELAYS[value as usize].0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(Time::value(Time::parse("1.5ms").unwrap()), "1500us");
        assert_eq!(Delay::value(Delay::parse("reverse").unwrap()), "reverse");
        assert_eq!(Packets::value(Packets::parse("0.01").unwrap()), 0.01);
        assert_eq!(Switch::value(Switch::parse("true").unwrap()), true);
        assert_eq!(Count::value(Count::parse("7").unwrap()), 7);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        assert!(
            Time::parse("25").is_err() && Delay::parse("sideways").is_err() && Switch::parse("1").is_err()
        );
        for wrong in ["", "-1", "NaN", "inf", "1,5"] {
            assert!(Packets::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Factor::is_sensible(-0.5) && !Rate::is_sensible(f64::NAN) && Rate::is_sensible(0.0));
    }

    #[test]
    fn numbers_go_to_the_nearest_of_the_core_and_saturate() {
        assert_eq!(Packets::to_core(0.01), Fcwnd(10)); // D-78
        assert_eq!(Factor::to_core(0.5), Fraction::ratio(1, 2));
        assert_eq!(Rate::to_core(1.0 / TICK), 1 << RATE_BITS);
        assert_eq!(
            (Packets::to_core(1e12), Time::to_core(Duration::MAX)),
            (Fcwnd(u32::MAX), Ticks(u32::MAX))
        );
    }
}
