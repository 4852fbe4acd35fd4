//! Copies and sums of short pieces of a packet, inline: below [`SHORT`] bytes the kernel's helpers cost more in getting
//! there than in the work.

use transport_common::verifier::{fresh, opaque, opaque_pointer};

/// Longest piece that is handled here, bytes: a small operation with its headers.
pub(crate) const SHORT: u64 = 256;

/// What is done to a piece, some bytes at a time.
trait Step {
    /// Handles `N` bytes, a multiple of 8, or 4, 2, 1, that stand `at` bytes behind the piece's begin; false if they are not
    /// in the packet.
    fn take<const N: usize>(&mut self, at: u64) -> bool;
}

/// Walks `length` bytes, at most [`SHORT`]; false if the packet ends before.
///
/// Each step finds its place from the begin of the piece, so that the verifier, which forgets nothing about a pointer that is
/// moved along, sees the same state whichever steps were taken before.
#[inline(always)]
fn walk(length: u64, step: &mut impl Step) -> bool {
    // What is learned about the length here is nothing to those who go on with it: they would be verified once for each case.
    let length = fresh(length);
    let mut n = 0;
    while n < SHORT / 32 && length >= 32 * (n + 1) {
        if !step.take::<32>(32 * n) {
            return false;
        }
        n += 1;
    }
    let behind = |longer: u64| opaque(length & (2 * SHORT - longer));
    (length & 16 == 0 || step.take::<16>(behind(32)))
        && (length & 8 == 0 || step.take::<8>(behind(16)))
        && (length & 4 == 0 || step.take::<4>(behind(8)))
        && (length & 2 == 0 || step.take::<2>(behind(4)))
        && (length & 1 == 0 || step.take::<1>(behind(2)))
}

/// Whether `N` bytes at `at` end before `end`.
#[inline(always)]
fn inside<const N: usize>(at: *const u8, end: *const u8) -> bool {
    at as usize + N <= end as usize
}

/// Copies `N` bytes.
///
/// # Safety
/// `N` bytes are valid at both pointers, of any alignment.
#[inline(always)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: by the contract of this function; of any alignment, since a step copies its bytes as such.
    unsafe {
        if N < 8 {
            return to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read());
        }
        let mut n = 0;
        while n < N / 8 {
            to.cast::<[u8; 8]>().add(n).write(from.cast::<[u8; 8]>().add(n).read());
            n += 1;
        }
    }
}

/// Adds `N` bytes as 32-bit words of memory order to a sum; a rest of 2 or 1 as if zeros followed.
///
/// # Safety
/// `N` bytes are valid at `from`, of any alignment.
#[inline(always)]
unsafe fn add<const N: usize>(from: *const u8, sum: u64) -> u64 {
    // SAFETY: by the contract of this function.
    unsafe {
        match N {
            1 => sum + from.read() as u64,
            2 => sum + u16::from_ne_bytes(from.cast::<[u8; 2]>().read()) as u64,
            _ => {
                let mut sum = sum;
                let mut n = 0;
                while n < N / 4 {
                    sum += u32::from_ne_bytes(from.cast::<[u8; 4]>().add(n).read()) as u64;
                    n += 1;
                }
                sum
            }
        }
    }
}

/// `at` bytes behind a pointer, with `at` bounded for the verifier by the caller.
#[inline(always)]
fn behind(begin: *const u8, at: u64) -> *mut u8 {
    opaque_pointer(begin.wrapping_add(at as usize).cast_mut())
}

/// A packet's bytes are summed.
struct SumPacket {
    begin: *const u8,
    end: *const u8,
    sum: u64,
}

impl Step for SumPacket {
    #[inline(always)]
    fn take<const N: usize>(&mut self, at: u64) -> bool {
        let from = behind(self.begin, at);
        if !inside::<N>(from, self.end) {
            return false;
        }
        // SAFETY: just compared with the end of the packet.
        self.sum = unsafe { add::<N>(from, self.sum) };
        true
    }
}

