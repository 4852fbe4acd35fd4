//! Durations, sizes and numbers as people write them: `8us`, `64MiB`, `0x1000`.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

/// Units of a duration, in nanoseconds.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

/// Units of a size, in bytes: `K` and `KiB` are 1024 bytes, `kB` is 1000.
const SIZE_UNITS: [(&str, u64); 11] = [
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

/// Reads a duration: a decimal number directly followed by `ns`, `us`, `ms`, `s` or `min`.
///
/// # Errors
/// A sentence that says what is expected. Anything finer than a nanosecond is rounded down.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    scaled(text, &DURATION_UNITS).map(Duration::from_nanos).ok_or_else(|| {
        format!("\"{text}\" is no duration: write a number and a unit, such as \"8us\" or \"1.5ms\"")
    })
}

/// Reads a size in bytes: a decimal number, optionally followed by `B`, `K`/`KiB`, `M`/`MiB`, `G`/`GiB` (powers
/// of 1024) or `kB`, `MB`, `GB` (powers of 1000).
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    scaled(text, &SIZE_UNITS).ok_or_else(|| {
        if too_large(text.trim()) {
            return format!("\"{text}\" does not fit 64 bits: the largest is {}", u64::MAX);
        }
        format!("\"{text}\" is no size: write bytes, or a number and a unit such as \"64KiB\" or \"1M\"")
    })
}

/// Reads a number in decimal, or in hexadecimal behind `0x`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_integer(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => format!("\"{text}\" does not fit 64 bits: the largest is {}", u64::MAX),
        _ => format!("\"{text}\" is no number: write decimal digits, or hexadecimal ones behind 0x"),
    })
}

/// Whether `text` is a number, with a size's unit or in hexadecimal or without either, that only lacks room.
fn too_large(text: &str) -> bool {
    let overflows = |number: Result<u64, ParseIntError>| {
        number.is_err_and(|error| *error.kind() == IntErrorKind::PosOverflow)
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return overflows(u64::from_str_radix(digits, 16));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let Some((_, scale)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit.trim_start()) else {
        return false;
    };
    let number = number.parse::<u64>();
    number.as_ref().is_ok_and(|number| number.checked_mul(*scale).is_none()) || overflows(number)
}

/// Writes a duration with the largest unit in which it is a whole number.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos >= scale && nanos.is_multiple_of(scale) {
            return format!("{}{unit}", nanos / scale);
        }
    }
    format!("{nanos}ns")
}

/// `number unit` in the smallest unit, rounded down; `None` when malformed or beyond 64 bits.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let part =
        u128::from(fraction.parse::<u64>().ok()?) * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_with_their_unit_only() {
        assert_eq!(parse_duration("8us"), Ok(Duration::from_micros(8)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_duration("2 min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0.5ns"), Ok(Duration::ZERO));
        for wrong in ["", "8", "us", "-1ms", "1.ms", "1e3ms", "99999999999s", "1.2.3s", "1h"] {
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
    fn sizes_distinguish_binary_and_decimal_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
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
            assert!(parse_size(text).unwrap_err().contains("is no size"), "{text}");
        }
    }

    #[test]
    fn integers_are_decimal_or_hexadecimal() {
        assert_eq!(parse_integer("0x1000"), Ok(4096));
        assert_eq!(parse_integer("18446744073709551615"), Ok(u64::MAX));
        assert!(parse_integer("0x").is_err() && parse_integer("-1").is_err() && parse_integer("ff").is_err());
    }
}
