//! Hierarchical timing wheel: one deadline per connection slot, for `N` slots, in fixed memory.
//!
//! The design follows Varghese and Lauck, and Carousel's use of it for pacing. Retransmission, ACK coalescing and
//! inter-packet gap deadlines of a connection share one entry, which holds the earliest of them. A tick is 2^19 ps
//! (524.288 ns, four ticks of Falcon's time): about the unit of the inter-packet gap (D-79, F-10.6.2.1-7), and a power
//! of two of the clock's unit, so that ticks wrap where the clock wraps.
//!
//! There are 6 levels of 64 slots. A slot of level `l` spans 64^l ticks. A deadline is filed at the level of the
//! highest 6-bit digit in which it differs from the cursor. So every entry of a level is due before any entry of
//! the next level, and one read of each level's occupancy word finds the earliest slot. When the cursor enters a
//! slot of a higher level, the entries of that slot are filed again (cascaded), one per step. A slot of level 0
//! spans one tick, so its entries are due exactly.
//!
//! All zero bytes are a valid, empty wheel, so the wheel can be in a map of the kernel. Every index is masked with
//! a constant. No operation can panic. Not for concurrent use: the wheel has one owner.

use crate::units::{PicosecondSpan, Picoseconds, Ticks};

/// Length of a tick.
pub const TICK: PicosecondSpan = PicosecondSpan(1 << TICK_SHIFT);
/// Ticks are counted modulo 2 to this power, which is when the clock of 64 bits of picoseconds wraps: 213.5 days.
pub const TICK_BITS: u32 = u64::BITS - TICK_SHIFT;

/// Largest number of steps of one [`TimingWheel::poll`]. Each step enters a slot if needed and moves one entry.
/// With 4 steps the kernel's verifier walks some 5,000 instructions for a poll, with 8 steps over 20,000.
pub const WORK_PER_POLL: u32 = 4;

/// Largest distance in ticks at which a deadline is filed exactly: 63 slots of the top level, 9.6 hours. Later
/// deadlines wait in the last slot, and are filed again from there. A deadline counts as past if it is more than half
/// of the number circle ahead, 106 days.
pub const HORIZON: u64 = (SLOTS as u64 - 1) << shift_of(LEVELS - 1);

const TICK_SHIFT: u32 = 19;
const TICK_MASK: u64 = (1 << TICK_BITS) - 1;
const LEVELS: usize = 6;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

// Space for 8 levels, of which 6 are used. With a power of two, a mask proves that an index is in bounds.
const LEVEL_ROOM: usize = 8;
const LEVEL_MASK: usize = LEVEL_ROOM - 1;
const LOCATION_ROOM: usize = LEVEL_ROOM * SLOTS;
const LOCATION_MASK: usize = LOCATION_ROOM - 1;

/// An instant on the wheel, in ticks modulo 2 to the power of [`TICK_BITS`]. It wraps with the clock, so it has no order
/// but [`Self::is_after`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct WheelTick(pub u64);

impl WheelTick {
    /// Returns the tick to pass to [`TimingWheel::poll`] at `now`: rounded down.
    #[inline(always)]
    pub const fn at(now: Picoseconds) -> Self {
        Self(now.0 >> TICK_SHIFT)
    }

    /// Returns the tick under which to file a deadline that is `delay` after `now`: rounded up, so that it never fires
    /// early.
    #[inline(always)]
    pub const fn deadline(now: Picoseconds, delay: Ticks) -> Self {
        let due = now.after(delay.as_picos());
        Self::at(due).after((due.0 & (TICK.0 - 1) != 0) as u64)
    }

    /// Returns the start of the tick.
    #[inline(always)]
    pub const fn start(self) -> Picoseconds {
        Picoseconds(self.0 << TICK_SHIFT)
    }

    /// Returns the tick `ticks` later.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, ticks: u64) -> Self {
        Self(self.0.wrapping_add(ticks) & TICK_MASK)
    }

    /// Returns the number of ticks from `earlier` to `self`.
    #[inline(always)]
    const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & TICK_MASK
    }

    /// Returns whether `self` is later than `other`: in the half of the number circle after it.
    #[inline(always)]
    pub const fn is_after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) << TICK_SHIFT) as i64 > 0
    }
}

