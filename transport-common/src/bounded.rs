//! Loops the BPF verifier accepts.

/// Stands first in the body of a loop that ends by itself. On the BPF target it lets the verifier stop at the first
/// repetition instead of walking every one (`may_goto`, Linux 6.9): a bit loop over a window costs it two passes, not
/// 128. The kernel's own bound on it is far above any loop here. Elsewhere it is nothing.
macro_rules! bounded {
    () => {
        #[cfg(target_arch = "bpf")]
        // SAFETY: a jump out of the loop, or nothing.
        unsafe {
            core::arch::asm!("may_goto {}", label { break }, options(nomem, nostack, preserves_flags));
        }
    };
}
pub(crate) use bounded;

/// The same number, unrelated to what it was computed from as far as the verifier can tell. A loop variable that it
/// links to its start (`x = start + n`) never looks the same twice, and the loop would be walked to its end.
#[inline(always)]
pub(crate) fn fresh(value: u32) -> u32 {
    #[cfg(target_arch = "bpf")]
    {
        let mut value = value as u64;
        // SAFETY: changes nothing.
        unsafe { core::arch::asm!("{0} |= 0", inout(reg) value, options(nomem, nostack, preserves_flags)) };
        return value as u32;
    }
    #[cfg(not(target_arch = "bpf"))]
    value
}
