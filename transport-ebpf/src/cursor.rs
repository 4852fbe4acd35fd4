//! The decoder's cursor over verifier pointers.

use transport_common::wire::cursor::Cursor;

/// Bytes between two packet pointers.
pub(crate) struct PacketCursor {
    at: usize,
    end: usize,
}

impl PacketCursor {
    /// From `data` and `data_end` of the context.
    #[inline(always)]
    pub(crate) fn new(data: usize, data_end: usize) -> Self {
        Self { at: data, end: data_end }
    }
}

impl Cursor for PacketCursor {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.at + N > self.end {
            return None;
        }
        // Byte by byte: the compiler joins them into wide loads where they are used, while a copy of the array would
        // go through the stack, which the verifier wants aligned.
        let mut bytes = [0; N];
        let mut n = 0;
        while n < N {
            // SAFETY: the comparison above is what the verifier asks for.
            bytes[n] = unsafe { *((self.at + n) as *const u8) };
            n += 1;
        }
        self.at += N;
        Some(bytes)
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        self.end - self.at
    }
}