/// A map value's bytes are summed.
struct SumValue {
    begin: *const u8,
    sum: u64,
}

impl Step for SumValue {
    #[inline(always)]
    fn take<const N: usize>(&mut self, at: u64) -> bool {
        // SAFETY: by the contract of `sum_value`.
        self.sum = unsafe { add::<N>(behind(self.begin, at), self.sum) };
        true
    }
}

/// Bytes of a map value go into the packet.
struct ToPacket {
    from: *const u8,
    to: *mut u8,
    end: *const u8,
}

impl Step for ToPacket {
    #[inline(always)]
    fn take<const N: usize>(&mut self, at: u64) -> bool {
        let (from, to) = (behind(self.from, at), behind(self.to, at));
        if !inside::<N>(to, self.end) {
            return false;
        }
        // SAFETY: the packet was just compared with its end; the value by the contract of `to_packet`.
        unsafe { copy::<N>(from, to) };
        true
    }
}

/// Bytes of the packet go into a map value.
struct FromPacket {
    from: *const u8,
    to: *mut u8,
    end: *const u8,
}

impl Step for FromPacket {
    #[inline(always)]
    fn take<const N: usize>(&mut self, at: u64) -> bool {
        let (from, to) = (behind(self.from, at), behind(self.to, at));
        if !inside::<N>(from, self.end) {
            return false;
        }
        // SAFETY: the packet was just compared with its end; the value by the contract of `from_packet`.
        unsafe { copy::<N>(from, to) };
        true
    }
}

/// Where a packet's byte at `offset` stands, if that is an offset the verifier follows.
#[inline(always)]
fn place(data: *mut u8, offset: u32) -> Option<*mut u8> {
    /// The verifier adds at most 64 KiB to a packet's pointer.
    const FURTHEST: u64 = 4096;
    let offset = opaque(offset as u64);
    if offset > FURTHEST {
        return None;
    }
    // One pointer, from which all that follow differ by constants: the verifier knows of two separately computed sums no more
    // than that both are somewhere in the packet.
    Some(opaque_pointer(data.wrapping_add(offset as usize)))
}

/// Sum of a packet's `length` bytes from `offset` on, modulo 2^16 - 1; none if they are not all there.
///
/// # Safety
/// `data` and `end` are the packet's.
#[inline(always)]
pub(crate) unsafe fn sum_packet(data: *mut u8, end: *const u8, offset: u32, length: u64) -> Option<u64> {
    let mut sum = SumPacket { begin: place(data, offset)?, end, sum: 0 };
    if walk(length, &mut sum) { Some(sum.sum) } else { None }
}

/// Sum of `length` bytes of a map value, modulo 2^16 - 1.
///
/// # Safety
/// [`SHORT`] bytes are valid at `from`.
#[inline(always)]
pub(crate) unsafe fn sum_value(from: *const u8, length: u64) -> u64 {
    let mut sum = SumValue { begin: from, sum: 0 };
    walk(length, &mut sum);
    sum.sum
}

/// Copies `length` bytes of a map value to a packet's `offset`; false if the packet ends before.
///
/// # Safety
/// [`SHORT`] bytes are valid at `from`; `data` and `end` are the packet's.
#[inline(always)]
pub(crate) unsafe fn to_packet(
    data: *mut u8,
    end: *const u8,
    offset: u32,
    from: *const u8,
    length: u64,
) -> bool {
    let Some(to) = place(data, offset) else { return false };
    walk(length, &mut ToPacket { from, to, end })
}

/// Copies `length` bytes from a packet's `offset` to a map value; false if the packet ends before.
///
/// # Safety
/// [`SHORT`] bytes are valid at `to`; `data` and `end` are the packet's.
#[inline(always)]
pub(crate) unsafe fn from_packet(
    data: *mut u8,
    end: *const u8,
    offset: u32,
    to: *mut u8,
    length: u64,
) -> bool {
    let Some(from) = place(data, offset) else { return false };
    walk(length, &mut FromPacket { from, to, end })
}
