//! The application's side of a connection's queues: posts work requests, collects completions, and runs operations
//! of many segments.
//!
//! [`Queues`] only reads and writes the shared [`QueuePair`]. It does not wait and makes no calls, so that tests
//! can play the kernel. One lock around it makes the application a single producer and a single consumer.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use tokio::sync::oneshot;
use transport_common::connection::State;
use transport_common::ids::{Cid, Rsn, WorkPosition};
use transport_common::queues::{
    COMPLETION_QUEUE_DEPTH, Completion, LKey, QueuePair, RECEIVE_QUEUE_DEPTH, ReceiveRequest,
    SEND_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest,
};
use transport_common::transaction::CompletionCode;

use crate::parameters::segmentation::Segments;
use crate::parameters::ulp::Ulp;
use crate::verbs::grace::{Quiescence, Ticket};
use crate::verbs::operation_error::{OperationError, PostError};
use transport_common::ulp::block::BLOCK_BYTES;

/// Marks a `wr_id` that belongs to an operation of the library.
pub(crate) const OPERATION: u64 = 1 << 63;
/// Number of completions that are kept for an application that does not collect them. Beyond it, nothing more is
/// posted.
const KEPT: usize = COMPLETION_QUEUE_DEPTH;

/// A reference that keeps memory allocated while the datapath may still read or write it.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// The result of an operation.
pub(crate) type Outcome = Result<(), OperationError>;

/// An operation from submission to its end.
#[derive(Debug)]
pub(crate) struct Operation {
    segments: Segments,
    /// Keeps the local buffer until no segment is in flight.
    _buffer: Keep,
    done: oneshot::Sender<Outcome>,
    /// RSN of the newest segment posted.
    last: Option<Rsn>,
    /// Number of segments that are posted and not completed. Used on unordered connections only.
    in_flight: u32,
    /// If set, no more segments are posted, and the operation ends with this error when all posted segments have
    /// ended.
    error: Option<OperationError>,
}

impl Operation {
    /// Makes an operation. The `wr_id` of its segments must come from [`Queues::operation_id`].
    pub(crate) fn new(segments: Segments, buffer: Keep, done: oneshot::Sender<Outcome>) -> Self {
        Self { segments, _buffer: buffer, done, last: None, in_flight: 0, error: None }
    }

    fn finish(self, outcome: Outcome) {
        // This fails if the caller dropped its future. The operation was performed all the same.
        let _ = self.done.send(outcome);
    }
}

/// A posted receive: the application's `wr_id`, and its buffer.
#[derive(Debug)]
struct Receive {
    wr_id: u64,
    _buffer: Keep,
}

/// The use of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Send queue entries in use.
    pub send: u32,
    /// Receives posted.
    pub receive: u32,
    /// Completions that were not collected.
    pub completions: u32,
    pub(crate) operations_waiting: usize,
    /// Bytes of user data of completed transactions.
    pub(crate) bytes_completed: u64,
}

/// The application's side of one connection's queues.
#[derive(Debug)]
pub(crate) struct Queues {
    /// The local CID, which the completions name.
    number: Cid,
    ordered: bool,
    ulp: Ulp,
    /// Largest user data of a transaction that is posted from now on, bytes.
    max_segment: u32,
    /// Bytes of the node's memory.
    memory: u64,
    /// RSN of the next entry.
    producer: Rsn,
    /// Transactions before this one were complete when the kernel's counters were last read. The kernel writes the
    /// cache line of these counters at every acknowledgement, so they are read again only if the queue seems to be
    /// full.
    completed_before: Rsn,
    /// Number of completions in the ring when the kernel's counters were last read.
    uncollected: u32,
    /// Bytes of user data of all posted transactions.
    bytes_posted: u64,
    receive_producer: u32,
    next_operation: u64,
    operations: HashMap<u64, Operation>,
    /// Operations with segments to post, in the order of submission.
    waiting: VecDeque<u64>,
    /// Operations that failed and still have segments in flight.
    failed: Vec<u64>,
    receives: Vec<Option<Receive>>,
    posted_receives: u32,
    /// Completions of the application's own work requests, not collected yet.
    completed: VecDeque<Completion>,
    /// Completions of receives, not collected yet.
    received: VecDeque<Completion>,
    /// Whether the connection was released. Then the slot may belong to another connection and must not be
    /// touched.
    released: bool,
    grace: Arc<dyn Quiescence>,
    /// Completions in the ring that wait for a grace period.
    held: Option<Held>,
}

