//! Tables that are rings: the place of an entry is its number modulo the size of the table. Only this module masks.

/// Returns the place of a number in a table of `N` entries, a power of two.
///
/// ```
/// use transport_common::ring::place;
///
/// assert_eq!((place::<128>(130), place::<256>(u32::MAX)), (2, 255));
/// ```
#[inline(always)]
pub const fn place<const N: usize>(number: u32) -> usize {
    const { assert!(N.is_power_of_two(), "the place of a number would jump when the number wraps") };
    number as usize & (N - 1)
}

/// Returns the entry of a number.
#[inline(always)]
pub const fn at<T, const N: usize>(table: &[T; N], number: u32) -> &T {
    &table[place::<N>(number)]
}

/// Returns the entry of a number for changes.
#[inline(always)]
pub const fn at_mut<T, const N: usize>(table: &mut [T; N], number: u32) -> &mut T {
    &mut table[place::<N>(number)]
}
