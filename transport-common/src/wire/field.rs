//! Big-endian fields at constant offsets of fixed arrays; an offset outside the array does not compile.

use super::cursor::{Bytes, Header};

/// The byte at `AT`.
#[inline(always)]
pub(crate) fn get_u8<const AT: usize, B: Bytes>(bytes: &B) -> u8 {
    bytes.array::<AT, 1>()[0]
}

/// The 16-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u16<const AT: usize, B: Bytes>(bytes: &B) -> u16 {
    u16::from_be_bytes(bytes.array::<AT, 2>())
}

/// The 32-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u32<const AT: usize, B: Bytes>(bytes: &B) -> u32 {
    u32::from_be_bytes(bytes.array::<AT, 4>())
}

/// The 64-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) fn get_u64<const AT: usize, B: Bytes>(bytes: &B) -> u64 {
    u64::from_be_bytes(bytes.array::<AT, 8>())
}

/// `M` bytes from `AT` on.
#[inline(always)]
pub(crate) fn get_array<const AT: usize, const M: usize, B: Bytes>(bytes: &B) -> [u8; M] {
    bytes.array::<AT, M>()
}

/// The four bytes from `AT` on as a number of this machine's byte order: for sums that do not depend on it.
#[inline(always)]
pub(crate) fn get_word<const AT: usize, B: Bytes>(bytes: &B) -> u64 {
    u32::from_ne_bytes(bytes.array::<AT, 4>()) as u64
}

/// Writes a header over all of the array.
#[inline(always)]
pub(crate) const fn put_header<H: Header, const N: usize>(bytes: &mut [u8; N], header: H) {
    const { assert!(size_of::<H>() == N && align_of::<H>() == 1) };
    // SAFETY: as long as the array, of alignment 1, and made of bytes.
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
    // One store. SAFETY: the range was just asserted to lie inside the array.
    unsafe { bytes.as_mut_ptr().add(AT).cast::<[u8; M]>().write(value) };
}
