//! Hierarchical timing wheel: one deadline for each of `N` connection slots, in fixed memory.
//!
//! After Varghese and Lauck, with Carousel's use of it for pacing: retransmission, ACK coalescing and
//! inter-packet gap deadlines of a connection meet in one entry, the earliest of them. A tick is 512 ns, the
//! unit of the inter-packet gap (D-79, F-10.6.2.1-7).
//!
//! There are 6 levels of 64 slots; a slot of level `l` spans 64^l ticks. A deadline is filed at the level of
//! the highest 6-bit digit in which it differs from the cursor. Hence every entry of a level is due before
//! any entry of the next, and the earliest slot is found by one look at each level's occupancy word. When
//! the cursor enters a slot of a higher level, that slot's entries are filed anew (cascaded), one step each.
//! A slot of level 0 spans one tick, so its entries are due exactly.
//!
//! All zero bytes are a valid, empty wheel, so that it may live in a map of the kernel. Every index is
//! masked with a constant; no operation can panic. Not for concurrent use: one owner turns the wheel.

/// Length of a tick in nanoseconds.
pub const NANOS_PER_TICK: u64 = 1 << TICK_SHIFT;

/// Steps that one [`TimingWheel::poll`] takes at most: each enters a slot if need be and moves one entry.
/// With 4 the kernel's verifier walks some 5,000 instructions for a poll, with 8 over 20,000.
pub const WORK_PER_POLL: u32 = 4;

/// Farthest distance in ticks at which a deadline is filed exactly: 63 slots of the top level, 9.6 hours.
/// Farther deadlines wait in the last slot and are filed anew from there.
pub const HORIZON: u64 = (SLOTS as u64 - 1) << shift_of(LEVELS - 1);

const TICK_SHIFT: u32 = 9;
const LEVELS: usize = 6;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

// Room for 8 levels, of which 6 are used: a power of two makes a mask prove the index.
const LEVEL_ROOM: usize = 8;
const LEVEL_MASK: usize = LEVEL_ROOM - 1;
const LOCATION_ROOM: usize = LEVEL_ROOM * SLOTS;
const LOCATION_MASK: usize = LOCATION_ROOM - 1;

/// The tick to give to [`TimingWheel::poll`] at a time in nanoseconds: rounded down.
#[inline(always)]
pub const fn now_tick(nanos: u64) -> u64 {
    nanos >> TICK_SHIFT
}

/// The tick to file a deadline in nanoseconds under: rounded up, so that it never fires early.
#[inline(always)]
pub const fn deadline_tick(nanos: u64) -> u64 {
    (nanos >> TICK_SHIFT) + (nanos & (NANOS_PER_TICK - 1) != 0) as u64
}

/// What one turn of the wheel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The deadline of this id has come; the id is no longer filed. More may be due.
    Expired(u32),
    /// Caught up: nothing is due at this tick.
    Idle,
    /// The allowance of [`WORK_PER_POLL`] is spent; poll again, something may be due.
    Busy,
}

/// One entry. The entries of a slot form a ring, oldest at the head, so equal deadlines fire in turn.
#[derive(Clone, Copy)]
#[repr(C)]
struct Link {
    /// Tick at which the entry fires.
    expiry: u64,
    next: u32,
    previous: u32,
    /// 1 + level * 64 + slot; 0 while not filed. The other fields count only while filed.
    place: u32,
    _padding: u32,
}

impl Link {
    const IDLE: Self = Self { expiry: 0, next: 0, previous: 0, place: 0, _padding: 0 };
}

/// An occupied slot: where it is and the first tick it covers.
#[derive(Clone, Copy)]
struct Slot {
    level: u32,
    index: u32,
    start: u64,
}

impl Slot {
    #[inline(always)]
    const fn location(self) -> usize {
        ((self.level << DIGIT_BITS) | self.index) as usize & LOCATION_MASK
    }
}

/// The wheel. `N` is a power of two of at most 2^31 (checked at compile time); ids are taken modulo `N`.
///
/// Ticks do not wrap: 64 bits of 512 ns. Time as told to [`Self::poll`] is monotonic; a smaller tick counts
/// as the largest one told so far.
#[derive(Clone)]
#[repr(C)]
pub struct TimingWheel<const N: usize> {
    /// Largest tick told to `poll`.
    clock: u64,
    /// Tick from which entries are filed: nothing filed is due before it. At most `clock`.
    cursor: u64,
    /// No occupied slot starts before this tick. May be too low, never too high.
    wake: u64,
    /// 1 + location of the slot being cascaded; 0 if none.
    cascading: u32,
    _padding: u32,
    /// Bit `i` of word `l`: slot `i` of level `l` has entries.
    occupancy: [u64; LEVEL_ROOM],
    /// Id of the oldest entry of each slot; counts only if the slot is occupied.
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

    /// An empty wheel at tick 0: all bytes zero.
    pub const fn new() -> Self {
        Self {
            clock: 0,
            cursor: 0,
            wake: 0,
            cascading: 0,
            _padding: 0,
            occupancy: [0; LEVEL_ROOM],
            heads: [0; LOCATION_ROOM],
            links: [Link::IDLE; N],
        }
    }

    /// Files `id` under `deadline_tick`, or moves it there if it is filed already.
    ///
    /// A deadline in the past counts as now: it fires at the next polls, after everything due before now.
    #[inline(always)]
    pub const fn schedule(&mut self, id: u32, deadline_tick: u64) {
        self.unlink(id);
        let expiry = if deadline_tick > self.clock { deadline_tick } else { self.clock };
        let start = self.link(id, expiry);
        if start < self.wake {
            self.wake = start;
        }
    }

