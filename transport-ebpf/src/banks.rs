//! The node's memory: banks that follow each other without a gap for everybody but these programs. In the kernel, a
//! guard follows each bank, which nothing reads or writes. It lets the verifier see that the longest copy from any place
//! of a bank stays inside the map value. An access that begins in one bank and ends in the next is made in two parts.

use crate::maps;
use crate::short::{self, SHORT};
use crate::sums::{fold_to_word, sum_words};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::{bpf_xdp_load_bytes, bpf_xdp_store_bytes};
use transport_common::datapath::MAX_COPY;
use transport_common::queues::{BANK_BYTES, BANK_GUARD, MAX_BANKS};
use transport_common::verifier::opaque;

const BANK: u64 = BANK_BYTES as u64;

const _: () = assert!(BANK_GUARD >= MAX_COPY as usize + size_of::<u32>());

/// Returns the node's memory at `offset`, if there is any. [`MAX_COPY`] bytes from there are inside the map value; those
/// behind the end of the bank are its guard.
#[inline(always)]
pub(crate) fn at(offset: u64) -> Option<*mut u8> {
    let number = opaque(offset / BANK);
    if number >= MAX_BANKS as u64 {
        return None;
    }
    let bank = maps::MEMORY.get_ptr_mut(number as u32)?.cast::<u8>();
    // SAFETY: less than a bank, by the mask.
    Some(unsafe { bank.add((opaque(offset) & (BANK - 1)) as usize) })
}

/// Returns whether `length` bytes at `offset` are in two banks. `length` is at most [`MAX_COPY`].
#[inline(always)]
pub(crate) fn is_split(offset: u64, length: u32) -> bool {
    (offset & (BANK - 1)) + length as u64 > BANK
}

/// Returns the sum of `length` bytes, 1 to [`MAX_COPY`], of one bank.
#[inline(always)]
pub(crate) fn sum(from: *mut u8, length: u32) -> u32 {
    if length as u64 <= SHORT {
        // SAFETY: the guard after the bank is longer.
        return fold_to_word(unsafe { short::sum_value(from, length as u64) });
    }
    sum_long(from, length)
}

/// Does the same as [`sum`], slower for short pieces.
#[inline(always)]
fn sum_long(from: *mut u8, length: u32) -> u32 {
    let whole = length as u64 & !3;
    let sum = sum_words(from, whole, 0);
    // SAFETY: the guard after the bank has space for 4 more bytes.
    let tail = unsafe { from.add(whole as usize).cast::<u32>().read_unaligned() };
    let bits = (length & 3) * 8;
    let tail = tail & !(u32::MAX << bits);
    let sum = sum as u64 + tail as u64;
    (sum & 0xffff_ffff) as u32 + (sum >> 32) as u32
}

/// The two parts of an access that is split.
struct Parts {
    /// Where the second part begins.
    second: u64,
    /// Bytes of the first part.
    first: u32,
    /// Bytes of the second part.
    rest: u32,
}

impl Parts {
    /// Divides `length` bytes at `offset`. Returns `None` if that is not two parts of 1 to [`MAX_COPY`] bytes, which the
    /// verifier has to see.
    #[inline(always)]
    fn of(offset: u64, length: u32) -> Option<Self> {
        let first = opaque(BANK - (offset & (BANK - 1)));
        if first == 0 || first > MAX_COPY as u64 {
            return None;
        }
        let rest = opaque((length as u64).wrapping_sub(first));
        if rest == 0 || rest > MAX_COPY as u64 {
            return None;
        }
        Some(Self { second: offset.wrapping_add(first), first: first as u32, rest: rest as u32 })
    }
}

/// Returns the sum of `length` bytes in two banks, or 0 if not both are there.
#[inline(never)]
pub(crate) fn sum_split(offset: u64, length: u32) -> u32 {
    let Some(parts) = Parts::of(offset, length) else { return 0 };
    let Some(first) = at(offset) else { return 0 };
    let first = sum_long(first, parts.first);
    let Some(second) = at(parts.second) else { return 0 };
    let rest = sum_long(second, parts.rest);
    // The words of the second part begin at the odd bytes of the whole, if the first part ends within a word.
    let rest = if parts.first & 1 != 0 { rest.rotate_left(8) } else { rest };
    fold_to_word(first as u64 + rest as u64)
}

/// Copies `length` bytes in two banks to the frame, or from there. Returns false, and copies nothing, if not both banks
/// are there, or the frame is too short.
#[inline(never)]
pub(crate) fn copy_split<const TO_FRAME: bool>(
    ctx: *mut xdp_md,
    memory_offset: u64,
    offset: u32,
    length: u32,
) -> bool {
    let Some(parts) = Parts::of(memory_offset, length) else { return false };
    let Some(first) = at(memory_offset) else { return false };
    let Some(second) = at(parts.second) else { return false };
    let Some(behind) = offset.checked_add(parts.first) else { return false };
    // The second part goes first: if it fits the frame, then so does the other.
    // SAFETY: both places have MAX_COPY bytes. The helpers check the bounds of the frame.
    unsafe {
        if TO_FRAME {
            bpf_xdp_store_bytes(ctx, behind, second.cast(), parts.rest) == 0
                && bpf_xdp_store_bytes(ctx, offset, first.cast(), parts.first) == 0
        } else {
            bpf_xdp_load_bytes(ctx, behind, second.cast(), parts.rest) == 0
                && bpf_xdp_load_bytes(ctx, offset, first.cast(), parts.first) == 0
        }
    }
}

/// Stores 8 bytes in two banks. Returns false, and stores nothing, if not both are there.
#[inline(never)]
pub(crate) fn store_split(offset: u64, value: u64) -> bool {
    let Some(parts) = Parts::of(offset, size_of::<u64>() as u32) else { return false };
    let Some(first) = at(offset) else { return false };
    let Some(second) = at(parts.second) else { return false };
    let bytes = value.to_ne_bytes();
    let mut n = 0u64;
    while n < size_of::<u64>() as u64 {
        let (to, at) = if n < parts.first as u64 { (first, n) } else { (second, n - parts.first as u64) };
        let at = opaque(at) & 7;
        // SAFETY: the guard after each bank is longer than 8 bytes.
        unsafe { to.add(at as usize).write(bytes[n as usize]) };
        n += 1;
    }
    true
}
