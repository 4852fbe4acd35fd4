//! The connections of a card, and their locks.

use std::sync::{Arc, LazyLock};

use transport_common::connection::{Snapshot, Whole};
use transport_common::datapath::Locked;
use transport_common::queues::{CONNECTIONS, QueuePair};
use transport_common::transaction::Initiator;

/// A connection that was never opened.
static CLOSED: LazyLock<Box<Snapshot>> = LazyLock::new(bytemuck::zeroed_box);

/// The state of an entry's slot.
#[derive(Default)]
enum Place {
    /// The entry was never used. It is closed and takes no memory.
    #[default]
    Unused,
    Here(Box<Snapshot>),
    /// A run of the datapath holds its lock.
    Held,
}

/// Entries and queues of all connections, by slot.
pub(super) struct Connections {
    places: Box<[Place]>,
    /// The part of each entry that can be read without its lock. While the lock is held, it is the state when the
    /// lock was taken.
    unlocked_views: Box<[View]>,
    /// The slots whose locks were taken, a bit each.
    locked: Box<[u64]>,
    queue_pairs: Arc<Box<[QueuePair]>>,
}

#[derive(Clone, Copy, Default)]
struct View {
    next: u32,
    known: u32,
    fruitless: u32,
}

impl View {
    const fn of(entry: &Snapshot) -> Self {
        let c = &entry.connection;
        Self { next: c.initiator.next.0, known: c.initiator.known.0, fruitless: c.service.fruitless as u32 }
    }
}

/// A locked connection of the host. It owns the entry. The holder has to unlock it.
pub struct HostLocked {
    slot: usize,
    entry: Box<Snapshot>,
    queue_pairs: Arc<Box<[QueuePair]>>,
}

impl Locked for HostLocked {
    type Queues = QueuePair;

    fn parts(&mut self) -> (Whole<'_>, &QueuePair) {
        (self.entry.whole(), &self.queue_pairs[self.slot])
    }
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            places: (0..CONNECTIONS).map(|_| Place::Unused).collect(),
            unlocked_views: vec![View::default(); CONNECTIONS].into(),
            locked: vec![0; CONNECTIONS.div_ceil(64)].into(),
            queue_pairs: Arc::new(bytemuck::zeroed_slice_box(CONNECTIONS)),
        }
    }

    /// Returns the entry of `slot`.
    ///
    /// # Panics
    /// Panics if there is no such slot, or if its lock is held.
    pub(super) fn entry(&self, slot: usize) -> &Snapshot {
        match &self.places[slot] {
            Place::Unused => &CLOSED,
            Place::Here(entry) => entry,
            Place::Held => panic!("connection slot {slot} is read while its lock is held"),
        }
    }

    /// Returns the entry of `slot` for changes.
    pub(super) fn entry_mut(&mut self, slot: usize) -> &mut Snapshot {
        let place = &mut self.places[slot];
        if matches!(place, Place::Unused) {
            *place = Place::Here(bytemuck::zeroed_box());
        }
        match place {
            Place::Here(entry) => entry,
            _ => panic!("connection slot {slot} is changed while its lock is held"),
        }
    }

    /// Exchanges the entry of `slot` for another one.
    pub(super) fn exchange(&mut self, slot: usize, entry: &mut Box<Snapshot>) {
        let place = &mut self.places[slot];
        let own = match core::mem::take(place) {
            Place::Unused => bytemuck::zeroed_box(),
            Place::Here(own) => own,
            Place::Held => panic!("connection slot {slot} is changed while its lock is held"),
        };
        *place = Place::Here(core::mem::replace(entry, own));
    }

    pub(super) fn queue_pair(&self, slot: usize) -> &QueuePair {
        &self.queue_pairs[slot]
    }

    /// Returns whether the application of `slot` has to be woken, and disarms its queue.
    pub(super) fn takes_notice(&self, slot: usize) -> bool {
        self.queue_pairs.get(slot).is_some_and(|pair| pair.completion_queue().takes_notice())
    }

    /// Returns the queues of `slot` for restoring a state.
    ///
    /// # Panics
    /// Panics if there is no such slot, or if the lock of any connection is held.
    pub(super) fn queue_pair_mut(&mut self, slot: usize) -> &mut QueuePair {
        let all = Arc::get_mut(&mut self.queue_pairs).expect("no connection's lock is held");
        &mut all[slot]
    }

    /// Takes the lock of `slot`. Returns `None` if there is no such slot.
    ///
    /// # Panics
    /// Panics if the lock is held, because on one thread no one could ever release it.
    pub(super) fn lock(&mut self, slot: u32) -> Option<HostLocked> {
        let slot = slot as usize;
        let entry = match core::mem::replace(self.places.get_mut(slot)?, Place::Held) {
            Place::Unused => bytemuck::zeroed_box(),
            Place::Here(entry) => entry,
            Place::Held => panic!("the lock of connection slot {slot} is taken twice"),
        };
        self.unlocked_views[slot] = View::of(&entry);
        self.locked[slot / 64] |= 1 << (slot % 64);
        Some(HostLocked { slot, entry, queue_pairs: Arc::clone(&self.queue_pairs) })
    }

    /// Returns the slots whose locks were taken since the last call, in their order.
    pub(super) fn take_locked(&mut self) -> Vec<usize> {
        let mut slots = vec![];
        for (number, word) in self.locked.iter_mut().enumerate() {
            let mut bits = core::mem::take(word);
            while bits != 0 {
                slots.push(number * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        slots
    }

    /// Releases a lock.
    ///
    /// # Panics
    /// Panics if the lock belongs to another card.
    pub(super) fn unlock(&mut self, connection: HostLocked) {
        let HostLocked { slot, entry, queue_pairs } = connection;
        assert!(
            Arc::ptr_eq(&queue_pairs, &self.queue_pairs),
            "the lock of connection slot {slot} belongs to another card"
        );
        self.places[slot] = Place::Here(entry);
    }

    /// See [`Initiator::is_backlogged`]. For a connection whose lock is held, this uses the state before the lock.
    /// Returns false if there is no such slot.
    pub(super) fn is_backlogged(&self, slot: usize) -> bool {
        let Some(place) = self.places.get(slot) else { return false };
        let view = match place {
            Place::Unused => View::default(),
            Place::Here(entry) => View::of(entry),
            Place::Held => self.unlocked_views[slot],
        };
        let submitted =
            || self.queue_pairs[slot].work_queue().look(transport_common::ids::WorkPosition(view.next));
        Initiator::is_backlogged(view.next, view.known, view.fruitless, submitted)
    }
}
