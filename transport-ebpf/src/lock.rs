//! The lock of a connection.
//!
//! This is not the kernel's `bpf_spin_lock`. That one disables interrupts, and its four calls and two
//! read-modify-writes per pair took a fifth of the time of a 64 B WRITE (docs/decisions.md). Nothing that can
//! interrupt a program takes this lock. XDP runs with bottom halves off, so the holder stays on its CPU until it
//! is done, and all others that want the lock are on other CPUs.

use crate::atomic;
use transport_common::verifier::bounded;

const FREE: u64 = 0;
const HELD: u64 = 1;

/// A spin lock in a map value. All zero bytes mean free.
#[repr(transparent)]
pub(crate) struct Lock(u64);

impl Lock {
    /// Takes the lock. Gives up if the kernel ends the wait, which it does after a quarter of a second (before
    /// Linux 6.15: after 8 million tries). Returns true if the lock is held now.
    ///
    /// # Safety
    /// `lock` points to a lock in a map value.
    #[inline(always)]
    pub(crate) unsafe fn acquire(lock: *mut Self) -> bool {
        // SAFETY: by the contract of this function. The structure is one word.
        while unsafe { atomic::compare_exchange(lock.cast(), FREE, HELD) } != FREE {
            bounded!(return false);
        }
        true
    }

    /// Releases the lock. Uses an exchange, because a plain store would order nothing on a machine that may
    /// reorder stores.
    ///
    /// # Safety
    /// `lock` points to a lock in a map value, and the caller holds it.
    #[inline(always)]
    pub(crate) unsafe fn release(lock: *mut Self) {
        // SAFETY: by the contract of this function.
        unsafe { atomic::store_release(lock.cast(), FREE) };
    }
}
