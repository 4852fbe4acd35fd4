//! Typed identifiers and serial numbers.
//!
//! [`Psn`] and [`Rsn`] wrap at 2^32. So they have serial comparison and no `Ord` (D-19).

use crate::ring::place;
use bytemuck::{Pod, Zeroable};

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number `n` steps later, modulo 2^32.
            #[inline(always)]
            #[must_use]
            pub const fn add(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// Returns the number `n` steps earlier, modulo 2^32.
            #[inline(always)]
            #[must_use]
            pub const fn sub(self, n: u32) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// Returns the number of steps from `base` forward to `self`, modulo 2^32.
            #[inline(always)]
            pub const fn distance_from(self, base: Self) -> u32 {
                self.0.wrapping_sub(base.0)
            }

            /// Serial "less than": returns whether `self` is in the half of the number circle before `other`
            /// (D-19).
            #[inline(always)]
            pub const fn is_before(self, other: Self) -> bool {
                (self.0.wrapping_sub(other.0) as i32) < 0
            }
        }
    };
}

serial_number! {
    /// Packet sequence number of one window of one direction (F-6.1.2-2).
    ///
    /// ```
    /// use transport_common::ids::Psn;
    ///
    /// let last = Psn(u32::MAX);
    /// assert_eq!(last.add(2), Psn(1));
    /// assert_eq!(Psn(1).distance_from(last), 2);
    /// assert!(last.is_before(Psn(1)), "the half of the circle before a number is earlier");
    /// ```
    Psn
}
serial_number! {
    /// Request sequence number: identifies the state and the order of a transaction (F-6.1.1-1).
    Rsn
}

/// Position of a work request: the number under which it was posted to the send queue of its queue pair, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct WorkPosition(pub u32);

impl WorkPosition {
    /// Returns the position of the request that gets this RSN. A connection has one queue pair, whose counters begin at the
    /// first RSN, and its requests become transactions in their order. So both have one number, and only this function and
    /// [`Self::rsn`] know it. Once a transaction has begun, its position is in its table entry.
    #[inline(always)]
    pub const fn of(rsn: Rsn) -> Self {
        Self(rsn.0)
    }

    /// Returns the RSN that the request at this position gets.
    #[inline(always)]
    pub const fn rsn(self) -> Rsn {
        Rsn(self.0)
    }
}

/// Connection identifier, 24 bits. The end that receives the packets that carry it allocates it (F-6.2-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Cid(pub u32);

impl Cid {
    /// Largest value that fits the 24-bit field.
    pub const MAX: u32 = 0x00ff_ffff;
}

/// Largest number of connections of a node, a power of two.
pub const CONNECTIONS: usize = 256;

/// Index of a connection in the tables of a node. It is always below [`CONNECTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u32);

impl Slot {
    /// Returns the slot of a CID: its value modulo [`CONNECTIONS`].
    #[inline(always)]
    pub const fn of(cid: Cid) -> Self {
        Self(place::<CONNECTIONS>(cid.0) as u32)
    }

    /// Returns the index in a table.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the index as the maps, the shard and the platform want it.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Number of a receive cell of a node, from 1 on. Zeroed memory names no cell. It has 32 bits wherever it is kept, so that a
/// node may have more cells than 16 bits can name.
///
/// ```
/// use transport_common::ids::CellId;
///
/// let third = CellId::at(2);
/// assert_eq!((third, third.index()), (CellId(3), 2));
/// assert!(CellId::default().is_none());
/// assert_eq!(CellId::NONE.index(), u32::MAX, "no table has this entry");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct CellId(pub u32);

impl CellId {
    /// No cell.
    pub const NONE: Self = Self(0);

    /// Returns the cell with this index in the table of cells.
    #[inline(always)]
    pub const fn at(index: u32) -> Self {
        Self(index.wrapping_add(1))
    }

    /// Returns the index in the table of cells. For [`Self::NONE`] this is one that no table has: `u32::MAX`.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0.wrapping_sub(1)
    }

    /// Returns whether it names no cell.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }
}

/// PSP security parameters index; 0 means not configured (F-9.2.2.3-8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Spi(pub u32);

/// Key with which a peer names a registered memory region; 0 is never valid (D-84).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct RKey(pub u32);
