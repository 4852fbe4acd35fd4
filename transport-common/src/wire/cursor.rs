//! The interface through which all decoders read: pieces of constant size, from front to back.

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};
use network_types::udp::UdpHdr;

/// A packet that is read from front to back.
pub trait Cursor {
    /// The type of the bytes that [`Self::take`] returns.
    type Taken<const N: usize>: Bytes;

    /// Returns the next `N` bytes and advances. If fewer remain, returns `None` and does not advance.
    fn take<const N: usize>(&mut self) -> Option<Self::Taken<N>>;

    /// Returns the number of bytes not yet taken.
    fn remaining(&self) -> usize;
}

/// A constant number of bytes, read field by field. On the BPF target each field is one load from the packet, at
/// the place where it is used.
pub trait Bytes {
    /// Returns `M` bytes from `AT` on. A range outside the bytes does not compile.
    fn array<const AT: usize, const M: usize>(&self) -> [u8; M];

    /// Returns the first bytes as a header. A header that is longer than the bytes does not compile.
    fn header<H: Header>(&self) -> &H;
}

/// A header that consists only of byte fields, in the order of the wire.
///
/// # Safety
/// Every sequence of bytes of its size is a value of the type, at any address: its alignment is 1.
pub unsafe trait Header {}

// SAFETY: `repr(C)` of bytes and arrays of bytes.
unsafe impl Header for Ipv4Hdr {}
// SAFETY: as above.
unsafe impl Header for Ipv6Hdr {}
// SAFETY: as above.
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
        // SAFETY: the assertion above proves that the range is inside the array.
        unsafe { self.as_ptr().add(AT).cast::<[u8; M]>().read() }
    }

    #[inline(always)]
    fn header<H: Header>(&self) -> &H {
        const { assert!(size_of::<H>() <= N && align_of::<H>() == 1) };
        // SAFETY: the assertion above proves that the array is at least as long. Any bytes are a header.
        unsafe { &*self.as_ptr().cast() }
    }
}

/// A cursor over a slice, for decoders on the host.
#[derive(Clone, Copy, Debug)]
pub struct SliceCursor<'a> {
    rest: &'a [u8],
}

impl<'a> SliceCursor<'a> {
    /// Creates a cursor at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes not yet taken.
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
