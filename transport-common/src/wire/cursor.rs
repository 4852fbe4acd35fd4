//! The one way decoders read: constant-sized pieces, front to back.

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};
use network_types::udp::UdpHdr;

/// A packet being read front to back.
pub trait Cursor {
    /// Bytes that were taken.
    type Taken<const N: usize>: Bytes;

    /// The next `N` bytes, advancing; `None`, without advancing, when fewer remain.
    fn take<const N: usize>(&mut self) -> Option<Self::Taken<N>>;

    /// Bytes not yet taken.
    fn remaining(&self) -> usize;
}

/// A constant number of bytes, read field by field: on the BPF target each field is one load from the packet, where it is
/// used.
pub trait Bytes {
    /// `M` bytes from `AT` on; a range that is not inside does not compile.
    fn array<const AT: usize, const M: usize>(&self) -> [u8; M];

    /// The first bytes as a header; one that is longer than what was taken does not compile.
    fn header<H: Header>(&self) -> &H;
}

/// A header made of byte fields alone, in the order of the wire.
///
/// # Safety
/// Every sequence of bytes of its size is a value of the type, at any address: its alignment is 1.
pub unsafe trait Header {}

// SAFETY: `repr(C)` of bytes and arrays of bytes.
unsafe impl Header for Ipv4Hdr {}
// SAFETY: likewise.
unsafe impl Header for Ipv6Hdr {}
// SAFETY: likewise.
unsafe impl Header for UdpHdr {}

const _: () = {
    assert!(align_of::<Ipv4Hdr>() == 1 && size_of::<Ipv4Hdr>() == 20);
    assert!(align_of::<Ipv6Hdr>() == 1 && size_of::<Ipv6Hdr>() == 40);
    assert!(align_of::<UdpHdr>() == 1 && size_of::<UdpHdr>() == 8);
};

impl<const N: usize> Bytes for [u8; N] {
    #[inline(always)]
    fn array<const AT: usize, const M: usize>(&self) -> [u8; M] {
        const { assert!(AT + M <= N) };
        // SAFETY: the range was just asserted to lie inside the array.
        unsafe { self.as_ptr().add(AT).cast::<[u8; M]>().read() }
    }

    #[inline(always)]
    fn header<H: Header>(&self) -> &H {
        const { assert!(size_of::<H>() <= N && align_of::<H>() == 1) };
        // SAFETY: as long as the array at least, as was just asserted, and any bytes are a header.
        unsafe { &*self.as_ptr().cast() }
    }
}

/// A cursor over a slice: the host's side of the decoders.
#[derive(Clone, Copy, Debug)]
pub struct SliceCursor<'a> {
    rest: &'a [u8],
}

impl<'a> SliceCursor<'a> {
    /// Starts at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not yet taken.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl Cursor for SliceCursor<'_> {
    type Taken<const N: usize> = [u8; N];

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        self.rest.len()
    }
}
