//! The node's memory: who may read and write what.
//!
//! A node's memory is one range of bytes, and a place in it is an offset. A [`Domain`] is what one application may use: a
//! part of that memory, and the [`Region`]s that were registered in its [`ProtectionDomain`]. Each connection is in one
//! domain.
//!
//! Nobody uses an offset that a packet or an application wrote before [`Domain::resolve`] has found the place, with a key,
//! a length and a right. A peer names a region by its [`RKey`]. An application names one by its [`LKey`], or with
//! [`LKey::OWN`] the memory of its domain.
//!
//! A place is found while the lock of the connection is held, with the domain of that connection. A frame is built after
//! the unlock: its bytes are read from the place that was found. The node ends a region, waits for a grace period, and only
//! then uses its bytes for something else.
//!
//! # Example
//!
//! ```
//! use transport_common::memory::{
//!     AccessFlags, Denied, Domain, LKey, LocalRight, ProtectionDomain, RKey, Region, RemoteRight,
//! };
//!
//! let [one, other] = [(1, 0), (2, 8192)].map(|(id, offset)| Domain::new(ProtectionDomain(id), offset, 8192));
//! let region =
//!     Region { offset: 4096, length: 100, key: 7, access: AccessFlags::REMOTE_READ, domain: one.id, ..Region::default() };
//! let place = one.resolve(RKey(7), &region, 20, 80, RemoteRight::Read).expect("it may be read");
//! assert_eq!(place.offset(), 4116);
//! assert_eq!(one.resolve(RKey(7), &region, 20, 81, RemoteRight::Read), Err(Denied::Bounds));
//! assert_eq!(one.resolve(RKey(7), &region, 20, 80, RemoteRight::Write), Err(Denied::Right));
//! assert_eq!(other.resolve(RKey(7), &region, 20, 80, RemoteRight::Read), Err(Denied::Domain));
//! assert_eq!(other.resolve(LKey::OWN, &region, 4096, 8, LocalRight::Read), Err(Denied::Bounds));
//! ```

mod domain;
mod key;
mod region;
#[cfg(test)]
mod tests;

pub use crate::ids::RKey;
pub use domain::{Denied, Domain, ProtectionDomain, Resolved};
pub use key::{Key, LKey, LocalRight, RemoteRight};
pub use region::{AccessFlags, REGIONS, Region};

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
    assert!(REGIONS.is_power_of_two());
};