    /// Takes `id` out; does nothing if it is not filed.
    #[inline(always)]
    pub const fn cancel(&mut self, id: u32) {
        self.unlink(id);
    }

    /// Advances to `now_tick` and takes out one entry whose deadline has come, in bounded work.
    ///
    /// No entry fires before its deadline, and entries fire in order of their deadlines. Poll until
    /// [`Polled::Idle`] to catch up. With nothing due the cost is a comparison and two stores.
    #[inline(always)]
    pub const fn poll(&mut self, now_tick: u64) -> Polled {
        if now_tick > self.clock {
            self.clock = now_tick;
        }
        if self.clock < self.wake {
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

    /// Largest tick told to [`Self::poll`] so far.
    #[inline(always)]
    pub const fn clock(&self) -> u64 {
        self.clock
    }

    /// A tick before which no poll is needed; `None` if nothing is filed.
    ///
    /// It is the start of the earliest occupied slot: the deadline itself once that is within 64 ticks, a
    /// lower bound before. A tick that has passed means that there is work now.
    #[inline(always)]
    pub const fn next_event(&self) -> Option<u64> {
        if self.cascading_location().is_some() {
            return Some(self.cursor);
        }
        match self.earliest() {
            Some(slot) => Some(slot.start),
            None => None,
        }
    }

    /// Tick at which `id` will fire: its deadline, or the time of filing if that was later.
    #[inline(always)]
    pub const fn deadline_of(&self, id: u32) -> Option<u64> {
        let link = &self.links[id as usize & Self::ID_MASK];
        if link.place == 0 { None } else { Some(link.expiry) }
    }

    /// True while `id` has a deadline in the wheel.
    #[inline(always)]
    pub const fn is_filed(&self, id: u32) -> bool {
        self.links[id as usize & Self::ID_MASK].place != 0
    }

    /// Takes the oldest entry of the earliest slot that is due: fires it, or files it at a lower level.
    #[inline(always)]
    const fn step(&mut self) -> Polled {
        let location = match self.cascading_location() {
            Some(location) => location,
            None => {
                self.cascading = 0;
                let slot = match self.earliest() {
                    Some(slot) if slot.start <= self.clock => slot,
                    later => {
                        self.cursor = self.clock;
                        self.wake = match later {
                            Some(slot) => slot.start,
                            None => u64::MAX,
                        };
                        return Polled::Idle;
                    }
                };
                self.cursor = slot.start;
                slot.location()
            }
        };
        let id = self.heads[location];
        // The place is read back, although it is `location` + 1: to the kernel's verifier it is then one
        // unknown number and not one known number a level, and what follows is verified once, not six times.
        let Link { expiry, place, .. } = self.links[id as usize & Self::ID_MASK];
        self.unlink(id);
        if place <= SLOTS as u32 {
            return Polled::Expired(id);
        }
        self.cascading = place;
        self.link(id, expiry);
        Polled::Busy
    }

    /// The slot being cascaded, while it has entries left.
    ///
    /// Nothing new can arrive in it: its digit is the cursor's, which files at a lower level, and at the top
    /// level [`HORIZON`] keeps deadlines of the next round one slot away.
    #[inline(always)]
    const fn cascading_location(&self) -> Option<usize> {
        let location = self.cascading.wrapping_sub(1) as usize & LOCATION_MASK;
        let occupied = self.occupancy[location >> DIGIT_BITS] >> (location as u64 & SLOT_MASK) & 1;
        if self.cascading != 0 && occupied != 0 { Some(location) } else { None }
    }

    /// The earliest occupied slot, unless one is being cascaded.
    #[inline(always)]
    const fn earliest(&self) -> Option<Slot> {
        let mut level = 0;
        while level < LEVELS {
            let occupancy = self.occupancy[level];
            if occupancy != 0 {
                let shift = shift_of(level);
                let digits = self.cursor >> shift;
                let index = (digits & SLOT_MASK) as u32;
                // Slots ahead of the cursor's own; only the top level has any beyond its last slot.
                let distance = occupancy.rotate_right(index).trailing_zeros();
                return Some(Slot {
                    level: level as u32,
                    index: (index + distance) & SLOT_MASK as u32,
                    start: digits.wrapping_add(distance as u64) << shift,
                });
            }
            level += 1;
        }
        None
    }

    /// Puts an idle `id` at the end of the slot for `expiry`, which is not before the cursor. Returns the
    /// first tick of that slot.
    #[inline(always)]
    const fn link(&mut self, id: u32, expiry: u64) -> u64 {
        let ahead = expiry.wrapping_sub(self.cursor);
        let tick = self.cursor.wrapping_add(if ahead < HORIZON { ahead } else { HORIZON });
        let level = level_of(self.cursor ^ tick);
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
        digits << shift
    }

    /// Takes `id` out of its slot; does nothing if it is in none.
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

/// Position of the digit of `level` in a tick.
#[inline(always)]
const fn shift_of(level: usize) -> u32 {
    level as u32 * DIGIT_BITS
}

/// Level for an expiry that differs from the cursor in the bits of `difference`: that of the highest one,
/// and the top level beyond. Comparisons, since BPF cannot count leading zeros.
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
