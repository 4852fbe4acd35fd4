//! Where the times of a node wrap.

/// The wraps by name, as bits of the clock, which counts picoseconds: of Falcon's ticks of 2^17 ps, 24 bits of them in
/// congestion events and 32 bits in packets (2^49 ps); half of the circle of the clock, from which on a time that is compared
/// like a number has another order; and the clock itself.
pub(super) const WRAPS: [(&str, u32); 4] =
    [("wraps_2_24_ticks", 41), ("wraps_2_32_ticks", 49), ("wraps_2_63_ps", 63), ("wraps_2_64_ps", 64)];

/// Returns the first instant of the clock at which a time wraps. `number` is that of [`WRAPS`].
pub(super) fn instant(number: usize) -> u64 {
    1_u64.checked_shl(WRAPS[number].1).unwrap_or(0)
}

/// Returns which of [`WRAPS`] a clock has passed, that went forward by less than half of its circle.
pub(super) fn passed(before: u64, after: u64) -> [bool; WRAPS.len()] {
    WRAPS.map(|(_, bits)| match bits {
        64 => after < before,
        63 => before >> 63 == 0 && after >> 63 == 1,
        bits => before >> bits != after >> bits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_passes_the_wraps_on_its_way() {
        for (number, expected) in [
            (0, [true, false, false, false]),
            (1, [true, true, false, false]),
            (2, [true, true, true, false]),
            (3, [true, true, false, true]),
        ] {
            let at = instant(number);
            assert_eq!(passed(at.wrapping_sub(1), at), expected, "{}", WRAPS[number].0);
            assert_eq!(passed(at.wrapping_sub(2), at.wrapping_sub(1)), [false; 4]);
            assert_eq!(passed(at, at), [false; 4]);
        }
        assert!(passed(5 << 41, 6 << 41)[0], "each multiple is a wrap");
    }
}
