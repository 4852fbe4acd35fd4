//! Big-endian fields at constant offsets of fixed arrays. An offset outside the array does not compile.

use super::cursor::{Bytes, Header};

/// Returns the byte at `AT`.
#[inline(always)]
pub(crate) fn get_u8<const AT: usize, B: Bytes>(bytes: &B) -> u8 {
    bytes.array::<AT, 1>()[0]
}

/// Returns the 16-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u16<const AT: usize, B: Bytes>(bytes: &B) -> u16 {
    u16::from_be_bytes(bytes.array::<AT, 2>())
}

/// Returns the 32-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u32<const AT: usize, B: Bytes>(bytes: &B) -> u32 {
    u32::from_be_bytes(bytes.array::<AT, 4>())
}

/// Returns the 64-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u64<const AT: usize, B: Bytes>(bytes: &B) -> u64 {
    u64::from_be_bytes(bytes.array::<AT, 8>())
}

/// Returns `M` bytes from `AT` on.
#[inline(always)]
pub(crate) fn get_array<const AT: usize, const M: usize, B: Bytes>(bytes: &B) -> [u8; M] {
    bytes.array::<AT, M>()
}

/// Returns the four bytes from `AT` on as a number in this machine's byte order, for sums that do not depend on
/// the order.
#[inline(always)]
pub(crate) fn get_word<const AT: usize, B: Bytes>(bytes: &B) -> u64 {
    u32::from_ne_bytes(bytes.array::<AT, 4>()) as u64
}

/// Writes a header over the whole array.
#[inline(always)]
pub(crate) const fn put_header<H: Header, const N: usize>(bytes: &mut [u8; N], header: H) {
    const { assert!(size_of::<H>() == N && align_of::<H>() == 1) };
    // SAFETY: the header is as long as the array, has alignment 1 and consists of bytes.
    unsafe { bytes.as_mut_ptr().cast::<H>().write(header) };
}

/// Writes the byte at `AT`.
#[inline(always)]
pub(crate) const fn put_u8<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u8) {
    const { assert!(AT < N) };
    bytes[AT] = value;
}

/// Writes the 16-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn put_u16<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u16) {
    put_array::<AT, 2, N>(bytes, value.to_be_bytes());
}

/// Writes the 32-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn put_u32<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u32) {
    put_array::<AT, 4, N>(bytes, value.to_be_bytes());
}

/// Writes the 64-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn put_u64<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u64) {
    put_array::<AT, 8, N>(bytes, value.to_be_bytes());
}

/// Writes `M` bytes from `AT` on.
#[inline(always)]
pub(crate) const fn put_array<const AT: usize, const M: usize, const N: usize>(
    bytes: &mut [u8; N],
    value: [u8; M],
) {
    const { assert!(AT + M <= N) };
    // One store. SAFETY: the assertion above proves that the range is inside the array.
    unsafe { bytes.as_mut_ptr().add(AT).cast::<[u8; M]>().write(value) };
}

/// Returns `LEN` bytes from the sum of `AT` and `PLUS` on: a part of the header that begins at `AT`.
#[inline(always)]
pub(crate) const fn part_mut<const AT: usize, const PLUS: usize, const LEN: usize, const N: usize>(
    bytes: &mut [u8; N],
) -> &mut [u8; LEN] {
    const { assert!(AT + PLUS + LEN <= N) };
    // SAFETY: the assertion above proves that the range is inside the array.
    unsafe { &mut *bytes.as_mut_ptr().add(AT + PLUS).cast::<[u8; LEN]>() }
}