/// Result of one poll of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The deadline of this id has passed. The id is no longer filed. More deadlines may be due.
    Expired(u32),
    /// Nothing more is due at this tick.
    Idle,
    /// The limit of [`WORK_PER_POLL`] steps is reached. Poll again: something may be due.
    Busy,
}

/// One entry. The entries of a slot form a ring with the oldest at the head, so equal deadlines fire in the order
/// of filing.
#[derive(Clone, Copy)]
#[repr(C)]
struct Link {
    /// Tick at which the entry fires.
    expiry: WheelTick,
    next: u32,
    previous: u32,
    /// 1 + level * 64 + slot; 0 while not filed. The other fields are valid only while filed.
    place: u32,
    _padding: u32,
}

impl Link {
    const IDLE: Self = Self { expiry: WheelTick(0), next: 0, previous: 0, place: 0, _padding: 0 };
}

/// An occupied slot: its position and the first tick that it covers.
#[derive(Clone, Copy)]
struct Slot {
    level: u32,
    index: u32,
    start: WheelTick,
}

impl Slot {
    #[inline(always)]
    const fn location(self) -> usize {
        ((self.level << DIGIT_BITS) | self.index) as usize & LOCATION_MASK
    }
}

/// The wheel. `N` is a power of two of at most 2^31 (checked at compile time). Ids are taken modulo `N`.
///
/// The time that is passed to [`Self::poll`] is monotonic, and wraps. An earlier tick counts as the latest one passed so
/// far.
///
/// ```
/// use transport_common::timing_wheel::{Polled, TimingWheel, WheelTick};
///
/// let mut wheel = TimingWheel::<4>::new();
/// wheel.start(WheelTick(100));
/// wheel.schedule(2, WheelTick(107));
/// wheel.schedule(1, WheelTick(90)); // in the past, so it is due now
/// assert_eq!(wheel.poll(WheelTick(106)), Polled::Expired(1));
/// assert_eq!(wheel.poll(WheelTick(106)), Polled::Idle, "nothing fires early");
/// wheel.schedule(2, WheelTick(120)); // an id has one deadline: this one replaces the other
/// assert_eq!(wheel.next_event(), Some(WheelTick(120)));
/// assert_eq!(wheel.poll(WheelTick(119)), Polled::Idle);
/// assert_eq!(wheel.poll(WheelTick(120)), Polled::Expired(2));
/// assert!(!wheel.is_filed(2));
/// ```
#[derive(Clone)]
#[repr(C)]
pub struct TimingWheel<const N: usize> {
    /// Latest tick that was passed to `poll`.
    clock: WheelTick,
    /// Tick from which entries are filed: no filed entry is due before it. At most `clock`.
    cursor: WheelTick,
    /// No occupied slot starts before this tick. It may be too low, but never too high.
    wake: WheelTick,
    /// 1 + location of the slot being cascaded; 0 if none.
    cascading: u32,
    /// 1: the wheel knows the time. Zero bytes do not, and any time may come first.
    started: u32,
    /// Bit `i` of word `l`: slot `i` of level `l` has entries.
    occupancy: [u64; LEVEL_ROOM],
    /// Id of the oldest entry of each slot; valid only if the slot is occupied.
    heads: [u32; LOCATION_ROOM],
    links: [Link; N],
}

impl<const N: usize> Default for TimingWheel<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> TimingWheel<N> {
    const ID_MASK: usize = {
        assert!(N.is_power_of_two() && N <= 1 << 31, "N must be a power of two of at most 2^31");
        N - 1
    };

    /// Creates an empty wheel that has yet to learn the time: all bytes zero.
    pub const fn new() -> Self {
        Self {
            clock: WheelTick(0),
            cursor: WheelTick(0),
            wake: WheelTick(0),
            cascading: 0,
            started: 0,
            occupancy: [0; LEVEL_ROOM],
            heads: [0; LOCATION_ROOM],
            links: [Link::IDLE; N],
        }
    }

    /// Tells a new wheel the time, before the first deadline is filed. Does nothing if it knows it.
    #[inline(always)]
    pub const fn start(&mut self, now: WheelTick) {
        if self.started == 0 {
            self.started = 1;
            self.clock = now;
            self.cursor = now;
            self.wake = now;
        }
    }

