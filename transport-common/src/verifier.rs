//! What the kernel's BPF verifier and the compiler's BPF backend have to be told, each idiom under one name.
//!
//! The verifier walks a program path by path and gives up after a million instructions. It stops walking a path when it
//! has seen the same state at the same place before, so an idiom here either ends a walk early or keeps the verifier from
//! learning something that makes two states differ. On the host each of them is nothing.
//!
//! | idiom | whom it tells | what for |
//! |---|---|---|
//! | [`bounded!`](bounded) | verifier | a loop that ends by itself is walked twice, not to its end |
//! | [`fresh`] | verifier | a number is no longer linked to the one it was computed from |
//! | [`forget`] | verifier | a number is read back from memory, so nothing is known about it |
//! | [`opaque`], [`opaque_pointer`] | compiler | a check of the number stays in the program, where the verifier looks for it |
//! | `zero` | compiler | a struct is cleared by whole words, not by a loop over bytes |

use bytemuck::Zeroable;

/// Stands first in the body of a loop that ends by itself. On the BPF target it lets the verifier stop at the first
/// repetition instead of walking every one (`may_goto`, Linux 6.9): a bit loop over a window costs it two passes, not
/// 128. The kernel's own bound on it is far above any loop here: a quarter of a second (before Linux 6.15 8 million
/// repetitions). Elsewhere it is nothing.
///
/// `bounded!()` leaves the loop at that bound, `bounded!(statement)` does something else: `bounded!(return false)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __bounded {
    () => {
        $crate::verifier::bounded!(break)
    };
    ($leave:expr) => {
        #[cfg(target_arch = "bpf")]
        // SAFETY: a jump out of the loop, or nothing.
        unsafe {
            core::arch::asm!("may_goto {}", label { $leave }, options(nomem, nostack, preserves_flags));
        }
    };
}
pub use __bounded as bounded;

/// An integer of at most 64 bits that [`fresh`] can carry in a register.
pub trait Register: Copy {
    /// As a register holds it.
    fn to_register(self) -> u64;
    /// From a register.
    fn from_register(register: u64) -> Self;
}

impl Register for u32 {
    #[inline(always)]
    fn to_register(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn from_register(register: u64) -> Self {
        register as u32
    }
}

impl Register for u64 {
    #[inline(always)]
    fn to_register(self) -> u64 {
        self
    }

    #[inline(always)]
    fn from_register(register: u64) -> Self {
        register
    }
}

/// The same number, unrelated to what it was computed from as far as the verifier can tell: what it learns about the one by
/// a comparison it does not learn about the other.
///
/// A loop variable that the verifier links to its start (`x = start + n`) never looks the same twice, and the loop would
/// be walked to its end. A length that is told apart in branches would have all that follows walked once for each case.
#[inline(always)]
pub fn fresh<N: Register>(number: N) -> N {
    #[cfg(target_arch = "bpf")]
    {
        let mut register = number.to_register();
        // SAFETY: changes nothing.
        unsafe {
            core::arch::asm!("{0} |= 0", inout(reg) register, options(nomem, nostack, preserves_flags))
        };
        return N::from_register(register);
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}

/// Reads a word back from memory, so that the verifier knows nothing about it any more.
#[inline(always)]
pub fn forget<T: Copy>(word: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::from_ref(word).read_volatile() }
}

/// Hides a number's range from the compiler, so that the check that follows stays in the program, where the verifier looks
/// for it.
#[inline(always)]
pub fn opaque(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: moves a register onto itself. It has to be an instruction: the kernel refuses two source lines at one.
        unsafe { core::arch::asm!("{0} = {0}", inout(reg) number, options(nomem, nostack, preserves_flags)) };
        return number;
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}

/// Hides from the compiler how a pointer was computed, so that it does not compute it anew from parts that the verifier
/// cannot put together.
#[cfg_attr(
    target_arch = "bpf",
    expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it here")
)]
#[inline(always)]
pub fn opaque_pointer(pointer: *mut u8) -> *mut u8 {
    #[cfg(target_arch = "bpf")]
    {
        let mut pointer = pointer;
        // SAFETY: moves a register onto itself.
        unsafe {
            core::arch::asm!("{0} = {0}", inout(reg) pointer, options(nomem, nostack, preserves_flags))
        };
        return pointer;
    }
    #[cfg(not(target_arch = "bpf"))]
    pointer
}

/// Clears a value word by word. One large store becomes a loop over bytes on the BPF target, which the verifier walks step
/// by step.
#[inline(always)]
pub(crate) fn zero<T: Zeroable>(value: &mut T) {
    const { assert!(size_of::<T>().is_multiple_of(4) && align_of::<T>() >= 4) };
    let words = core::ptr::from_mut(value).cast::<u32>();
    let mut n = 0;
    while n < size_of::<T>() / 4 {
        // SAFETY: within the value by the bound of the loop, and aligned, as was asserted; zero is a value of the type.
        unsafe { words.add(n).write_volatile(0) };
        n += 1;
    }
}