/// Completions of transactions that this end has ended by itself. The wire program may still copy the peer's
/// response into their memory, so these completions are delivered only after a grace period.
#[derive(Clone, Copy, Debug)]
struct Held {
    ticket: Ticket,
    /// The first index in the ring behind them.
    until: u32,
}

/// Returns whether this end may have completed a transaction without an answer of the peer: it timed out, or its
/// connection is dead.
fn ended_here(qp: &QueuePair, status: u8) -> bool {
    let refused =
        status == CompletionCode::TargetNackCie as u8 && qp.control.state.load(Acquire) == State::Open as u32;
    status != CompletionCode::Ack as u8 && !refused
}

/// Checks a work request of the block protocol.
fn check_blocks(work: &WorkRequest) -> Result<(), PostError> {
    if !matches!(work.opcode, Verb::WRITE | Verb::READ) || work.flags.contains(WorkFlags::IMMEDIATE) {
        return Err(PostError::Malformed(
            "the block protocol has only READ, and WRITE without immediate data",
        ));
    }
    let whole = u64::from(work.length).is_multiple_of(BLOCK_BYTES.into());
    if work.length == 0 || !whole || !work.remote_address.is_multiple_of(BLOCK_BYTES.into()) {
        return Err(PostError::Malformed("the block protocol reads and writes whole blocks of 512 bytes"));
    }
    Ok(())
}

impl Queues {
    /// Initialises the shared counters for the connection with the local CID `number`, whose first RSN is `first`, and sets
    /// the state to open.
    /// Nothing of the slot's previous connection remains.
    pub(crate) fn open(
        qp: &QueuePair,
        (number, first): (Cid, Rsn),
        (ordered, ulp): (bool, Ulp),
        (max_segment, memory): (u32, u64),
        grace: Arc<dyn Quiescence>,
    ) -> Self {
        qp.start(number, first, State::Open as u32);
        Self {
            number,
            ordered,
            ulp,
            max_segment,
            memory,
            producer: first,
            completed_before: first,
            uncollected: 0,
            bytes_posted: 0,
            receive_producer: 0,
            next_operation: 0,
            operations: HashMap::new(),
            waiting: VecDeque::new(),
            failed: Vec::new(),
            receives: (0..RECEIVE_QUEUE_DEPTH).map(|_| None).collect(),
            posted_receives: 0,
            completed: VecDeque::new(),
            received: VecDeque::new(),
            released: false,
            grace,
            held: None,
        }
    }

    /// Returns whether work can be posted: the slot belongs to this connection, and the connection is alive.
    pub(crate) fn is_open(&self, qp: &QueuePair) -> bool {
        !self.released && qp.control.state.load(Acquire) == State::Open as u32
    }

    /// Returns the largest user data of a transaction that is posted from now on, bytes.
    pub(crate) fn max_segment(&self) -> u32 {
        self.max_segment
    }

    /// Makes the largest segment smaller. Returns whether all that is outstanding fits it: what is posted stays as it is. A
    /// segment of no bytes would move nothing, so the largest one stays if no byte fits.
    pub(crate) fn narrow(&mut self, qp: &QueuePair, max_segment: u32) -> bool {
        if max_segment == 0 {
            return false;
        }
        self.max_segment = self.max_segment.min(max_segment);
        self.look_again(qp);
        let posted = (0..self.in_flight().min(SEND_QUEUE_DEPTH as u32)).all(|n| {
            let rsn = self.completed_before.add(n);
            qp.work_queue().load(WorkPosition::of(rsn)).length <= self.max_segment
        });
        posted && self.waiting.iter().all(|id| self.operations[id].segments.can_be_cut(self.max_segment))
    }

