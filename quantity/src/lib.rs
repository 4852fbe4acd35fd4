//! Parses numbers and quantities. A whole number is decimal, or hexadecimal with the prefix `0x`. A quantity is a
//! decimal number with a unit. Parsing is exact: it uses no floating point and does not round. The command lines,
//! the node files and the hardware model all use this parser.
#![no_std]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::ops::RangeInclusive;

/// The name of a unit, and its size in smallest steps. The empty name allows a number without a unit.
pub type Unit = (&'static str, u64);

/// Why a text cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// The text is not a number, or does not begin with one.
    Malformed,
    /// The unit is missing or unknown.
    Unit,
    /// The value is not a whole number of smallest steps.
    TooFine,
    /// The value does not fit 64 bits.
    TooLarge,
}

/// Parses a whole number: decimal, or hexadecimal with the prefix `0x`.
///
/// # Errors
/// [`QuantityError::Malformed`], [`QuantityError::TooLarge`].
pub fn integer(text: &str) -> Result<u64, QuantityError> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(QuantityError::Malformed);
    }
    u64::from_str_radix(digits, radix).map_err(|_| QuantityError::TooLarge)
}

/// Parses a whole number like [`integer`], for a command line or a file.
///
/// # Errors
/// A text that says what is wrong and what is expected.
pub fn parse_integer(text: &str) -> Result<u64, String> {
    integer(text).map_err(|error| match error {
        QuantityError::TooLarge => {
            format!("\"{text}\" does not fit 64 bits: the largest is {}", u64::MAX)
        }
        _ => format!("\"{text}\" is not a whole number: write decimal digits, or 0x and hexadecimal digits"),
    })
}

/// Returns a parser of whole numbers in `range`, for a command line. It reads numbers like [`integer`].
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = Some(parse_integer(text)?).filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            format!(
                "\"{text}\" is out of range: write a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// Parses a quantity: a number, with an optional decimal fraction, and one of `units`. Returns the value in
/// smallest steps. If `units` has the empty name for one step, the number may be hexadecimal.
///
/// # Errors
/// [`QuantityError`].
pub fn quantity(text: &str, units: &[Unit]) -> Result<u64, QuantityError> {
    let text = text.trim();
    if text.starts_with("0x") && units.contains(&("", 1)) {
        return integer(text);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(QuantityError::Malformed);
    }
    let unit = unit.trim_start();
    let scale = units.iter().find(|(name, _)| *name == unit).ok_or(QuantityError::Unit)?.1;
    let whole = whole.parse::<u64>().map_err(|_| QuantityError::TooLarge)?;
    let whole = whole.checked_mul(scale).ok_or(QuantityError::TooLarge)?;
    whole.checked_add(part(fraction.trim_end_matches('0'), scale)?).ok_or(QuantityError::TooLarge)
}

/// Returns `0.fraction` times `scale`.
fn part(fraction: &str, scale: u64) -> Result<u64, QuantityError> {
    let divisor = u32::try_from(fraction.len()).ok().and_then(|digits| 10u64.checked_pow(digits));
    let divisor = divisor.ok_or(QuantityError::TooFine)?;
    let digits: u64 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| QuantityError::TooFine)? };
    let product = u128::from(digits) * u128::from(scale);
    match product % u128::from(divisor) {
        // The result is less than `scale`, because `digits` is less than `divisor`.
        0 => Ok((product / u128::from(divisor)) as u64),
        _ => Err(QuantityError::TooFine),
    }
}

#[cfg(test)]
mod tests {
    use super::QuantityError::{Malformed, TooFine, TooLarge, Unit};
    use super::*;

    const TIMES: [super::Unit; 3] = [("ns", 1), ("us", 1000), ("s", 1_000_000_000)];
    const SIZES: [super::Unit; 2] = [("", 1), ("KiB", 1024)];

    #[test]
    fn integers_are_decimal_or_hexadecimal() {
        assert_eq!(integer("0x1000"), Ok(4096));
        assert_eq!(integer("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "0x", "-1", "+1", "ff", "0x-1", " 1", "1_000", "0xg", "\u{661}"] {
            assert_eq!(integer(text), Err(Malformed), "{text}");
        }
        for text in ["18446744073709551616", "0x10000000000000000"] {
            assert_eq!(integer(text), Err(TooLarge), "{text}");
        }
    }

    #[test]
    fn quantities_are_exact() {
        assert_eq!(quantity("1.5us", &TIMES), Ok(1500));
        assert_eq!(quantity(" 2 s", &TIMES), Ok(2_000_000_000));
        assert_eq!(quantity("0.10us", &TIMES), Ok(100));
        assert_eq!(quantity("1.5KiB", &SIZES), Ok(1536));
        assert_eq!((quantity("7", &SIZES), quantity("0x10", &SIZES)), (Ok(7), Ok(16)));
        assert_eq!(quantity("0.5ns", &TIMES), Err(TooFine));
        assert_eq!(quantity("0.00000000000000000000001s", &TIMES), Err(TooFine));
        for text in ["99999999999s", "99999999999999999999s", "18446744073709551615.9KiB"] {
            assert_eq!(
                quantity(text, if text.ends_with('B') { &SIZES } else { &TIMES }),
                Err(TooLarge),
                "{text}"
            );
        }
        for text in ["", "us", "-1us", "1.us", ".5us", "1.2.3us"] {
            assert_eq!(quantity(text, &TIMES), Err(Malformed), "{text}");
        }
        for text in ["8", "1h", "1e3us", "0x10us", "1 2"] {
            assert_eq!(quantity(text, &TIMES), Err(Unit), "{text}");
        }
    }
}
