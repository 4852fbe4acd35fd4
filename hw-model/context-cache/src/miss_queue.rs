//! The miss queues: one per connection, all from one pool of slots.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use slab::Slab;
use transport_common::ids::Cid;

/// What a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A memory operation.
    Memory,
    /// An entry of the cache.
    Entry,
    /// The second pass of its head, which may have to wait again.
    Probe,
    /// Nothing. The context is cached, and the commands follow one another through the pipeline.
    Drain,
}

/// Work that can be queued.
pub(super) trait Queued: Clone {
    /// Returns true if no other work may follow into the pipeline before the second pass of this work is over.
    fn goes_alone(&self) -> bool;
}

#[derive(Clone, Debug)]
struct Slot<W> {
    work: W,
    next: Option<usize>,
}

/// The queue of a connection, a linked list.
#[derive(Clone, Debug)]
struct Queue {
    head: usize,
    tail: usize,
    /// The first slot that is not in its second pass.
    next: Option<usize>,
    in_flight: u32,
    /// True if the work in its second pass has to stay alone in the pipeline.
    alone: bool,
    phase: Phase,
    /// True if the connection is in `ready`.
    listed: bool,
    /// True if a free entry is reserved for the connection.
    reserved: bool,
}

/// All miss queues. Work in its second pass stays at the head of its queue until it is processed. So no other work
/// of the connection overtakes it.
#[derive(Clone, Debug)]
pub(super) struct MissQueues<W> {
    slots: Slab<Slot<W>>,
    capacity: usize,
    queues: FxHashMap<Cid, Queue>,
    /// Connections whose next work can enter the pipeline, in round-robin order.
    ready: VecDeque<Cid>,
    /// Connections that wait for an entry, in the order in which they started to wait.
    waiting: VecDeque<Cid>,
    reserved: u32,
}

impl<W: Queued> MissQueues<W> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: Slab::with_capacity(capacity),
            capacity,
            queues: FxHashMap::default(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            reserved: 0,
        }
    }

    pub(super) fn contains(&self, cid: Cid) -> bool {
        self.queues.contains_key(&cid)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn room(&self) -> usize {
        self.capacity - self.slots.len()
    }

    /// Returns the number of free entries that are reserved for connections that have waited for one.
    pub(super) const fn reserved_entries(&self) -> u32 {
        self.reserved
    }

    /// Returns true if a free entry is reserved for this connection.
    pub(super) fn keeps_entry(&self, cid: Cid) -> bool {
        self.reserved > 0 && self.queues.get(&cid).is_some_and(|queue| queue.reserved)
    }

    /// Returns the work that can enter the pipeline next, and its connection.
    pub(super) fn ready(&self) -> Option<(Cid, &W)> {
        let cid = *self.ready.front()?;
        let next = self.queues.get(&cid)?.next?;
        Some((cid, &self.slots[next].work))
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves on to the next ready connection, because the first one is stalled.
    pub(super) fn rotate(&mut self) {
        self.ready.rotate_left(1);
    }

    /// Marks the work that [`Self::ready`] returns as being in the pipeline.
    pub(super) fn issue(&mut self) {
        let Some(cid) = self.ready.pop_front() else { return };
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        queue.listed = false;
        let Some(next) = queue.next else { return };
        let slot = &self.slots[next];
        queue.alone = queue.phase == Phase::Probe || slot.work.goes_alone();
        queue.next = slot.next;
        queue.in_flight += 1;
        self.list(cid);
    }

    /// Adds the connection to the ready ones if its next work may enter the pipeline.
    fn list(&mut self, cid: Cid) {
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        let Some(next) = queue.next else { return };
        let may = match queue.phase {
            Phase::Memory | Phase::Entry => false,
            Phase::Probe => queue.in_flight == 0,
            Phase::Drain => queue.in_flight == 0 || (!queue.alone && !self.slots[next].work.goes_alone()),
        };
        if may && !queue.listed {
            queue.listed = true;
            self.ready.push_back(cid);
        }
    }

    /// Appends `work` to the connection's queue. A new queue starts in `phase`.
    pub(super) fn append(&mut self, cid: Cid, work: W, phase: Phase) {
        let slot = self.slots.insert(Slot { work, next: None });
        if let Some(queue) = self.queues.get_mut(&cid) {
            self.slots[queue.tail].next = Some(slot);
            queue.tail = slot;
            queue.next = queue.next.or(Some(slot));
        } else {
            let queue = Queue {
                head: slot,
                tail: slot,
                next: Some(slot),
                in_flight: 0,
                alone: false,
                phase,
                listed: false,
                reserved: false,
            };
            self.queues.insert(cid, queue);
            if phase == Phase::Entry {
                self.waiting.push_back(cid);
            }
        }
        self.list(cid);
    }

    /// Changes what the connection's queue waits for, if it has a queue. Work in the pipeline is not affected.
    pub(super) fn set_phase(&mut self, cid: Cid, phase: Phase) {
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        queue.phase = phase;
        self.list(cid);
    }

    /// Removes the head after a second pass in which it was processed. `valid` means that the context is in the
    /// cache.
    pub(super) fn leave(&mut self, cid: Cid, valid: bool) {
        self.release(cid);
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        let slot = self.slots.remove(queue.head);
        queue.in_flight -= 1;
        queue.alone &= queue.in_flight > 0;
        let Some(head) = slot.next else {
            self.queues.remove(&cid);
            return;
        };
        queue.head = head;
        queue.phase = if valid { Phase::Drain } else { Phase::Probe };
        self.list(cid);
    }

    /// Makes the head wait again after its second pass. This happens only if the head was alone in the pipeline.
    pub(super) fn wait(&mut self, cid: Cid, phase: Phase) {
        self.release(cid);
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        debug_assert_eq!(queue.in_flight, 1, "only work that is alone in the pipeline waits again");
        queue.in_flight = 0;
        queue.alone = false;
        queue.next = Some(queue.head);
        queue.phase = phase;
        if phase == Phase::Entry {
            self.waiting.push_back(cid);
        }
        self.list(cid);
    }

    fn release(&mut self, cid: Cid) {
        if let Some(queue) = self.queues.get_mut(&cid)
            && queue.reserved
        {
            queue.reserved = false;
            self.reserved -= 1;
        }
    }

    /// Handles the release of the connection's entry. If the connection has a queue, a free entry is reserved for
    /// it.
    pub(super) fn entry_freed(&mut self, cid: Cid) {
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        if !queue.reserved {
            queue.reserved = true;
            self.reserved += 1;
        }
        self.set_phase(cid, Phase::Probe);
    }

    /// Reserves free entries that have no reservation for the connections that have waited longest. `free` is the
    /// number of free entries.
    pub(super) fn entries_free(&mut self, free: u32) {
        while self.reserved < free {
            let Some(cid) = self.waiting.pop_front() else { return };
            self.entry_freed(cid);
        }
    }
}
