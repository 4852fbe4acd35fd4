//! Values in memory that another process or program may write at any time.

use bytemuck::Zeroable;
use core::cell::UnsafeCell;

mod lock;
#[cfg(feature = "loom")]
mod modelled;
#[cfg(target_arch = "bpf")]
mod word;

#[cfg(not(any(target_arch = "bpf", feature = "loom")))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, fence};
pub use lock::Lock;
#[cfg(feature = "loom")]
pub use modelled::{AtomicU32, AtomicU64, fence};
#[cfg(target_arch = "bpf")]
pub use word::{AtomicU32, AtomicU64, fence};

/// A queue entry that the other side may write at any time.
#[derive(Zeroable)]
#[repr(transparent)]
pub struct Slot<T>(UnsafeCell<T>);

// SAFETY: plain data behind volatile accesses. A torn value is checked like any other untrusted value.
unsafe impl<T: Copy> Sync for Slot<T> {}

impl<T: Copy> Slot<T> {
    /// Reads the entry once.
    #[inline(always)]
    pub fn load(&self) -> T {
        #[cfg(feature = "loom")]
        modelled::reads(self.0.get());
        // SAFETY: the cell is valid plain data. Volatile, because another process may write it.
        unsafe { core::ptr::read_volatile(self.0.get()) }
    }

    /// Returns the address of the entry, for copies by word.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    /// Writes the entry.
    #[inline(always)]
    pub fn store(&self, value: T) {
        // SAFETY: the cell is valid plain data. Readers read it only after the counter has moved.
        unsafe { core::ptr::write_volatile(self.0.get(), value) }
        #[cfg(feature = "loom")]
        modelled::writes(self.0.get());
    }
}
