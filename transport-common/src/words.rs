//! Plain structs of 32-bit words. One large store becomes a loop over bytes on the BPF target, which the kernel's verifier
//! walks step by step; these write whole words.

/// Zeroes a value word by word.
///
/// # Safety
/// `T` consists of 32-bit words, or of larger ones, and all zero bytes are a valid `T`.
#[inline(always)]
pub(crate) unsafe fn zero<T>(value: &mut T) {
    let words = core::ptr::from_mut(value).cast::<u32>();
    let mut n = 0;
    while n < size_of::<T>() / 4 {
        // SAFETY: within the value by the bound of the loop, aligned by the contract.
        unsafe { words.add(n).write_volatile(0) };
        n += 1;
    }
}

/// Reads a word back from memory, so that nothing is known about it any more.
#[inline(always)]
pub(crate) fn forget<T: Copy>(word: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::from_ref(word).read_volatile() }
}