    /// Files `id` under `deadline`, or moves it there if it is already filed. A wheel that was neither
    /// [started](Self::start) nor polled takes the time to be 0.
    ///
    /// A deadline in the past counts as now: it fires at one of the next polls, after everything that was due
    /// before now.
    #[inline(always)]
    pub const fn schedule(&mut self, id: u32, deadline: WheelTick) {
        self.started = 1;
        self.unlink(id);
        let expiry = if deadline.is_after(self.clock) { deadline } else { self.clock };
        let start = self.link(id, expiry);
        if self.wake.is_after(start) {
            self.wake = start;
        }
    }

    /// Removes `id`. Does nothing if it is not filed.
    #[inline(always)]
    pub const fn cancel(&mut self, id: u32) {
        self.unlink(id);
    }

    /// Advances to `now` and removes one entry whose deadline has passed, in bounded work.
    ///
    /// No entry fires before its deadline, and entries fire in the order of their deadlines. Poll until
    /// [`Polled::Idle`] to process all due entries. If nothing is due, the cost is a comparison and two stores.
    #[inline(always)]
    pub const fn poll(&mut self, now: WheelTick) -> Polled {
        self.start(now);
        if now.is_after(self.clock) {
            self.clock = now;
        }
        if self.wake.is_after(self.clock) {
            self.cursor = self.clock;
            return Polled::Idle;
        }
        let mut step = 0;
        while step < WORK_PER_POLL {
            match self.step() {
                Polled::Busy => step += 1,
                done => return done,
            }
        }
        Polled::Busy
    }

    /// Returns the latest tick that was passed to [`Self::poll`] so far.
    #[inline(always)]
    pub const fn clock(&self) -> WheelTick {
        self.clock
    }

    /// Returns a tick before which no poll is needed. Returns `None` if nothing is filed.
    ///
    /// It is the exact deadline if that is within 64 ticks, or if the earliest occupied slot has one entry and is below the
    /// top level. Otherwise it is the start of that slot, a lower bound. A tick in the past means that there is work now.
    #[inline(always)]
    pub const fn next_event(&self) -> Option<WheelTick> {
        if self.cascading_location().is_some() {
            return Some(self.cursor);
        }
        let Some(slot) = self.earliest() else { return None };
        let id = self.heads[slot.location()];
        let Link { expiry, next, .. } = self.links[id as usize & Self::ID_MASK];
        // What is filed in the last slot of the top level may be due much later.
        let exact = next == id && slot.level + 1 < LEVELS as u32;
        Some(if exact { expiry } else { slot.start })
    }

    /// Returns the tick at which `id` fires: its deadline, or the time of filing if that was later.
    #[inline(always)]
    pub const fn deadline_of(&self, id: u32) -> Option<WheelTick> {
        let link = &self.links[id as usize & Self::ID_MASK];
        if link.place == 0 { None } else { Some(link.expiry) }
    }

    /// Returns true while `id` has a deadline in the wheel.
    #[inline(always)]
    pub const fn is_filed(&self, id: u32) -> bool {
        self.links[id as usize & Self::ID_MASK].place != 0
    }

    /// Removes the oldest entry of the earliest slot that is due. Fires it, or files it at a lower level.
    #[inline(always)]
    const fn step(&mut self) -> Polled {
        let location = match self.cascading_location() {
            Some(location) => location,
            None => {
                self.cascading = 0;
                let slot = match self.earliest() {
                    Some(slot) if !slot.start.is_after(self.clock) => slot,
                    later => {
                        self.cursor = self.clock;
                        self.wake = match later {
                            Some(slot) => slot.start,
                            None => self.clock.after(HORIZON), // looks again then, as the number circle goes on
                        };
                        return Polled::Idle;
                    }
                };
                self.cursor = slot.start;
                slot.location()
            }
        };
        let id = self.heads[location];
        // `place` is read back, although it is `location` + 1. For the kernel's verifier it is then one unknown
        // number instead of one known number per level, and the code below is verified once instead of six times.
        let Link { expiry, place, .. } = self.links[id as usize & Self::ID_MASK];
        self.unlink(id);
        if place <= SLOTS as u32 {
            return Polled::Expired(id);
        }
        self.cascading = place;
        self.link(id, expiry);
        Polled::Busy
    }

