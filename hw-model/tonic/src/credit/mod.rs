//! The credit engine: decides when a segment leaves (section 3.3).

mod merge;
mod rate;

use super::delivery::CreditUpdate;
use super::packet::{FlowId, Segment, SegmentAddress};
use super::parameters::{MAX_FLOWS, Parameters};
use super::protocol::{Credit, Initial};

use clocked::{Cycle, DelayLine, Fifo, Memory, Timers};
use rate::{Amount, credit_at};

/// The context of a flow in the credit engine, without its ring buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditContext {
    /// The index of the oldest entry in the ring buffer.
    head: u8,
    /// The number of entries in the ring buffer.
    count: u8,
    /// True if the flow is ready to transmit: it is in the set, or on its way from there through Transmit.
    ready: bool,
    /// True if the flow waits for credit: its timer runs or is being computed.
    waiting: bool,
    /// Bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES).
    rate: u32,
    /// The credit at cycle `since`.
    credit: Amount,
    since: Cycle,
}

impl CreditContext {
    const EMPTY: Self = Self {
        head: 0,
        count: 0,
        ready: false,
        waiting: false,
        rate: 0,
        credit: Amount::from_bytes(0),
        since: Cycle::ZERO,
    };
}

/// The results of a cycle: the outputs of the engine, and the changes that it takes over at the clock edge.
pub(super) struct CreditNext {
    pub(super) enqueue: Option<SegmentAddress>,
    updates: [Option<CreditUpdate>; 2],
    pub(super) selected: Option<FlowId>,
    /// The flow in processing.
    processed: Option<FlowId>,
    /// The segment of this flow that is transmitted, if any.
    pub(super) transmitted: Option<SegmentAddress>,
    /// The segment at the output pins, after the output queue.
    pub(super) pins: Option<SegmentAddress>,
    expired: Option<FlowId>,
    /// True if the output queue has space for a flow that goes straight back to processing.
    may_go_back: bool,
    link_ready: bool,
}

/// The largest possible credit, and the credit that a segment needs.
#[derive(Clone, Copy, Debug)]
struct Limits {
    scheme: Credit,
    segment: Amount,
    burst: Amount,
}

impl Limits {
    /// Returns a flow's credit at `now`. Under the window scheme the window is the limit, so the credit is always
    /// that of one segment.
    #[inline(always)]
    fn credit(&self, now: Cycle, context: &CreditContext) -> Amount {
        match self.scheme {
            Credit::Window => self.segment,
            Credit::Token => context.credit,
            Credit::Rate => credit_at(now, context.since, context.credit, context.rate, self.burst),
        }
    }

    /// Returns the credit of `count` tokens.
    const fn tokens(&self, count: u16) -> Amount {
        self.segment.times(count)
    }
}

/// The engine. `Self` is its state.
pub(super) struct CreditEngine {
    limits: Limits,
    outstanding: u8,
    quanta: Box<[u32]>,
    /// Enqueue, Transmit, the parameters from Incoming and from Periodic Updates, and the timers use the contexts.
    contexts: Memory<CreditContext, 5, 5>,
    /// Entry `i` of flow `f` is at `f * outstanding + i`. Enqueue writes it, Transmit reads it.
    rings: Memory<(Segment, bool), 1, 1>,
    ready_set: Fifo<FlowId>,
    lookup: Option<FlowId>,
    processing: Option<FlowId>,
    output_queue: Fifo<SegmentAddress>,
    /// The dividers of Transmit and of Enqueue. Each stands for one divider per quantum, all in step. An entry is
    /// the flow that will have credit, and the cycle in which it will have it.
    dividers: [DelayLine<(FlowId, Cycle)>; 2],
    timers: Timers<{ MAX_FLOWS as usize }>,
}

impl CreditEngine {
    /// The size of a flow's context in bytes.
    pub(super) const CONTEXT_BYTES: usize = size_of::<CreditContext>();

    pub(super) fn new(scheme: Credit, parameters: &Parameters) -> Self {
        let flows = usize::from(parameters.flows);
        let dividers = DelayLine::new(parameters.latencies.divider);
        Self {
            limits: Limits {
                scheme,
                segment: Amount::from_bytes(parameters.segment_bytes.into()),
                burst: Amount::from_bytes(parameters.burst_bytes.into()),
            },
            outstanding: parameters.outstanding,
            quanta: parameters.quanta.clone().into(),
            contexts: Memory::new(flows, &CreditContext::EMPTY),
            rings: Memory::new(flows * usize::from(parameters.outstanding), &(Segment::default(), false)),
            ready_set: Fifo::new(flows),
            lookup: None,
            processing: None,
            output_queue: Fifo::new(parameters.output_queue),
            dividers: [dividers.clone(), dividers],
            timers: Timers::default(),
        }
    }

    /// Computes the logic of a cycle. `link_ready` is true if the link takes a segment in this cycle.
    #[inline(always)]
    pub(super) fn evaluate(
        &self,
        now: Cycle,
        enqueue: Option<SegmentAddress>,
        updates: [Option<CreditUpdate>; 2],
        link_ready: bool,
    ) -> CreditNext {
        // The flows in lookup and in processing have reserved space in the output queue.
        let taken = usize::from(self.lookup.is_some()) + usize::from(self.processing.is_some());
        let room = self.output_queue.room().saturating_sub(taken);
        let selected = self.ready_set.head().copied().filter(|_| room > 0);
        let transmitted = self.processing.and_then(|flow| self.transmit(now, flow));
        CreditNext {
            enqueue,
            updates,
            selected,
            processed: self.processing,
            transmitted,
            pins: self.output_queue.head().copied().or(transmitted).filter(|_| link_ready),
            expired: self.timers.expired().map(|flow| FlowId(flow as u16)),
            may_go_back: room > usize::from(selected.is_some()),
            link_ready,
        }
    }

    /// The Transmit module. Returns the oldest address of the flow if the flow has the credit. It can lack the
    /// credit if its rate was lowered since it became ready.
    #[inline(always)]
    fn transmit(&self, now: Cycle, flow: FlowId) -> Option<SegmentAddress> {
        let context = self.contexts.read_ports().read(flow.index()).expect("the only reader in this phase");
        if context.count == 0 || self.limits.credit(now, context) < self.limits.segment {
            return None;
        }
        let ring = flow.index() * usize::from(self.outstanding);
        let read = self.rings.read_ports().read(ring + usize::from(context.head));
        let &(segment, retransmission) = read.expect("the only reader");
        Some(SegmentAddress { flow, segment, retransmission })
    }

    /// Returns the first cycle from `now` on in which something happens without an input.
    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let busy = self.lookup.is_some()
            || self.processing.is_some()
            || !self.ready_set.is_empty()
            || !self.output_queue.is_empty()
            || self.dividers.iter().any(|divider| !divider.is_empty());
        if busy { Some(now) } else { self.timers.next_event(now) }
    }

    /// Adds a flow. It starts with the credit of its initial tokens, or of one segment in the other schemes.
    pub(super) fn open<S>(&mut self, now: Cycle, flow: FlowId, initial: &Initial<S>) {
        let credit = match self.limits.scheme {
            Credit::Token => self.limits.tokens(initial.tokens),
            Credit::Window | Credit::Rate => self.limits.segment,
        };
        *self.contexts.poke(flow.index()) =
            CreditContext { rate: initial.rate, credit, since: now, ..CreditContext::EMPTY };
    }
}
