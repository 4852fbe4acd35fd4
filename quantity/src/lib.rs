//! Numbers as people write them: whole ones in decimal or behind `0x` in hexadecimal, quantities as a decimal number with a
//! unit. Exact: no floats, no rounding. The one parser of command lines, node files and the hardware model.
#![no_std]

/// A unit's name and how many of the smallest step it stands for; the empty name allows a number alone.
pub type Unit = (&'static str, u64);

/// Why a text is no such quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// No number, or nothing that begins with one.
    Malformed,
    /// The unit is missing or unknown.
    Unit,
    /// A fraction of the smallest step.
    TooFine,
    /// It does not fit 64 bits.
    TooLarge,
}

/// Reads a whole number in decimal, or in hexadecimal behind `0x`.
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

/// Reads a quantity: a number, with a decimal fraction if need be, and one of `units`. The result is in the smallest step.
/// Where the empty unit stands for one step, a number may be hexadecimal.
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

/// `0.fraction` of `scale`.
fn part(fraction: &str, scale: u64) -> Result<u64, QuantityError> {
    let divisor = u32::try_from(fraction.len()).ok().and_then(|digits| 10u64.checked_pow(digits));
    let divisor = divisor.ok_or(QuantityError::TooFine)?;
    let digits: u64 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| QuantityError::TooFine)? };
    let product = u128::from(digits) * u128::from(scale);
    match product % u128::from(divisor) {
        // Less than `scale`, for the digits are fewer than the divisor.
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