    /// Returns whether there are outstanding operations.
    pub(crate) fn has_operations(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Returns the `wr_id` for a new operation.
    pub(crate) fn operation_id(&mut self) -> u64 {
        let id = self.next_operation;
        self.next_operation = (id + 1) & !OPERATION;
        id | OPERATION
    }

    /// Returns whether another entry may be posted: the previous transaction of the entry is complete, and the
    /// completion ring has space for everything that may still complete.
    pub(crate) fn has_room(&mut self, qp: &QueuePair) -> bool {
        let room = |queues: &Self| {
            queues.in_flight() < SEND_QUEUE_DEPTH as u32
                && queues.may_complete() < COMPLETION_QUEUE_DEPTH as u32
        };
        room(self) || {
            self.look_again(qp);
            room(self)
        }
    }

    /// Returns the number of send entries that are not known to be free.
    fn in_flight(&self) -> u32 {
        self.producer.distance_from(self.completed_before)
    }

    /// Returns an upper bound of the entries that the completion ring needs. Since the kernel's counters were last
    /// read, completed transactions still count as in flight, and collected completions still count as in the
    /// ring.
    fn may_complete(&self) -> u32 {
        self.in_flight() + self.posted_receives + self.uncollected
    }

    /// Reads the kernel's counters.
    fn look_again(&mut self, qp: &QueuePair) {
        // The order matters: the kernel writes completions before it moves the consumer past their transactions.
        self.completed_before = qp.work_queue().consumer().rsn();
        self.uncollected = uncollected(qp);
    }

    /// Posts one work request of the application. Does not ring the doorbell.
    pub(crate) fn post(&mut self, qp: &QueuePair, work: WorkRequest) -> Result<Rsn, PostError> {
        self.check(&work)?;
        if !self.is_open(qp) {
            return Err(PostError::Closed);
        }
        // No other work request may be posted between the segments of a SEND.
        let blocked = self.waiting.front().is_some_and(|id| self.operations[id].segments.is_begun());
        if blocked || self.completed.len() >= KEPT || !self.has_room(qp) {
            return Err(PostError::QueueFull);
        }
        Ok(self.push(qp, work))
    }

    fn check(&self, work: &WorkRequest) -> Result<(), PostError> {
        if work.wr_id & OPERATION != 0 {
            return Err(PostError::Malformed("the top bit of wr_id is reserved for the library"));
        }
        if work.length > self.max_segment {
            return Err(PostError::Malformed("longer than one transaction"));
        }
        if work.local_offset > self.memory.saturating_sub(work.length.into()) {
            return Err(PostError::Malformed("the local buffer lies outside the node's memory"));
        }
        if self.ulp == Ulp::Block {
            return check_blocks(work);
        }
        let atomic = matches!(work.opcode, Verb::COMPARE_SWAP | Verb::FETCH_ADD);
        if atomic && (work.length != 8 || !work.remote_address.is_multiple_of(8)) {
            return Err(PostError::Malformed("an atomic is 8 bytes at an address that is a multiple of 8"));
        }
        match work.opcode {
            Verb::WRITE | Verb::READ | Verb::COMPARE_SWAP | Verb::FETCH_ADD | Verb::SEND_ONLY => Ok(()),
            Verb::SEND_FIRST | Verb::SEND_MIDDLE | Verb::SEND_LAST if self.ordered => Ok(()),
            Verb::SEND_FIRST | Verb::SEND_MIDDLE | Verb::SEND_LAST => {
                Err(PostError::Malformed("on an unordered connection a SEND is one segment"))
            }
            _ => Err(PostError::Malformed("unknown opcode")),
        }
    }

    fn push(&mut self, qp: &QueuePair, work: WorkRequest) -> Rsn {
        let rsn = self.producer;
        self.producer = rsn.add(1);
        self.bytes_posted += u64::from(work.length);
        qp.work_queue().post(WorkPosition::of(rsn), work);
        rsn
    }

    /// Adds an operation to the waiting ones. [`Self::pump`] posts it.
    pub(crate) fn submit(&mut self, id: u64, operation: Operation) {
        self.operations.insert(id, operation);
        self.waiting.push_back(id);
    }

    /// Posts segments of the waiting operations while the queues have space. Returns true if any was posted; then
    /// the caller must ring the doorbell. On a dead connection the waiting operations fail.
    pub(crate) fn pump(&mut self, qp: &QueuePair) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if !self.is_open(qp) {
            for id in std::mem::take(&mut self.waiting) {
                self.fail(
                    id,
                    OperationError::Completion { code: CompletionCode::DeadConnection as u8, ulp_code: 0 },
                );
            }
            return false;
        }
        let mut posted = false;
        while let Some(id) = self.waiting.front().copied() {
            if !self.has_room(qp) {
                break;
            }
            let operation = self.operations.get_mut(&id).expect("waiting operations exist");
            if let Some(work) = operation.segments.next(self.max_segment) {
                operation.last = Some(self.producer);
                operation.in_flight += 1;
                self.push(qp, work);
                posted = true;
            }
            if self.operations[&id].segments.is_done() {
                self.waiting.pop_front();
            }
        }
        posted
    }

