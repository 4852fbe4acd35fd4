//! Idioms for the kernel's BPF verifier and the compiler's BPF backend, each under one name.
//!
//! The verifier walks a program path by path and gives up after a million instructions. It stops walking a path if
//! it has seen the same state at the same place before. So an idiom either ends a walk early, or keeps the
//! verifier from learning a fact that makes two states differ. On the host each of them does nothing.
//!
//! | idiom | for | effect |
//! |---|---|---|
//! | [`bounded!`](bounded) | verifier | a loop that ends by itself is walked twice, not to its end |
//! | [`walked_once!`](walked_once) | verifier | a function is walked once, not for each state of its callers |
//! | [`fresh`] | verifier | a number is no longer linked to the one from which it was computed |
//! | [`forget`] | verifier | a number is read back from memory, so nothing is known about it |
//! | [`opaque`], [`opaque_pointer`] | compiler | a check stays in the program, where the verifier needs it |
//! | `zero` | compiler | a struct is cleared by whole words, not by a loop over bytes |

use bytemuck::Zeroable;

/// The first statement in the body of a loop that ends by itself. On the BPF target it lets the verifier stop at
/// the first repetition instead of walking every one (`may_goto`, Linux 6.9). A bit loop over a window costs the
/// verifier two passes instead of 128. The kernel has its own bound on such loops, which is far above any loop
/// here: a quarter of a second (before Linux 6.15: 8 million repetitions). On other targets it does nothing.
///
/// At that bound `bounded!()` leaves the loop, and `bounded!(statement)` executes the statement: `bounded!(return
/// false)`.
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

/// Defines a function that the verifier walks once for each program, with arguments of which it knows nothing: a *global*
/// function. It walks any other function for each of its calls, and again for each state that differs. So this is for
/// large functions that are called from several places, or with much state around them.
///
/// References come first: their targets may be anywhere in memory that the program may write. Then, behind a semicolon,
/// numbers. Together there are at most five, and no two such functions of a program have the same name. The result is
/// nothing, a `bool` or a `u32`.
#[doc(hidden)]
#[macro_export]
macro_rules! __walked_once {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident(
            $($place:ident: $type:ty),+ $(; $($number:ident: $integer:ty),+)?
        ) -> $result:ty $body:block
    ) => {
        $(#[$attribute])*
        #[inline(always)]
        $visibility fn $name($($place: $type,)+ $($($number: $integer),+)?) -> $result {
            #[inline(always)]
            fn body($($place: $type,)+ $($($number: $integer),+)?) -> $result $body

            #[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
            #[inline(never)]
            extern "C" fn $name(
                $($place: *mut <$type as $crate::verifier::Place>::Target,)+
                $($($number: $integer),+)?
            ) -> u32 {
                // For the verifier, which knows only their types: no caller passes a null pointer.
                if $($place.is_null())||+ {
                    return 0;
                }
                // SAFETY: the caller, which is above, made the pointers of these references.
                let result = body($(unsafe { $crate::verifier::Place::of($place) },)+ $($($number),+)?);
                $crate::verifier::Scalar::into_u32(result)
            }
            let result = $name($($crate::verifier::Place::pointer($place),)+ $($($number),+)?);
            <$result as $crate::verifier::Scalar>::from_u32(result)
        }
    };
}
pub use __walked_once as walked_once;

/// A reference that [`walked_once`] passes as a pointer.
#[doc(hidden)]
pub trait Place {
    /// What it refers to.
    type Target;
    /// Returns the pointer.
    fn pointer(self) -> *mut Self::Target;
    /// Returns the reference again.
    ///
    /// # Safety
    /// The pointer is from [`Self::pointer`], and its reference is not used before this one ends.
    unsafe fn of(pointer: *mut Self::Target) -> Self;
}

impl<T> Place for &T {
    type Target = T;

    #[inline(always)]
    fn pointer(self) -> *mut T {
        core::ptr::from_ref(self).cast_mut()
    }

    #[inline(always)]
    unsafe fn of(pointer: *mut T) -> Self {
        // SAFETY: by the function's own conditions.
        unsafe { &*pointer }
    }
}

impl<T> Place for &mut T {
    type Target = T;

    #[inline(always)]
    fn pointer(self) -> *mut T {
        core::ptr::from_mut(self)
    }

    #[inline(always)]
    unsafe fn of(pointer: *mut T) -> Self {
        // SAFETY: by the function's own conditions.
        unsafe { &mut *pointer }
    }
}

/// A result of a function by [`walked_once`].
#[doc(hidden)]
pub trait Scalar {
    /// Returns it as a number.
    fn into_u32(self) -> u32;
    /// Returns it again.
    fn from_u32(number: u32) -> Self;
}

impl Scalar for () {
    #[inline(always)]
    fn into_u32(self) -> u32 {
        0
    }

    #[inline(always)]
    fn from_u32(_: u32) {}
}

impl Scalar for bool {
    #[inline(always)]
    fn into_u32(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn from_u32(number: u32) -> Self {
        number != 0
    }
}

impl Scalar for u32 {
    #[inline(always)]
    fn into_u32(self) -> u32 {
        self
    }

    #[inline(always)]
    fn from_u32(number: u32) -> Self {
        number
    }
}

/// An integer of at most 64 bits that [`fresh`] can carry in a register.
pub trait Register: Copy {
    /// Returns the value as a register holds it.
    fn to_register(self) -> u64;
    /// Creates the value from a register.
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

/// Returns the same number, which for the verifier is not related to the number it was computed from: what a
/// comparison of one tells the verifier says nothing about the other.
///
/// If the verifier links a loop variable to its start (`x = start + n`), no two states of the loop are the same,
/// and it walks the loop to its end. If branches set a length to different values, the verifier walks all later
/// code once per value.
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

/// Reads a word back from memory, so that the verifier no longer knows anything about it.
#[inline(always)]
pub fn forget<T: Copy>(word: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::from_ref(word).read_volatile() }
}

/// Hides a number's range from the compiler, so that the check that follows stays in the program. The verifier
/// needs this check.
#[inline(always)]
pub fn opaque(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: moves a register to itself. It has to be an instruction: the kernel refuses two source lines at
        // one instruction.
        unsafe { core::arch::asm!("{0} = {0}", inout(reg) number, options(nomem, nostack, preserves_flags)) };
        return number;
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}

/// Hides from the compiler how a pointer was computed. Otherwise it could compute the pointer again from parts
/// that the verifier cannot combine.
#[cfg_attr(
    target_arch = "bpf",
    expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it here")
)]
#[inline(always)]
pub fn opaque_pointer(pointer: *mut u8) -> *mut u8 {
    #[cfg(target_arch = "bpf")]
    {
        let mut pointer = pointer;
        // SAFETY: moves a register to itself.
        unsafe {
            core::arch::asm!("{0} = {0}", inout(reg) pointer, options(nomem, nostack, preserves_flags))
        };
        return pointer;
    }
    #[cfg(not(target_arch = "bpf"))]
    pointer
}

/// Clears a value word by word. On the BPF target one large store becomes a loop over bytes, which the verifier
/// walks step by step.
#[inline(always)]
pub(crate) fn zero<T: Zeroable>(value: &mut T) {
    const { assert!(size_of::<T>().is_multiple_of(4) && align_of::<T>() >= 4) };
    let words = core::ptr::from_mut(value).cast::<u32>();
    let mut n = 0;
    while n < size_of::<T>() / 4 {
        // SAFETY: the bound of the loop keeps the word inside the value, and the assertion proves the alignment.
        // Zero is a valid value of the type.
        unsafe { words.add(n).write_volatile(0) };
        n += 1;
    }
}
