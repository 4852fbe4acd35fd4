//! The credit engine: when a segment leaves (section 3.3).

mod merge;
mod rate;

use super::delivery::CreditUpdate;
use super::packet::{FlowId, Segment, SegmentAddress};
use super::parameters::{MAX_FLOWS, Parameters};
use super::protocol::{Credit, Initial};

use clocked::{Cycle, DelayLine, Fifo, Memory, Timers};
use rate::{Amount, credit_at};

/// What the credit engine keeps of a flow, besides its ring buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditContext {
    /// The oldest entry of the ring buffer.
    head: u8,
    /// Entries of the ring buffer.
    count: u8,
    /// The flow is ready to transmit: in the set or on its way from there through Transmit.
    ready: bool,
    /// The flow waits for credit: its timer runs or is being computed.
    waiting: bool,
    /// Bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES).
    rate: u32,
    /// Credit as it was at `since`.
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

/// What the engine finds in a cycle: what stands on its outputs, and what it takes over at the clock edge.
pub(super) struct CreditNext {
    pub(super) enqueue: Option<SegmentAddress>,
    updates: [Option<CreditUpdate>; 2],
    pub(super) selected: Option<FlowId>,
    /// The flow in processing,
    processed: Option<FlowId>,
    /// and what of it is transmitted.
    pub(super) transmitted: Option<SegmentAddress>,
    /// At the pins: behind the output queue.
    pub(super) pins: Option<SegmentAddress>,
    expired: Option<FlowId>,
    /// There is a place in the output queue for one that goes straight back to processing.
    may_go_back: bool,
    link_ready: bool,
}

/// How much credit there can be, and how much is needed.
#[derive(Clone, Copy, Debug)]
struct Limits {
    scheme: Credit,
    segment: Amount,
    burst: Amount,
}

impl Limits {
    /// A flow's credit at `now`. Under the window scheme, where the window limits, always that of a segment.
    #[inline(always)]
    fn credit(&self, now: Cycle, context: &CreditContext) -> Amount {
        match self.scheme {
            Credit::Window => self.segment,
            Credit::Token => context.credit,
            Credit::Rate => credit_at(now, context.since, context.credit, context.rate, self.burst),
        }
    }

    /// The credit of so many tokens.
    const fn tokens(&self, count: u16) -> Amount {
        self.segment.times(count)
    }
}

/// The engine. Its state is `Self`.
pub(super) struct CreditEngine {
    limits: Limits,
    outstanding: u8,
    quanta: Box<[u32]>,
    /// Touched by Enqueue, Transmit, parameters from Incoming and from Periodic Updates, timers.
    contexts: Memory<CreditContext, 5, 5>,
    /// The entry `i` of flow `f` is at `f * outstanding + i`. Written by Enqueue and read by Transmit.
    rings: Memory<(Segment, bool), 1, 1>,
    ready_set: Fifo<FlowId>,
    lookup: Option<FlowId>,
    processing: Option<FlowId>,
    output_queue: Fifo<SegmentAddress>,
    /// The dividers of Transmit and of Enqueue, one for each quantum in step: the flow that will have credit, and
    /// when.
    dividers: [DelayLine<(FlowId, Cycle)>; 2],
    timers: Timers<{ MAX_FLOWS as usize }>,
}

impl CreditEngine {
    /// Bytes of a flow's context.
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

    /// The logic of a cycle. `link_ready`: the link takes a segment in this cycle.
    #[inline(always)]
    pub(super) fn evaluate(
        &self,
        now: Cycle,
        enqueue: Option<SegmentAddress>,
        updates: [Option<CreditUpdate>; 2],
        link_ready: bool,
    ) -> CreditNext {
        // Those in lookup and in processing have their places in the output queue.
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

    /// The Transmit module: the oldest address of a flow that has the credit. It may lack it here if its rate
    /// was lowered since it became ready.
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

    /// The first cycle from `now` on in which something happens without an input.
    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let busy = self.lookup.is_some()
            || self.processing.is_some()
            || !self.ready_set.is_empty()
            || !self.output_queue.is_empty()
            || self.dividers.iter().any(|divider| !divider.is_empty());
        if busy { Some(now) } else { self.timers.next_event(now) }
    }

    /// A flow is added. It may send a segment at once.
    pub(super) fn open<S>(&mut self, now: Cycle, flow: FlowId, initial: &Initial<S>) {
        let credit = match self.limits.scheme {
            Credit::Token => self.limits.tokens(initial.tokens),
            Credit::Window | Credit::Rate => self.limits.segment,
        };
        *self.contexts.poke(flow.index()) =
            CreditContext { rate: initial.rate, credit, since: now, ..CreditContext::EMPTY };
    }
}