    /// Posts a receive. Returns whether a request of the peer waits for it. Then the doorbell must be rung.
    pub(crate) fn post_receive(
        &mut self,
        qp: &QueuePair,
        buffer: Keep,
        (local_offset, length): (u64, u32),
        wr_id: u64,
    ) -> Result<bool, OperationError> {
        if !self.is_open(qp) {
            return Err(OperationError::Closed);
        }
        if self.may_complete() >= COMPLETION_QUEUE_DEPTH as u32 {
            self.look_again(qp);
        }
        let index = self.receive_producer as usize % RECEIVE_QUEUE_DEPTH;
        let full = self.posted_receives >= RECEIVE_QUEUE_DEPTH as u32
            || self.receives[index].is_some()
            || self.may_complete() >= COMPLETION_QUEUE_DEPTH as u32
            || self.received.len() >= KEPT;
        if full {
            return Err(OperationError::ReceiveQueueFull(RECEIVE_QUEUE_DEPTH));
        }
        self.receives[index] = Some(Receive { wr_id, _buffer: buffer });
        self.posted_receives += 1;
        // The completion has the counter as its wr_id. The application's own wr_id is kept in `receives`.
        let id = u64::from(self.receive_producer);
        let wanted = qp.post_receive(
            self.receive_producer,
            ReceiveRequest { local_offset, wr_id: id, length, lkey: LKey::OWN },
        );
        self.receive_producer = self.receive_producer.wrapping_add(1);
        Ok(wanted)
    }

    /// Empties the completion ring: ends operations, and keeps the application's completions. Returns true if the
    /// application has new ones.
    pub(crate) fn collect(&mut self, qp: &QueuePair) -> bool {
        let before = self.completed.len() + self.received.len();
        self.drain(qp, &mut [], Self::may_take);
        self.completed.len() + self.received.len() > before
    }

    /// Empties the completion ring like [`Self::collect`], and writes the application's completions to `out`,
    /// oldest first. Returns their number.
    pub(crate) fn poll(&mut self, qp: &QueuePair, out: &mut [Completion]) -> usize {
        let mut n = 0;
        while n < out.len() {
            let Some(kept) = self.received.pop_front().or_else(|| self.completed.pop_front()) else { break };
            out[n] = kept;
            n += 1;
        }
        n + self.drain(qp, &mut out[n..], Self::may_take)
    }

