//! A bank of timers, one per id.

use std::collections::VecDeque;

use transport_common::timing_wheel::{Polled, TimingWheel, WheelTick};

use super::block::Cycle;

/// A timer that expires in fewer cycles than this is a near timer.
const NEAR: usize = 2048;
/// The number of words in a bitmap with one bit per near cycle.
const WORDS: usize = NEAR / 64;
/// The value for "no id".
const NONE: u32 = u32::MAX;

/// A list of the ids whose timers expire in the same cycle, in the order in which they were set.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// The place of an id in the list of its slot.
#[derive(Clone, Copy)]
struct Link {
    /// The next id in the list. `NONE` if this is the last one.
    next: u32,
    /// The slot that holds the id. `NONE` if the timer is not set.
    slot: u32,
}

impl Link {
    const IDLE: Self = Self { next: NONE, slot: NONE };
}

/// The near timers: one list for each of the next `NEAR` cycles. Unlike in a wheel with several levels, a timer is
/// never moved from one list to another.
#[derive(Clone)]
struct Near<const N: usize> {
    /// Indexed by the expiry modulo the number of slots. The content of a slot is valid only if its bit in
    /// `occupied` is set.
    slots: Box<[Slot]>,
    /// Bit `i % 64` of word `i / 64` is set if slot `i` is occupied.
    occupied: [u64; WORDS],
    links: Box<[Link]>,
    /// The number of timers that are set.
    count: usize,
}

impl<const N: usize> Near<N> {
    fn new() -> Self {
        let slot = Slot { first: NONE, last: NONE };
        Self {
            slots: vec![slot; NEAR].into(),
            occupied: [0; WORDS],
            links: vec![Link::IDLE; N].into(),
            count: 0,
        }
    }

    #[inline(always)]
    const fn is_occupied(&self, slot: u32) -> bool {
        self.occupied[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    const fn slot_of(expiry: Cycle) -> u32 {
        (expiry.0 % NEAR as u64) as u32
    }

    #[inline(always)]
    fn set(&mut self, id: u32, expiry: Cycle) {
        let index = Self::slot_of(expiry);
        let occupied = self.is_occupied(index);
        let slot = &mut self.slots[index as usize];
        if occupied {
            self.links[slot.last as usize].next = id;
        } else {
            self.occupied[index as usize / 64] |= 1 << (index % 64);
            slot.first = id;
        }
        slot.last = id;
        self.count += 1;
        self.links[id as usize] = Link { next: NONE, slot: index };
    }

    #[inline(always)]
    fn cancel(&mut self, id: u32) {
        if self.links[id as usize].slot != NONE {
            self.unlink(id);
        }
    }

    /// Removes a timer that is set from its slot. Walks the slot's list, which is short.
    #[cold]
    fn unlink(&mut self, id: u32) {
        let Link { next, slot: index } = core::mem::replace(&mut self.links[id as usize], Link::IDLE);
        self.count -= 1;
        let slot = &mut self.slots[index as usize];
        if slot.first == id {
            slot.first = next;
            if next == NONE {
                self.occupied[index as usize / 64] &= !(1 << (index % 64));
            }
            return;
        }
        let mut before = slot.first;
        while self.links[before as usize].next != id {
            before = self.links[before as usize].next;
        }
        self.links[before as usize].next = next;
        if slot.last == id {
            slot.last = before;
        }
    }

    /// Removes the timers that expire in cycle `now`, in the order in which they were set.
    #[inline(always)]
    fn expire(&mut self, now: Cycle, mut expired: impl FnMut(u32)) {
        let index = Self::slot_of(now);
        if !self.is_occupied(index) {
            return;
        }
        self.occupied[index as usize / 64] &= !(1 << (index % 64));
        let mut id = self.slots[index as usize].first;
        while id != NONE {
            expired(id);
            self.count -= 1;
            id = core::mem::replace(&mut self.links[id as usize], Link::IDLE).next;
        }
    }

    /// Returns the first cycle after `now` in which a timer expires.
    fn next_expiry(&self, now: Cycle) -> Option<Cycle> {
        if self.count == 0 {
            return None;
        }
        let next = Self::slot_of(now + 1) as usize;
        let (word, bit) = (next / 64, next % 64);
        let rest = self.occupied[word] >> bit;
        if rest != 0 {
            return Some(now + 1 + u64::from(rest.trailing_zeros()));
        }
        // Search the following words, around the ring and back to the beginning of the first word.
        (1..=WORDS).find_map(|distance| {
            let bits = self.occupied[(word + distance) % WORDS];
            (bits != 0).then(|| now + 1 + (64 * distance - bit) as u64 + u64::from(bits.trailing_zeros()))
        })
    }
}

/// A bank with one timer for each of `N` ids. `N` is a power of two. Expired timers come out one per cycle, in the
/// order of their expiry. Timers that expire in the same cycle come out in the order in which they were set,
/// unless they were set further ahead than [`HORIZON`](transport_common::timing_wheel::HORIZON).
#[derive(Clone)]
pub struct Timers<const N: usize> {
    near: Near<N>,
    /// The timers that are not near. A tick of the wheel is one cycle here.
    far: Box<TimingWheel<N>>,
    due: VecDeque<u32>,
}

impl<const N: usize> Default for Timers<N> {
    fn default() -> Self {
        Self { near: Near::new(), far: Box::default(), due: VecDeque::new() }
    }
}

impl<const N: usize> Timers<N> {
    /// Returns the id whose expired timer has waited longest, as shown in this cycle.
    #[inline]
    pub fn expired(&self) -> Option<u32> {
        self.due.front().copied()
    }

    /// Returns the first cycle from `now` on that must be computed: the cycle before a timer may expire. The
    /// result may be too early, but never too late.
    #[inline]
    pub fn next_event(&self, now: Cycle) -> Option<Cycle> {
        if !self.due.is_empty() {
            return Some(now);
        }
        let far = self.far.next_event().map(|tick| Cycle(tick.0));
        let expiry = far.into_iter().chain(self.near.next_expiry(now)).min()?;
        Some(now.max(Cycle(expiry.0.saturating_sub(1))))
    }

    /// Performs the clock edge that ends cycle `now`. `taken` is true if the id that [`Self::expired`] shows was
    /// handled in this cycle. `set` lists the timers to set and their expiry, which is the next cycle at the
    /// earliest. The caller must not skip a cycle that [`Self::next_event`] returns.
    #[inline]
    pub fn commit(&mut self, now: Cycle, taken: bool, set: impl IntoIterator<Item = (u32, Cycle)>) {
        if taken {
            self.due.pop_front();
        }
        let next = now + 1;
        set.into_iter().for_each(|(id, expiry)| {
            self.near.cancel(id);
            if expiry - next < NEAR as u64 {
                self.far.cancel(id);
                self.near.set(id, expiry.max(next));
            } else {
                self.far.schedule(id, WheelTick(expiry.0));
            }
        });
        // If a far and a near timer have the same expiry, the far timer was set first. So the far ones come first.
        loop {
            match self.far.poll(WheelTick(next.0)) {
                Polled::Expired(id) => self.due.push_back(id),
                Polled::Busy => {}
                Polled::Idle => break,
            }
        }
        self.near.expire(next, |id| self.due.push_back(id));
    }
}
