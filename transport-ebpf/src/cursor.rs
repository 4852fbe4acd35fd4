//! The cursor of decoders over a pair of packet pointers.

use transport_common::wire::cursor::{Bytes, Cursor, Header};

/// The bytes between two packet pointers.
pub(crate) struct PacketCursor {
    at: usize,
    end: usize,
}

impl PacketCursor {
    /// Creates a cursor from `data` and `data_end` of the context.
    #[inline(always)]
    pub(crate) fn new(data: usize, data_end: usize) -> Self {
        Self { at: data, end: data_end }
    }
}

/// `N` bytes of the packet that are known to be there. Must not be kept after the next change of the frame's
/// length.
pub(crate) struct Taken<const N: usize>(usize);

impl<const N: usize> Bytes for Taken<N> {
    #[inline(always)]
    fn array<const AT: usize, const M: usize>(&self) -> [u8; M] {
        const { assert!(AT + M <= N) };
        // SAFETY: `take` has compared the end of the N bytes with the packet's end, as the verifier requires.
        unsafe { ((self.0 + AT) as *const [u8; M]).read() }
    }

    #[inline(always)]
    fn header<H: Header>(&self) -> &H {
        const { assert!(size_of::<H>() <= N && align_of::<H>() == 1) };
        // SAFETY: `take` has checked that N bytes are there, and any bytes are a header. Nothing else writes the
        // packet.
        unsafe { &*(self.0 as *const H) }
    }
}

impl Cursor for PacketCursor {
    type Taken<const N: usize> = Taken<N>;

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<Taken<N>> {
        let at = self.at;
        if at + N > self.end {
            return None;
        }
        self.at += N;
        Some(Taken(at))
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        self.end - self.at
    }
}
