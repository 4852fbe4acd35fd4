//! Receive timestamps of the card: how its clock relates to the node's, and which stamps can be believed.
//!
//! A card stamps frames by a clock of its own. T1 to T4 are compared with each other (F-10.1-3), so all of them have to
//! be of one clock, the node's monotonic one. User space measures the relation of the two and keeps it current; the
//! program that receives converts.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::counters::Counter;
use crate::shared::AtomicU64;
use crate::units::Picoseconds;

/// Stands in the program for the kernel function `bpf_xdp_metadata_rx_timestamp`, whose number differs from kernel to
/// kernel: a helper number that no kernel has, which the loader replaces.
pub const RX_TIMESTAMP_CALL: i32 = 0x7fff_5453;

/// How uncertain a measured relation may be, nanoseconds, and so how far in the future a stamp may seem to be.
pub const LARGEST_ERROR_NANOS: u64 = 5_000;
/// How long a relation holds, nanoseconds: at a drift of 10 parts in a million that is not known, its error grows to twice
/// [`LARGEST_ERROR_NANOS`].
pub const LONGEST_USE_NANOS: u64 = 1_000_000_000;
/// A frame does not wait longer than this for its turn, nanoseconds; an older stamp is another frame's or wrong.
pub const OLDEST_STAMP_NANOS: u64 = 100_000_000;
/// [`Relation::drift`] of a card's clock that is 1 in a thousand slower than ours. No clock in order is farther off.
pub const LARGEST_DRIFT: i64 = (1 << 32) / 1000;

/// One instant by both clocks, and how they part from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// Nanoseconds of the card's clock.
    pub stamp: u64,
    /// Nanoseconds of the monotonic clock at the same instant.
    pub time: u64,
    /// Nanoseconds that the monotonic clock gains for each of the card's clock, in units of 2^-32.
    pub drift: i64,
}

impl Relation {
    /// When a frame with this stamp came off the wire, and under which counter that goes: the card's stamp if it can be
    /// believed, else `now`. A stamp of 0 is none.
    #[inline(always)]
    pub fn arrival(&self, stamp: u64, now: Picoseconds) -> (Picoseconds, Counter) {
        const LONGEST_USE: u64 = LONGEST_USE_NANOS * 1000;
        const OLDEST_STAMP: i64 = (OLDEST_STAMP_NANOS * 1000) as i64;
        const LARGEST_ERROR: i64 = (LARGEST_ERROR_NANOS * 1000) as i64;
        const LONGEST_ELAPSED: i64 = (LONGEST_USE_NANOS + OLDEST_STAMP_NANOS + LARGEST_ERROR_NANOS) as i64;
        if stamp == 0 {
            return (now, Counter::StampAbsent);
        }
        if now.0.wrapping_sub(Picoseconds::from_nanos(self.time).0) > LONGEST_USE {
            return (now, Counter::StampClockUnknown);
        }
        // Nothing below overflows within these bounds.
        let elapsed = stamp.wrapping_sub(self.stamp) as i64;
        if elapsed > LONGEST_ELAPSED {
            return (now, Counter::StampInFuture);
        }
        if elapsed < -LONGEST_ELAPSED {
            return (now, Counter::StampTooOld);
        }
        let elapsed = elapsed + ((elapsed * self.drift) >> 32);
        let arrival = Picoseconds::from_nanos(self.time.wrapping_add(elapsed as u64));
        let age = now.0.wrapping_sub(arrival.0) as i64;
        if age > OLDEST_STAMP {
            (now, Counter::StampTooOld)
        } else if age < -LARGEST_ERROR {
            (now, Counter::StampInFuture)
        } else if age < 0 {
            (now, Counter::StampHardware)
        } else {
            (arrival, Counter::StampHardware)
        }
    }
}

/// What user space knows of the card's clock, shared with the program. Zeroed memory is valid: nothing is known yet.
#[repr(C)]
#[derive(Debug)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct ClockPage {
    /// Number of relations published; the last one is in `relations[version % 2]`.
    version: AtomicU64,
    relations: [Words; 2],
}

/// A [`Relation`].
#[repr(C)]
#[derive(Debug)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
struct Words {
    stamp: AtomicU64,
    time: AtomicU64,
    drift: AtomicU64,
}

const _: () = assert!(size_of::<ClockPage>() == 56);

impl ClockPage {
    /// The relation in force; `None` before the first, and in the moment in which it is replaced twice.
    #[inline(always)]
    pub fn relation(&self) -> Option<Relation> {
        let version = self.version.load(Acquire);
        if version == 0 {
            return None;
        }
        let words = if version & 1 == 0 { &self.relations[0] } else { &self.relations[1] };
        let relation = Relation {
            stamp: words.stamp.load(Acquire),
            time: words.time.load(Acquire),
            drift: words.drift.load(Acquire) as i64,
        };
        if self.version.load(Relaxed) == version { Some(relation) } else { None }
    }

    /// Puts a relation into force. One thread does this.
    pub fn publish(&self, relation: Relation) {
        let version = self.version.load(Relaxed) + 1;
        let words = &self.relations[(version & 1) as usize];
        words.stamp.store(relation.stamp, Release);
        words.time.store(relation.time, Release);
        words.drift.store(relation.drift.clamp(-LARGEST_DRIFT, LARGEST_DRIFT) as u64, Release);
        self.version.store(version, Release);
    }
}
