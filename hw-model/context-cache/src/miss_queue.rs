//! The miss queues: one for each connection, out of one pool of slots.

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
    /// Its head's second pass, which may have to wait again.
    Probe,
    /// Nothing: the context is there. Commands follow one another through the pipeline.
    Drain,
}

/// What is queued: it knows whether others may follow it into the pipeline before its own second pass is over.
pub(super) trait Queued: Clone {
    fn goes_alone(&self) -> bool;
}

#[derive(Clone, Debug)]
struct Slot<W> {
    work: W,
    next: Option<usize>,
}

/// The queue of a connection, as a linked list.
#[derive(Clone, Debug)]
struct Queue {
    head: usize,
    tail: usize,
    /// The first one that is not in its second pass.
    next: Option<usize>,
    in_flight: u32,
    /// What is in its second pass goes alone.
    alone: bool,
    phase: Phase,
    /// It stands in `ready`.
    listed: bool,
    /// A free entry is kept for it.
    reserved: bool,
}

/// All miss queues. What is in its second pass stays at the head of its queue until it is processed, so that
/// nothing of the connection overtakes it meanwhile.
#[derive(Clone, Debug)]
pub(super) struct MissQueues<W> {
    slots: Slab<Slot<W>>,
    capacity: usize,
    queues: FxHashMap<Cid, Queue>,
    /// Queues whose head can enter the pipeline, in turn.
    ready: VecDeque<Cid>,
    /// Connections that wait for an entry, in the order of their coming.
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

    /// Free entries that are kept for connections that have waited for one.
    pub(super) const fn reserved_entries(&self) -> u32 {
        self.reserved
    }

    /// A free entry is kept for this connection.
    pub(super) fn keeps_entry(&self, cid: Cid) -> bool {
        self.reserved > 0 && self.queues.get(&cid).is_some_and(|queue| queue.reserved)
    }

    /// What can enter the pipeline, by connection.
    pub(super) fn ready(&self) -> Option<(Cid, &W)> {
        let cid = *self.ready.front()?;
        let next = self.queues.get(&cid)?.next?;
        Some((cid, &self.slots[next].work))
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lets the next connection try: this one is stalled.
    pub(super) fn rotate(&mut self) {
        self.ready.rotate_left(1);
    }

    /// What [`Self::ready`] shows enters the pipeline.
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

    /// Puts the connection among the ready ones if its next one may enter the pipeline.
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

    /// Puts `work` at the end of the connection's queue. `phase` is that of a queue that was empty.
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

    /// The connection's queue, if it has one, now waits for something else. What is in the pipeline is not touched.
    pub(super) fn set_phase(&mut self, cid: Cid, phase: Phase) {
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        queue.phase = phase;
        self.list(cid);
    }

    /// The head's second pass is over and it is done: it leaves. `valid`: the context is in the cache.
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

    /// The head's second pass is over and it has to wait. Those that go through a pass one by one only come to this.
    pub(super) fn wait(&mut self, cid: Cid, phase: Phase) {
        self.release(cid);
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        debug_assert_eq!(queue.in_flight, 1, "what has company finds its context");
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

    /// The connection's entry was freed. If it has a queue, the entry is kept for it.
    pub(super) fn entry_freed(&mut self, cid: Cid) {
        let Some(queue) = self.queues.get_mut(&cid) else { return };
        if !queue.reserved {
            queue.reserved = true;
            self.reserved += 1;
        }
        self.set_phase(cid, Phase::Probe);
    }

    /// `free` entries are free: those not kept for anyone are kept for the connections that have waited longest.
    pub(super) fn entries_free(&mut self, free: u32) {
        while self.reserved < free {
            let Some(cid) = self.waiting.pop_front() else { return };
            self.entry_freed(cid);
        }
    }
}
