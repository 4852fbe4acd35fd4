//! The lock of a connection.
//!
//! This is not the kernel's `bpf_spin_lock`. That one disables interrupts, and its four calls and two
//! read-modify-writes per pair took a fifth of the time of a 64 B WRITE (docs/decisions/state.md). Nothing that can
//! interrupt a program takes this lock. XDP runs with bottom halves off, so the holder stays on its CPU until it
//! is done, and all others that want the lock are on other CPUs.

use super::AtomicU64;
use crate::verifier::bounded;
use core::sync::atomic::Ordering::SeqCst;

const FREE: u64 = 0;
const HELD: u64 = 1;

/// Most tries to take the lock. Each takes some tens of nanoseconds while another CPU holds it, so this is a good part of a
/// second: a hypervisor may stop the holder's CPU for some milliseconds.
const MOST_TRIES: u64 = 1 << 23;

/// A spin lock in a map value. All zero bytes mean free.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
#[repr(transparent)]
pub struct Lock(AtomicU64);

impl Lock {
    /// Takes the lock. Gives up after 8 million tries, and in the kernel after a quarter of a second. Returns true if the lock
    /// is held now.
    #[inline(always)]
    #[must_use]
    pub fn acquire(&self) -> bool {
        let mut tries = 0;
        while let Err(held) = self.0.compare_exchange(FREE, HELD, SeqCst, SeqCst) {
            bounded!(return false);
            // What was found is 1, but the verifier does not know that: it need not walk the tries one by one.
            tries += held;
            if tries >= MOST_TRIES {
                return false;
            }
            #[cfg(feature = "loom")]
            loom::thread::yield_now();
        }
        true
    }

    /// Releases the lock, which the caller holds. Uses an exchange: it orders everything before it, and it is a full
    /// barrier, so that what follows, such as a read of a doorbell, is not done before (see
    /// [`NodePage::set_ready`](crate::shard::NodePage::set_ready)).
    #[inline(always)]
    pub fn release(&self) {
        self.0.swap(FREE, SeqCst);
    }
}
