//! Receive timestamps of the card: the relation of its clock to the node's, and which stamps are valid.
//!
//! A card stamps frames with its own clock. T1 to T4 are compared with each other (F-10.1-3), so all of them have
//! to come from one clock, the node's monotonic clock. User space measures the relation of the two clocks and
//! keeps it current. The receive program converts the stamps.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::counters::Counter;
use crate::shared::AtomicU64;
use crate::units::{PicosecondSpan, Picoseconds};

/// Placeholder in the program for the kernel function `bpf_xdp_metadata_rx_timestamp`, whose number differs from
/// kernel to kernel. It is a helper number that no kernel has. The loader replaces it.
pub const RX_TIMESTAMP_CALL: i32 = 0x7fff_5453;

/// Largest error of a measured relation, 5 us. Also the largest time that a stamp may seem to be in the
/// future.
pub const LARGEST_ERROR: PicosecondSpan = PicosecondSpan::from_nanos(5_000);
/// Longest time that a relation is valid, 1 s. With an unknown drift of 10 parts in a million, its error
/// grows in this time to twice [`LARGEST_ERROR`].
pub const LONGEST_USE: PicosecondSpan = PicosecondSpan::from_nanos(1_000_000_000);
/// Longest time that a frame waits before it is processed, 100 ms. An older stamp belongs to another frame or
/// is wrong.
pub const OLDEST_STAMP: PicosecondSpan = PicosecondSpan::from_nanos(100_000_000);
/// [`Relation::drift`] of a card's clock that is slower than ours by 1 in 1000. No working clock differs more.
pub const LARGEST_DRIFT: i64 = (1 << 32) / 1000;

/// An instant by the card's own clock, in nanoseconds. It cannot be compared with a time of ours; a [`Relation`]
/// converts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct CardTime(pub u64);

/// One instant by both clocks, and their drift from there on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// Time of the card's clock.
    pub stamp: CardTime,
    /// Time of the monotonic clock at the same instant.
    pub time: Picoseconds,
    /// Nanoseconds that the monotonic clock gains per nanosecond of the card's clock, in units of 2^-32.
    pub drift: i64,
}

impl Relation {
    /// Returns the time when a frame with this stamp arrived from the wire, and the counter for it. The time is
    /// the card's stamp if it is valid, otherwise `now`. A stamp of 0 means that there is none.
    #[inline(always)]
    pub fn arrival(&self, stamp: CardTime, now: Picoseconds) -> (Picoseconds, Counter) {
        /// Nanoseconds.
        const LONGEST_ELAPSED: i64 = LONGEST_USE.plus(OLDEST_STAMP).plus(LARGEST_ERROR).as_nanos() as i64;
        if stamp.0 == 0 {
            return (now, Counter::StampAbsent);
        }
        if now.since(self.time).0 > LONGEST_USE.0 {
            return (now, Counter::StampClockUnknown);
        }
        // Nothing below overflows within these bounds.
        let elapsed = stamp.0.wrapping_sub(self.stamp.0) as i64;
        if elapsed > LONGEST_ELAPSED {
            return (now, Counter::StampInFuture);
        }
        if elapsed < -LONGEST_ELAPSED {
            return (now, Counter::StampTooOld);
        }
        let elapsed = elapsed + ((elapsed * self.drift) >> 32);
        let arrival = self.time.after(PicosecondSpan::from_nanos(elapsed as u64));
        let age = now.since(arrival).signed();
        if age > OLDEST_STAMP.signed() {
            (now, Counter::StampTooOld)
        } else if age < -LARGEST_ERROR.signed() {
            (now, Counter::StampInFuture)
        } else if age < 0 {
            (now, Counter::StampHardware)
        } else {
            (arrival, Counter::StampHardware)
        }
    }
}

/// What user space knows about the card's clock, shared with the program. Zeroed memory is valid: no relation is
/// known yet.
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
    /// Returns the relation in force. Returns `None` before the first one, and if it is replaced twice during the
    /// call.
    #[inline(always)]
    pub fn relation(&self) -> Option<Relation> {
        let version = self.version.load(Acquire);
        if version == 0 {
            return None;
        }
        let words = if version & 1 == 0 { &self.relations[0] } else { &self.relations[1] };
        let relation = Relation {
            stamp: CardTime(words.stamp.load(Acquire)),
            time: Picoseconds(words.time.load(Acquire)),
            drift: words.drift.load(Acquire) as i64,
        };
        if self.version.load(Relaxed) == version { Some(relation) } else { None }
    }

    /// Puts a relation into force. Only one thread may do this.
    pub fn publish(&self, relation: Relation) {
        let version = self.version.load(Relaxed) + 1;
        let words = &self.relations[(version & 1) as usize];
        words.stamp.store(relation.stamp.0, Release);
        words.time.store(relation.time.0, Release);
        words.drift.store(relation.drift.clamp(-LARGEST_DRIFT, LARGEST_DRIFT) as u64, Release);
        self.version.store(version, Release);
    }
}