    /// Asks for a notice of the next completion, and of a state other than this one. The caller then looks at both.
    pub(crate) fn arm(&self, qp: &QueuePair, state: u32) {
        if !self.released {
            let queue = qp.completion_queue();
            queue.arm(state, queue.consumer());
        }
    }

    /// Returns whether there are completions that the application did not take.
    pub(crate) fn has_kept(&self) -> bool {
        !self.completed.is_empty() || !self.received.is_empty()
    }

    /// Returns whether something waits of which there is no notice: for places in the send queue, for the end of the segments
    /// of a failed operation, or for a grace period.
    pub(crate) fn needs_looks(&self) -> bool {
        let held = self.held.is_some_and(|held| !self.grace.has_passed(held.ticket));
        held || !self.waiting.is_empty() || !self.failed.is_empty()
    }

    /// Returns whether there are completions that were not delivered yet: they wait for a grace period, or the
    /// engine is about to write them for a connection that has died.
    pub(crate) fn has_untold(&self, qp: &QueuePair) -> bool {
        let draining = || qp.work_queue().consumer().rsn() != self.producer;
        !self.released && (draining() || uncollected(qp) != 0)
    }

    /// Takes the completion of the oldest completed receive.
    pub(crate) fn take_received(&mut self) -> Option<Completion> {
        self.received.pop_front()
    }

    /// Returns whether the completion at index `at` of the ring may be delivered: a grace period has passed since
    /// it was written. Begins a grace period if needed.
    fn may_take(&mut self, qp: &QueuePair, at: u32) -> bool {
        let held = self.held.filter(|held| held.until.wrapping_sub(at) as i32 > 0);
        let held = held.unwrap_or_else(|| {
            // The order matters: completions before `until` were written when the period began.
            let until = qp.completion_queue().producer();
            Held { ticket: self.grace.begin(), until }
        });
        self.held = Some(held);
        self.grace.has_passed(held.ticket)
    }

    /// Takes all completions from the ring that may be taken. Writes the application's completions to `out`, and
    /// keeps those that do not fit. Returns the number of completions in `out`. `may_take` returns whether a
    /// completion that needs a grace period has had it.
    fn drain(
        &mut self,
        qp: &QueuePair,
        out: &mut [Completion],
        may_take: impl Fn(&mut Self, &QueuePair, u32) -> bool,
    ) -> usize {
        if self.released {
            return 0;
        }
        // This is read before the ring: transactions below it already have their completions in the ring.
        let complete = (!self.failed.is_empty()).then(|| qp.work_queue().consumer().rsn());
        let first = qp.completion_queue().consumer();
        let mut consumer = first;
        let mut n = 0;
        let mut held = false;
        while let Some(completion) = qp.completion_queue().get(consumer) {
            if ended_here(qp, completion.status) && !may_take(self, qp, consumer) {
                held = true;
                break;
            }
            consumer = consumer.wrapping_add(1);
            if completion.queue_pair != self.number {
                // The kernel writes none: somebody wrote into the queue. It must not end an operation of this connection.
                tracing::debug!(cid = self.number.0, ?completion, "a completion of another queue pair");
                continue;
            }
            if completion.wr_id & OPERATION != 0 {
                self.segment_completed(&completion);
                continue;
            }
            let receive = matches!(completion.opcode, Verb::RECEIVE | Verb::RECEIVE_IMMEDIATE);
            let completion = if receive { self.receive_completed(completion) } else { completion };
            if let Some(place) = out.get_mut(n) {
                *place = completion;
                n += 1;
            } else if receive {
                self.received.push_back(completion);
            } else {
                self.completed.push_back(completion);
            }
        }
        if consumer != first {
            // No message waits for these places: while a receive is posted, the ring has room for its completion
            // (`may_complete`). So the barrier of `QueuePair::take_completions` is not needed.
            qp.completion_queue().take(consumer);
        }
        if let Some(complete) = complete.filter(|_| !held) {
            self.finish_failed(complete);
        }
        n
    }

