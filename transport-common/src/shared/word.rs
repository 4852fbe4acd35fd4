//! Replacements on the BPF target for loads and stores of words that other CPUs write.
//!
//! The target has no 32-bit atomics. LLVM turns acquire loads and release stores of 64 bits into instructions that only
//! Linux 6.15 and later have. A volatile access with a compiler fence is enough on x86-64: the processor keeps the order
//! of loads and the order of stores, and the kernel translates each access into one instruction. Other architectures do
//! not keep that order. arm64 needs the instructions of Linux 6.15.

use core::arch::asm;
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

/// One instruction that reads and writes a word. In the form that returns the old value, it is a full barrier, which is
/// what [`Ordering::SeqCst`] asks for.
macro_rules! read_modify_write {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(&self, operand: u64, _: Ordering) -> u64 {
            let mut old = operand;
            // SAFETY: the cell is valid and aligned.
            unsafe { asm!($instruction, r = inout(reg) old, p = in(reg) self.0.get(), options(nostack)) };
            old
        }
    };
}

impl AtomicU64 {
    read_modify_write!(
        /// Sets bits, and returns the previous value.
        fetch_or,
        "{r} = atomic_fetch_or((u64 *)({p} + 0), {r})"
    );
    read_modify_write!(
        /// Keeps only the given bits, and returns the previous value.
        fetch_and,
        "{r} = atomic_fetch_and((u64 *)({p} + 0), {r})"
    );
    read_modify_write!(
        /// Adds, and returns the previous value.
        fetch_add,
        "{r} = atomic_fetch_add((u64 *)({p} + 0), {r})"
    );
    read_modify_write!(
        /// Writes the word, and returns the previous value.
        swap,
        "{r} = xchg_64({p} + 0, {r})"
    );

    /// Writes `new` if the word is `expected`. Returns the previous value, as `Ok` if it was `expected`.
    ///
    /// # Errors
    /// The previous value, if it was another one.
    #[inline(always)]
    pub fn compare_exchange(&self, expected: u64, new: u64, _: Ordering, _: Ordering) -> Result<u64, u64> {
        let mut old = expected;
        // SAFETY: the cell is valid and aligned.
        unsafe {
            asm!("r0 = cmpxchg_64({p} + 0, r0, {n})", n = in(reg) new, p = in(reg) self.0.get(), inout("r0") old,
                options(nostack))
        };
        if old == expected { Ok(old) } else { Err(old) }
    }
}

/// A barrier for all loads and stores, whatever the ordering. The target has none, so it changes a word of the stack.
#[inline(always)]
pub fn fence(_: Ordering) {
    AtomicU64(UnsafeCell::new(0)).fetch_or(0, Ordering::SeqCst);
}
