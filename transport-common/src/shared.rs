//! Values in memory that another process or program may write at any time.

use bytemuck::Zeroable;
use core::cell::UnsafeCell;

#[cfg(not(target_arch = "bpf"))]
pub use core::sync::atomic::AtomicU32;
#[cfg(target_arch = "bpf")]
pub use word::AtomicU32;

/// Replacement for `AtomicU32` on the BPF target, which has only 64-bit atomics: loads and stores of 32 bits.
#[cfg(target_arch = "bpf")]
mod word {
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering;

    /// A 32-bit word that other CPUs write. Volatile accesses keep their order among each other. The processor
    /// also keeps it on x86-64, the architecture that this project supports.
    #[repr(transparent)]
    pub struct AtomicU32(UnsafeCell<u32>);

    // SAFETY: every access is a single volatile load or store.
    unsafe impl Sync for AtomicU32 {}

    impl AtomicU32 {
        /// Returns the word at `p`.
        ///
        /// # Safety
        /// `p` must be valid for `'a`, and aligned.
        #[inline(always)]
        pub const unsafe fn from_ptr<'a>(p: *mut u32) -> &'a Self {
            // SAFETY: by the contract of this function. Both types have the same layout.
            unsafe { &*p.cast() }
        }

        /// Reads the word.
        #[inline(always)]
        pub fn load(&self, _: Ordering) -> u32 {
            // SAFETY: the cell is valid and aligned.
            unsafe { core::ptr::read_volatile(self.0.get()) }
        }

        /// Writes the word.
        #[inline(always)]
        pub fn store(&self, value: u32, _: Ordering) {
            // SAFETY: the cell is valid and aligned.
            unsafe { core::ptr::write_volatile(self.0.get(), value) }
        }
    }
}

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
    }
}
