//! The one way decoders read: constant-sized pieces, front to back.

/// A packet being read front to back.
pub trait Cursor {
    /// The next `N` bytes, advancing; `None`, without advancing, when fewer remain.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]>;

    /// Bytes not yet taken.
    fn remaining(&self) -> usize;
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
