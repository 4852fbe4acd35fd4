//! Big-endian fields at constant offsets of fixed arrays; an offset outside the array does not compile.

/// The byte at `AT`.
#[inline(always)]
pub(crate) const fn get_u8<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u8 {
    const { assert!(AT < N) };
    bytes[AT]
}

/// The 16-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn get_u16<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    u16::from_be_bytes(get_array::<AT, 2, N>(bytes))
}

/// The 32-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn get_u32<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    u32::from_be_bytes(get_array::<AT, 4, N>(bytes))
}

/// The 64-bit field whose first byte is at `AT`.
#[inline(always)]
pub(crate) const fn get_u64<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    u64::from_be_bytes(get_array::<AT, 8, N>(bytes))
}

/// `M` bytes from `AT` on.
#[inline(always)]
pub(crate) const fn get_array<const AT: usize, const M: usize, const N: usize>(bytes: &[u8; N]) -> [u8; M] {
    const { assert!(AT + M <= N) };
    let mut out = [0; M];
    let mut i = 0;
    while i < M {
        out[i] = bytes[AT + i];
        i += 1;
    }
    out
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
    let mut i = 0;
    while i < M {
        bytes[AT + i] = value[i];
        i += 1;
    }
}
