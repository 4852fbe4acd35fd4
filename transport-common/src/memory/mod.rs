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

mod bank;
mod domain;
mod key;
mod region;
#[cfg(test)]
mod tests;

pub use crate::ids::RKey;
pub use bank::{BANK_BYTES, BANK_GUARD, DEFAULT_BANKS, DEFAULT_MEMORY, MAX_BANKS, PAGE_BYTES};
pub use domain::{Denied, Domain, Resolved};
pub use key::{Key, LKey, LocalRight, RemoteRight};
pub use region::{AccessFlags, ProtectionDomain, REGIONS, Region};
