//! The lock of a connection.
//!
//! This is not the kernel's `bpf_spin_lock`. That one disables interrupts, and its four calls and two
//! read-modify-writes per pair took a fifth of the time of a 64 B WRITE (docs/decisions.md). Nothing that can
//! interrupt a program takes this lock. XDP runs with bottom halves off, so the holder stays on its CPU until it
//! is done, and all others that want the lock are on other CPUs.

use super::AtomicU64;
use crate::verifier::bounded;
use core::sync::atomic::Ordering::SeqCst;

const FREE: u64 = 0;
const HELD: u64 = 1;

/// A spin lock in a map value. All zero bytes mean free.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
#[repr(transparent)]
pub struct Lock(AtomicU64);

impl Lock {
    /// Takes the lock. In the kernel, gives up if the kernel ends the wait, which it does after a quarter of a second
    /// (before Linux 6.15: after 8 million tries). Returns true if the lock is held now.
    #[inline(always)]
    #[must_use]
    pub fn acquire(&self) -> bool {
        while self.0.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_err() {
            bounded!(return false);
            #[cfg(feature = "loom")]
            loom::thread::yield_now();
        }
        true
    }

    /// Releases the lock, which the caller holds. Uses an exchange: it orders everything before it, and it is a full
    /// barrier, so that what follows, such as a look at a doorbell, is not done before (see
    /// [`NodePage::set_ready`](crate::queues::NodePage::set_ready)).
    #[inline(always)]
    pub fn release(&self) {
        self.0.swap(FREE, SeqCst);
    }
}