    /// Returns the slot that is being cascaded, while it has entries left.
    ///
    /// No new entry can be filed in it. Its digit is the cursor's digit, which files at a lower level. At the top
    /// level, [`HORIZON`] keeps deadlines of the next round one slot away.
    #[inline(always)]
    const fn cascading_location(&self) -> Option<usize> {
        let location = self.cascading.wrapping_sub(1) as usize & LOCATION_MASK;
        let occupied = self.occupancy[location >> DIGIT_BITS] >> (location as u64 & SLOT_MASK) & 1;
        if self.cascading != 0 && occupied != 0 { Some(location) } else { None }
    }

    /// Returns the earliest occupied slot. Not valid while a slot is being cascaded.
    #[inline(always)]
    const fn earliest(&self) -> Option<Slot> {
        let mut level = 0;
        while level < LEVELS {
            let occupancy = self.occupancy[level];
            if occupancy != 0 {
                let shift = shift_of(level);
                let digits = self.cursor.0 >> shift;
                let index = (digits & SLOT_MASK) as u32;
                // Number of slots after the cursor's own. Only the top level has any beyond its last slot.
                let distance = occupancy.rotate_right(index).trailing_zeros();
                return Some(Slot {
                    level: level as u32,
                    index: (index + distance) & SLOT_MASK as u32,
                    start: WheelTick((digits.wrapping_add(distance as u64) << shift) & TICK_MASK),
                });
            }
            level += 1;
        }
        None
    }

    /// Adds an idle `id` at the end of the slot for `expiry`, which is not before the cursor. Returns the first
    /// tick of that slot.
    #[inline(always)]
    const fn link(&mut self, id: u32, expiry: WheelTick) -> WheelTick {
        let ahead = expiry.since(self.cursor);
        let tick = self.cursor.after(if ahead < HORIZON { ahead } else { HORIZON }).0;
        let level = level_of(self.cursor.0 ^ tick);
        let shift = shift_of(level);
        let digits = tick >> shift;
        let location = (level << DIGIT_BITS | (digits & SLOT_MASK) as usize) & LOCATION_MASK;

        let index = id as usize & Self::ID_MASK;
        let id = index as u32;
        let bit = 1 << (digits & SLOT_MASK);
        let (next, previous) = if self.occupancy[level & LEVEL_MASK] & bit == 0 {
            self.occupancy[level & LEVEL_MASK] |= bit;
            self.heads[location] = id;
            (id, id)
        } else {
            let head = self.heads[location];
            let tail = self.links[head as usize & Self::ID_MASK].previous;
            self.links[head as usize & Self::ID_MASK].previous = id;
            self.links[tail as usize & Self::ID_MASK].next = id;
            (head, tail)
        };
        let link = &mut self.links[index];
        link.expiry = expiry;
        link.next = next;
        link.previous = previous;
        link.place = location as u32 + 1;
        WheelTick(digits << shift)
    }

    /// Removes `id` from its slot. Does nothing if it is in none.
    #[inline(always)]
    const fn unlink(&mut self, id: u32) {
        let index = id as usize & Self::ID_MASK;
        let id = index as u32;
        let link = &mut self.links[index];
        if link.place == 0 {
            return;
        }
        let location = (link.place - 1) as usize & LOCATION_MASK;
        let (next, previous) = (link.next, link.previous);
        link.place = 0;
        if next == id {
            self.occupancy[location >> DIGIT_BITS] &= !(1 << (location as u64 & SLOT_MASK));
            return;
        }
        self.links[next as usize & Self::ID_MASK].previous = previous;
        self.links[previous as usize & Self::ID_MASK].next = next;
        if self.heads[location] == id {
            self.heads[location] = next;
        }
    }
}

/// Returns the position of the digit of `level` in a tick.
#[inline(always)]
const fn shift_of(level: usize) -> u32 {
    level as u32 * DIGIT_BITS
}

/// Returns the level for an expiry that differs from the cursor in the bits of `difference`: the level of the
/// highest such bit, at most the top level. Uses comparisons, because BPF cannot count leading zeros.
#[inline(always)]
const fn level_of(difference: u64) -> usize {
    let mut level = 0;
    while level < LEVELS - 1 {
        if difference >> shift_of(level + 1) == 0 {
            return level;
        }
        level += 1;
    }
    LEVELS - 1
}
