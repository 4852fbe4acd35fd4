//! Read-modify-write operations on map memory. On this target `core::sync::atomic` offers only loads and stores.

use core::arch::asm;

/// Computes `*p |= bits`, with a full barrier.
///
/// # Safety
/// `p` points to 8 aligned bytes of a map value.
#[inline(always)]
pub(crate) unsafe fn or(p: *mut u64, bits: u64) {
    let mut old = bits;
    // SAFETY: by the contract of this function. The fetching form is a full barrier.
    unsafe {
        asm!("{r} = atomic_fetch_or((u64 *)({p} + 0), {r})", r = inout(reg) old, p = in(reg) p, options(nostack))
    };
    let _ = old;
}

/// Computes `*p &= bits`, with a full barrier.
///
/// # Safety
/// `p` points to 8 aligned bytes of a map value.
#[inline(always)]
pub(crate) unsafe fn and(p: *mut u64, bits: u64) {
    let mut old = bits;
    // SAFETY: by the contract of this function.
    unsafe {
        asm!("{r} = atomic_fetch_and((u64 *)({p} + 0), {r})", r = inout(reg) old, p = in(reg) p, options(nostack))
    };
    let _ = old;
}

/// Computes `*p += n`. Returns the previous value.
///
/// # Safety
/// `p` points to 8 aligned bytes of a map value.
#[inline(always)]
pub(crate) unsafe fn fetch_add(p: *mut u64, n: u64) -> u64 {
    let mut old = n;
    // SAFETY: by the contract of this function.
    unsafe {
        asm!("{r} = atomic_fetch_add((u64 *)({p} + 0), {r})", r = inout(reg) old, p = in(reg) p, options(nostack))
    };
    old
}

/// Sets `*p = new` if the value is `expected`. Returns the previous value.
///
/// # Safety
/// `p` points to 8 aligned bytes of a map value.
#[inline(always)]
pub(crate) unsafe fn compare_exchange(p: *mut u64, expected: u64, new: u64) -> u64 {
    let mut old = expected;
    // SAFETY: by the contract of this function.
    unsafe {
        asm!("r0 = cmpxchg_64({p} + 0, r0, {n})", n = in(reg) new, p = in(reg) p, inout("r0") old, options(nostack))
    };
    old
}

/// Sets `*p = value`, ordered after everything before it.
///
/// # Safety
/// `p` points to 8 aligned bytes of a map value.
#[inline(always)]
pub(crate) unsafe fn store_release(p: *mut u64, value: u64) {
    let mut old = value;
    // SAFETY: by the contract of this function. The exchange is a full barrier.
    unsafe { asm!("{r} = xchg_64({p} + 0, {r})", r = inout(reg) old, p = in(reg) p, options(nostack)) };
    let _ = old;
}
