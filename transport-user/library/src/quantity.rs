//! Parses durations, sizes and numbers of command lines and node files: `8us`, `64MiB`, `0x1000`.

use std::time::Duration;

use ::quantity::{QuantityError, Unit, quantity};
pub use ::quantity::{parse_integer, whole};

/// Units of a duration, in nanoseconds.
const DURATION_UNITS: [Unit; 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

/// Units of a size, in bytes: `K` and `KiB` are 1024 bytes, `kB` is 1000.
const SIZE_UNITS: [Unit; 11] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
];

/// Parses a duration: a decimal number followed by `ns`, `us`, `ms`, `s` or `min`.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    quantity(text, &DURATION_UNITS).map(Duration::from_nanos).map_err(|error| match error {
        QuantityError::TooFine => {
            format!("\"{text}\" is not a whole number of nanoseconds: write one")
        }
        QuantityError::TooLarge => format!("\"{text}\" is too long: write at most 500 years"),
        _ => format!("\"{text}\" is not a duration: write a number and a unit, such as \"8us\" or \"1.5ms\""),
    })
}

/// Parses a size in bytes: a decimal number, optionally followed by `B`, `K`/`KiB`, `M`/`MiB`, `G`/`GiB` (powers
/// of 1024) or `kB`, `MB`, `GB` (powers of 1000); or a hexadecimal number with the prefix `0x`.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    quantity(text, &SIZE_UNITS).map_err(|error| match error {
        QuantityError::TooLarge => too_large(text),
        QuantityError::TooFine => format!("\"{text}\" is not a whole number of bytes: write one"),
        _ => {
            format!(
                "\"{text}\" is not a size: write bytes, or a number and a unit such as \"64KiB\" or \"1M\""
            )
        }
    })
}

/// Parses a whole number of 32 bits.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    whole(0..=u32::MAX.into())(text)
}

/// Parses a number that is not negative: decimal with an optional fraction, or a whole number in hexadecimal.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let wrong = || format!("\"{text}\" is not a number from 0: write one such as 0.5 or 32");
    if text.starts_with("0x") {
        return Ok(parse_integer(text)? as f64);
    }
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
}

/// Formats a duration with the largest of the units s, ms, us and ns in which it is a whole number.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos >= scale && nanos.is_multiple_of(scale) {
            return format!("{}{unit}", nanos / scale);
        }
    }
    format!("{nanos}ns")
}

/// Formats a size with the largest of the units GiB, MiB and KiB in which it is a whole number.
pub fn format_size(bytes: u64) -> String {
    for (unit, scale) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    format!("{bytes}")
}

fn too_large(text: &str) -> String {
    format!("\"{text}\" does not fit 64 bits: the largest is {}", u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_with_their_unit_only() {
        assert_eq!(parse_duration("8us"), Ok(Duration::from_micros(8)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_duration("2 min"), Ok(Duration::from_secs(120)));
        for wrong in ["", "8", "us", "-1ms", "1.ms", "1e3ms", "99999999999s", "1.2.3s", "1h", "0.5ns"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["8us", "1ms", "2s", "1500us", "7ns"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["64GiB", "1040MiB", "3KiB", "1025", "0"] {
            assert_eq!(format_size(parse_size(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_distinguish_binary_and_decimal_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("0x1000"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert_eq!(parse_size("1.5KiB"), Ok(1536));
        for wrong in ["", "MiB", "-1", "1TiB", "99999999999999GiB", "1 2"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_too_large_is_told_from_what_is_no_number() {
        let large =
            ["99999999999999999999", "99999999999999GiB", "0x10000000000000000", "99999999999999999999 B"];
        for text in large {
            assert!(parse_size(text).unwrap_err().contains("64 bits"), "{text}");
        }
        assert!(parse_integer("99999999999999999999").unwrap_err().contains("64 bits"));
        for text in ["", "MiB", "-1", "1TiB", "1 2", "0x"] {
            assert!(parse_size(text).unwrap_err().contains("is not a size"), "{text}");
        }
    }

    #[test]
    fn numbers_of_a_range_are_decimal_or_hexadecimal() {
        let port = whole::<u16>(1..=65535);
        assert_eq!((port("4792"), port("0x12b8")), (Ok(4792), Ok(4792)));
        for wrong in ["0", "65536", "0x10000"] {
            assert!(port(wrong).unwrap_err().contains("from 1 to 65535"), "{wrong}");
        }
        assert!(port("x").unwrap_err().contains("or 0x and"));
        assert_eq!(parse_u32("0xffffffff"), Ok(u32::MAX));
        assert!(parse_u32("4294967296").is_err());
    }

    #[test]
    fn numbers_with_a_fraction_are_finite_and_not_negative() {
        assert_eq!((parse_number("0.5"), parse_number("0x20")), (Ok(0.5), Ok(32.0)));
        for wrong in ["", "-1", "NaN", "inf", "1,5", "0x0.8"] {
            assert!(parse_number(wrong).is_err(), "{wrong}");
        }
    }
}
