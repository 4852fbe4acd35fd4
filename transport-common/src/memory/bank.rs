//! Sizes of the node's memory.

/// Bytes of a memory bank, a power of two. A node's memory is a number of banks, which follow each other without a
/// gap: an access may begin in one and end in the next.
pub const BANK_BYTES: usize = 16 << 20;
/// Bytes after each bank in the kernel, which nothing reads or writes. With them, the verifier can see that the
/// longest copy stays inside a bank. They are a page of every architecture, so that banks can be mapped one after
/// the other.
pub const BANK_GUARD: usize = 64 << 10;
/// Largest number of banks of a node: 64 GiB.
pub const MAX_BANKS: usize = 4096;
/// Banks of a node that asks for no other number: 256 MiB.
pub const DEFAULT_BANKS: usize = 16;
/// Bytes of these banks.
pub const DEFAULT_MEMORY: u64 = (DEFAULT_BANKS * BANK_BYTES) as u64;
/// Bytes of a page, in which a domain counts the node's memory.
pub const PAGE_BYTES: u64 = 4096;

const _: () = {
    assert!(BANK_BYTES.is_power_of_two() && (BANK_BYTES as u64).is_multiple_of(PAGE_BYTES));
    assert!((MAX_BANKS * BANK_BYTES) as u64 / PAGE_BYTES <= u32::MAX as u64);
};
