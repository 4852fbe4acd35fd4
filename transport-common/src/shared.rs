//! Values in memory that another process or program may write at any time.

use bytemuck::Zeroable;
use core::cell::UnsafeCell;

#[cfg(not(target_arch = "bpf"))]
pub use core::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(target_arch = "bpf")]
pub use word::{AtomicU32, AtomicU64};

/// Replacements on the BPF target for loads and stores of words that other CPUs write.
///
/// The target has no 32-bit atomics. LLVM turns acquire loads and release stores of 64 bits into instructions that only
/// Linux 6.15 and later have. A volatile access with a compiler fence is enough on x86-64: the processor keeps the order
/// of loads and the order of stores, and the kernel translates each access into one instruction. Other architectures do
/// not keep that order. arm64 needs the instructions of Linux 6.15.
#[cfg(target_arch = "bpf")]
mod word {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{Ordering, compiler_fence};

    macro_rules! word {
        ($name:ident, $value:ty) => {
            /// A word that other CPUs write.
            #[derive(Debug)]
            #[repr(transparent)]
            pub struct $name(UnsafeCell<$value>);

            // SAFETY: every access is a single volatile load or store.
            unsafe impl Sync for $name {}

            impl $name {
                /// Returns the word at `p`.
                ///
                /// # Safety
                /// `p` is valid for `'a`, and aligned.
                #[inline(always)]
                pub const unsafe fn from_ptr<'a>(p: *mut $value) -> &'a Self {
                    // SAFETY: by the contract of this function; the types have one layout.
                    unsafe { &*p.cast() }
                }

                /// Returns the address of the word.
                #[inline(always)]
                pub const fn as_ptr(&self) -> *mut $value {
                    self.0.get()
                }

                /// Reads the word.
                #[inline(always)]
                pub fn load(&self, ordering: Ordering) -> $value {
                    // SAFETY: the cell is valid and aligned.
                    let value = unsafe { core::ptr::read_volatile(self.0.get()) };
                    if matches!(ordering, Ordering::Acquire) {
                        compiler_fence(Ordering::Acquire);
                    }
                    value
                }

                /// Writes the word.
                #[inline(always)]
                pub fn store(&self, value: $value, ordering: Ordering) {
                    if matches!(ordering, Ordering::Release) {
                        compiler_fence(Ordering::Release);
                    }
                    // SAFETY: the cell is valid and aligned.
                    unsafe { core::ptr::write_volatile(self.0.get(), value) }
                }
            }
        };
    }

    word!(AtomicU32, u32);
    word!(AtomicU64, u64);
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
