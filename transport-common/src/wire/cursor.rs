//! The one way decoders read: constant-sized pieces, front to back.

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
}

impl<const N: usize> Bytes for [u8; N] {
    #[inline(always)]
    fn array<const AT: usize, const M: usize>(&self) -> [u8; M] {
        const { assert!(AT + M <= N) };
        // SAFETY: the range was just asserted to lie inside the array.
        unsafe { self.as_ptr().add(AT).cast::<[u8; M]>().read() }
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
