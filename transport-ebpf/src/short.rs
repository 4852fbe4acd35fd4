//! Copies and sums of short pieces of a packet, inline. Below [`SHORT`] bytes, calling the kernel's helpers costs
//! more than the work itself.

use transport_common::verifier::{fresh, opaque, opaque_pointer};

/// Longest piece that this module handles, bytes: a small operation with its headers.
pub(crate) const SHORT: u64 = 256;

/// An operation on a piece, a few bytes at a time.
trait Step {
    /// Handles `N` bytes, a multiple of 8, or 4, 2, 1, that are `at` bytes after the beginning of the piece.
    /// Returns false if they are not in the packet.
    fn take<const N: usize>(&mut self, at: u64) -> bool;
}

/// Handles `length` bytes, at most [`SHORT`]. Returns false if the packet ends before.
///
/// Each step computes its position from the beginning of the piece. The verifier records every change of a pointer
/// that moves along. Computed in this way, its state is the same whichever steps came before.
#[inline(always)]
fn walk(length: u64, step: &mut impl Step) -> bool {
    // The caller must not inherit what is learned about the length here: its code would be verified once per case.
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

/// Returns whether `N` bytes at `at` end at or before `end`.
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
    // SAFETY: by the contract of this function. Any alignment is allowed, because a step copies its bytes as byte
    // arrays.
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

/// Adds `N` bytes as 32-bit words in memory order to a sum. A rest of 2 or 1 counts as if zeros followed.
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

/// Returns the address `at` bytes after a pointer. The caller has bounded `at` for the verifier.
#[inline(always)]
fn behind(begin: *const u8, at: u64) -> *mut u8 {
    opaque_pointer(begin.wrapping_add(at as usize).cast_mut())
}

/// Sums bytes of a packet.
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
        // SAFETY: the check above has compared it with the end of the packet.
        self.sum = unsafe { add::<N>(from, self.sum) };
        true
    }
}

/// Sums bytes of a map value.
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

/// Copies bytes of a map value to the packet.
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
        // SAFETY: the check above has compared the packet's part with its end. The value is valid by the contract
        // of `to_packet`.
        unsafe { copy::<N>(from, to) };
        true
    }
}

/// Copies bytes of the packet to a map value.
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
        // SAFETY: the check above has compared the packet's part with its end. The value is valid by the contract
        // of `from_packet`.
        unsafe { copy::<N>(from, to) };
        true
    }
}

/// Returns the address of the packet's byte at `offset`, if the verifier can follow this offset.
#[inline(always)]
fn place(data: *mut u8, offset: u32) -> Option<*mut u8> {
    /// The verifier adds at most 64 KiB to a packet pointer.
    const FURTHEST: u64 = 4096;
    let offset = opaque(offset as u64);
    if offset > FURTHEST {
        return None;
    }
    // One pointer, from which all later ones differ by constants. Of two sums that are computed separately, the
    // verifier knows only that both are somewhere in the packet.
    Some(opaque_pointer(data.wrapping_add(offset as usize)))
}

/// Returns the sum of a packet's `length` bytes from `offset` on, modulo 2^16 - 1. Returns `None` if not all of
/// them are there.
///
/// # Safety
/// `data` and `end` are those of the packet.
#[inline(always)]
pub(crate) unsafe fn sum_packet(data: *mut u8, end: *const u8, offset: u32, length: u64) -> Option<u64> {
    let mut sum = SumPacket { begin: place(data, offset)?, end, sum: 0 };
    if walk(length, &mut sum) { Some(sum.sum) } else { None }
}

/// Returns the sum of `length` bytes of a map value, modulo 2^16 - 1.
///
/// # Safety
/// [`SHORT`] bytes are valid at `from`.
#[inline(always)]
pub(crate) unsafe fn sum_value(from: *const u8, length: u64) -> u64 {
    let mut sum = SumValue { begin: from, sum: 0 };
    walk(length, &mut sum);
    sum.sum
}

/// Copies `length` bytes of a map value to a packet's `offset`. Returns false if the packet ends before.
///
/// # Safety
/// [`SHORT`] bytes are valid at `from`. `data` and `end` are those of the packet.
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

/// Copies `length` bytes from a packet's `offset` to a map value. Returns false if the packet ends before.
///
/// # Safety
/// [`SHORT`] bytes are valid at `to`. `data` and `end` are those of the packet.
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
