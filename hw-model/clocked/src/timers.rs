//! A bank of timers, one an id.

use std::collections::VecDeque;

use transport_common::timing_wheel::{Polled, TimingWheel};

use super::block::Cycle;

/// A timer that expires in fewer cycles than this is near.
const NEAR: usize = 2048;
/// Words of a bitmap with a bit for each of these cycles.
const WORDS: usize = NEAR / 64;
/// No id.
const NONE: u32 = u32::MAX;

/// The ids whose timers expire in one cycle, in the order in which they were set.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// An id's place among those of its slot.
#[derive(Clone, Copy)]
struct Link {
    /// `NONE`: it is the last.
    next: u32,
    /// `NONE`: the timer is not set.
    slot: u32,
}

impl Link {
    const IDLE: Self = Self { next: NONE, slot: NONE };
}

/// Near timers: a list for each of the next cycles. Unlike in a wheel of several levels, nothing is filed twice.
#[derive(Clone)]
struct Near<const N: usize> {
    /// By expiry, modulo their number. What is in a slot counts only if the slot is occupied.
    slots: Box<[Slot]>,
    /// Bit `i % 64` of word `i / 64`: slot `i` is occupied.
    occupied: [u64; WORDS],
    links: Box<[Link]>,
    /// Timers that are set.
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

    /// Takes a timer that is set out of its slot, in which few others are.
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

    /// Takes out the timers that expire in cycle `now`, the first that was set first.
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

    /// The first cycle behind `now` in which a timer expires.
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
        // The words behind it, around the ring and back to the first word's beginning.
        (1..=WORDS).find_map(|distance| {
            let bits = self.occupied[(word + distance) % WORDS];
            (bits != 0).then(|| now + 1 + (64 * distance - bit) as u64 + u64::from(bits.trailing_zeros()))
        })
    }
}

/// One timer for each of `N` ids, `N` a power of two. They come out one a cycle, in the order of their expiry; those
/// that expire in one cycle come in the order in which they were set, if not further ahead than
/// [`HORIZON`](transport_common::timing_wheel::HORIZON).
#[derive(Clone)]
pub struct Timers<const N: usize> {
    near: Near<N>,
    /// The others. Its tick is a cycle here.
    far: Box<TimingWheel<N>>,
    due: VecDeque<u32>,
}

impl<const N: usize> Default for Timers<N> {
    fn default() -> Self {
        Self { near: Near::new(), far: Box::default(), due: VecDeque::new() }
    }
}

impl<const N: usize> Timers<N> {
    /// The id whose timer has expired and waits longest, in this cycle.
    #[inline]
    pub fn expired(&self) -> Option<u32> {
        self.due.front().copied()
    }

    /// The first cycle from `now` on that has to be computed: the one before a timer may expire. Too early it may
    /// be, too late never.
    #[inline]
    pub fn next_event(&self, now: Cycle) -> Option<Cycle> {
        if !self.due.is_empty() {
            return Some(now);
        }
        let far = self.far.next_event().map(Cycle);
        let expiry = far.into_iter().chain(self.near.next_expiry(now)).min()?;
        Some(now.max(Cycle(expiry.0.saturating_sub(1))))
    }

    /// The clock edge that ends cycle `now`: `taken` is the id shown by [`Self::expired`] and dealt with in this
    /// cycle, `set` are the timers that are set and when they expire: in the next cycle at the earliest. None of the
    /// cycles that [`Self::next_event`] asks for may be passed over.
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
                self.far.schedule(id, expiry.0);
            }
        });
        // A timer was set earlier than another with the same expiry if it was far then and the other near.
        loop {
            match self.far.poll(next.0) {
                Polled::Expired(id) => self.due.push_back(id),
                Polled::Busy => {}
                Polled::Idle => break,
            }
        }
        self.near.expire(next, |id| self.due.push_back(id));
    }
}
