//! Sums of the words of memory, for checksums.

use aya_ebpf::helpers::bpf_csum_diff;
use transport_common::datapath;
use transport_common::verifier::opaque;

/// `datapath::MAX_COPY` as a 64-bit value, as the registers hold it.
pub(crate) const MAX_COPY: u64 = datapath::MAX_COPY as u64;
/// Older kernels sum at most this many bytes in one call.
const SUM_CHUNK: u64 = 512;

/// Returns the same sum modulo 2^16 - 1 in one word.
#[inline(always)]
pub(crate) fn fold_to_word(sum: u64) -> u32 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

/// Returns the sum of the words of `length` bytes, added to `seed`. `length` is a multiple of 4, at most
/// [`MAX_COPY`].
#[inline(always)]
pub(crate) fn sum_words(from: *mut u8, length: u64, seed: u32) -> u32 {
    let mut sum = seed as i64;
    let mut done = 0u64;
    let mut n = 0;
    while n < MAX_COPY / SUM_CHUNK {
        let at = opaque(done);
        let rest = opaque(length - at);
        if at > MAX_COPY - SUM_CHUNK || rest == 0 || rest > MAX_COPY {
            break;
        }
        let piece = if rest > SUM_CHUNK { SUM_CHUNK } else { rest };
        let piece = opaque(piece);
        if piece > SUM_CHUNK {
            break;
        }
        // SAFETY: at + piece is within the MAX_COPY bytes from `from` on.
        sum = unsafe {
            bpf_csum_diff(core::ptr::null_mut(), 0, from.add(at as usize).cast(), piece as u32, sum as u32)
        };
        done = at + SUM_CHUNK;
        n += 1;
    }
    sum as u32
}