    fn receive_completed(&mut self, mut completion: Completion) -> Completion {
        let index = completion.wr_id as usize % RECEIVE_QUEUE_DEPTH;
        if let Some(receive) = self.receives[index].take() {
            self.posted_receives -= 1;
            completion.wr_id = receive.wr_id;
        }
        completion
    }

    fn segment_completed(&mut self, completion: &Completion) {
        let id = completion.wr_id;
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.in_flight = operation.in_flight.saturating_sub(1);
        if completion.status != 0 || completion.ulp_code != 0 {
            let error = OperationError::Completion { code: completion.status, ulp_code: completion.ulp_code };
            self.waiting.retain(|waiting| *waiting != id);
            self.fail(id, error);
            return;
        }
        // On an ordered connection, the signaled last segment completes after all others (F-8.4.2-1). On an
        // unordered connection, all segments are signaled.
        let whole = operation.segments.is_done()
            && if self.ordered {
                operation.last == Some(Rsn(completion.rsn))
            } else {
                operation.in_flight == 0
            };
        if whole && operation.error.is_none() {
            let operation = self.operations.remove(&id).expect("just found");
            operation.finish(Ok(()));
        }
    }

    /// Ends an operation in error: at once if none of its segments was posted, otherwise when they have ended.
    fn fail(&mut self, id: u64, error: OperationError) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.last.is_none() {
            let operation = self.operations.remove(&id).expect("just found");
            operation.finish(Err(error));
        } else if operation.error.is_none() {
            operation.error = Some(error);
            self.failed.push(id);
        }
    }

    /// Ends the failed operations whose segments are all older than `complete`, the oldest incomplete transaction.
    /// Only then may their buffers be used again.
    fn finish_failed(&mut self, complete: Rsn) {
        let mut n = 0;
        while n < self.failed.len() {
            let id = self.failed[n];
            let over = self.operations[&id].last.is_none_or(|last| last.is_before(complete));
            if !over {
                n += 1;
                continue;
            }
            self.failed.swap_remove(n);
            let mut operation = self.operations.remove(&id).expect("failed operations exist");
            let error = operation.error.take().expect("failed operations have an error");
            operation.finish(Err(error));
        }
    }

    /// Releases the queues of a closed connection, after a grace period. Ends all outstanding operations, and
    /// never touches the queue pair again. Earlier completions can still be collected.
    pub(crate) fn release(&mut self, qp: &QueuePair) {
        self.drain(qp, &mut [], |_, _, _| true);
        self.released = true;
        self.waiting.clear();
        self.failed.clear();
        for (_, mut operation) in self.operations.drain() {
            let error = operation.error.take().unwrap_or(OperationError::Closed);
            operation.finish(Err(error));
        }
        self.receives.iter_mut().for_each(|receive| *receive = None);
        self.posted_receives = 0;
    }

    /// Returns the use of the queues.
    pub(crate) fn occupancy(&self, qp: &QueuePair) -> Occupancy {
        let kept = (self.completed.len() + self.received.len()) as u32;
        if self.released {
            return Occupancy { completions: kept, ..Occupancy::default() };
        }
        let send = self.producer.0.wrapping_sub(qp.work_queue().consumer().rsn().0);
        let outstanding = (1..=send.min(SEND_QUEUE_DEPTH as u32)).map(|back| {
            let rsn = Rsn(self.producer.0.wrapping_sub(back));
            u64::from(qp.work_queue().load(WorkPosition::of(rsn)).length)
        });
        Occupancy {
            send,
            bytes_completed: self.bytes_posted.saturating_sub(outstanding.sum()),
            receive: self.posted_receives,
            completions: kept + uncollected(qp),
            operations_waiting: self.waiting.len(),
        }
    }
}

/// Returns the number of completions in the ring.
fn uncollected(qp: &QueuePair) -> u32 {
    let queue = qp.completion_queue();
    queue.producer().wrapping_sub(queue.consumer())
}

#[cfg(test)]
#[path = "queue_pair_tests.rs"]
mod tests;
