//! Tonic: the data delivery engine and the credit engine, connected (figure 2).

use clocked::{Block, Cycle, DelayLine};

use super::credit::{CreditEngine, CreditNext};
use super::delivery::{CreditUpdate, DeliveryEngine, DeliveryNext, IncomingRecord, Window};
use super::logic::{Plain, UserState, packed_bytes};
use super::packet::{ControlPacket, FlowId, Segment, SegmentAddress};
use super::parameters::{ParameterError, Parameters};
use super::protocol::Protocol;

/// The inputs of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TonicInput {
    /// A control packet from the network. A packet of a flow that does not exist is ignored.
    pub packet: Option<ControlPacket>,
    /// True if the link takes a segment in this cycle.
    pub link_ready: bool,
}

impl TonicInput {
    /// No packet arrives, and the link is ready.
    pub const IDLE: Self = Self { packet: None, link_ready: true };
}

/// The events of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TonicOutput {
    /// The flow that leaves the active set.
    pub select: Option<FlowId>,
    /// The segment address that Segment Generation generates.
    pub generate: Option<SegmentAddress>,
    /// The segment address that enters its ring buffer in the credit engine.
    pub credit_enqueue: Option<SegmentAddress>,
    /// The flow that leaves the ready-to-transmit set.
    pub credit_select: Option<FlowId>,
    /// The segment address that leaves the credit engine.
    pub credit_transmit: Option<SegmentAddress>,
    /// The segment address that leaves Tonic, for the DMA engine.
    pub transmit: Option<SegmentAddress>,
    /// The flow for which Segment Transmitted decrements the outstanding addresses.
    pub decrement: Option<FlowId>,
    /// What the programmable stage of Incoming saw and decided.
    pub incoming: Option<IncomingRecord>,
    /// The flow whose retransmission timer fires.
    pub timeout: Option<FlowId>,
}

/// The changes that Tonic takes over at the clock edge.
///
/// This record has several hundred bytes. Many of them belong to events that few cycles have. Moving the record
/// takes a large part of the simulation time of a cycle. For this reason all code that runs in every cycle is
/// inlined, and code that is not inlined gets no reference to a part of this record. The compiler can then split
/// the record into its fields and omit most of it.
pub struct TonicNext<P: Protocol, const WORDS: usize> {
    delivery: DeliveryNext<P, WORDS>,
    credit: CreditNext,
}

/// Why a flow could not be added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The number of the flow is too high.
    #[error("there is no flow {0}: its number is too high")]
    OutOfRange(FlowId),
    /// A flow with this number exists already.
    #[error("flow {0} is in use")]
    InUse(FlowId),
    /// There is no flow with this number.
    #[error("flow {0} was not added")]
    NotOpen(FlowId),
    /// The flow still has segments to send.
    #[error("flow {0} has segments to send")]
    Busy(FlowId),
    /// There are more segments than a window can distinguish.
    #[error("{0} segments at once: supply at most 2^30")]
    TooMany(u32),
}

/// The state of a flow, for an observer outside the hardware.
#[derive(Clone, Copy, Debug)]
pub struct FlowStatus<S> {
    /// The first segment that is not acknowledged cumulatively.
    pub window_start: Segment,
    /// The number of segments from `window_start` on that may be sent.
    pub window_size: u32,
    /// The next new segment.
    pub next_new: Segment,
    /// The number of addresses that wait for credit.
    pub outstanding: u8,
    /// The number of segments marked and not retransmitted.
    pub marked: u32,
    /// The number of segments acknowledged selectively.
    pub acked: u32,
    /// The cycle in which the retransmission timer expires. `None` if it is off.
    pub timer: Option<Cycle>,
    /// The number of segments generated, including retransmissions.
    pub total_sent: u64,
    /// The user state.
    pub user: S,
}

/// Tonic with a protocol and a window of `64 * WORDS` segments: 128 segments with 2 words, 256 with 4 (table 4).
pub struct Tonic<P: Protocol, const WORDS: usize = 2> {
    delivery: DeliveryEngine<P, WORDS>,
    credit: CreditEngine,
    to_credit: DelayLine<SegmentAddress>,
    updates: [DelayLine<CreditUpdate>; 2],
    from_credit: DelayLine<FlowId>,
    usable_flows: u16,
}

/// Returns the size of a protocol's user state in bytes.
#[must_use]
pub const fn user_state_bytes<P: Protocol>() -> usize {
    packed_bytes(<P::State<Plain<2>> as UserState<Plain<2>>>::WIDTHS)
}

impl<P: Protocol, const WORDS: usize> Tonic<P, WORDS> {
    /// Creates a Tonic without flows.
    ///
    /// A protocol whose user state exceeds the space in the hardware (table 4) does not compile:
    /// ```compile_fail
    /// # use tonic_model::{*, logic::Logic};
    /// tonic_model::user_state!(pub struct TooLarge { a: 2056, });  // 257 bytes, with tokens 256 are allowed
    /// struct Large;
    /// impl Protocol for Large {
    ///     const NAME: &'static str = "large";
    ///     const CREDIT: Credit = Credit::Token;
    ///     type State<L: Logic> = TooLarge<L>;
    ///     fn initial<L: Logic>(&self, _first: L::Word) -> Initial<TooLarge<L>> {
    ///         Initial { state: TooLarge { a: L::word(0) }, window_size: 1, timer_period: 1, rate: 0, tokens: 0 }
    ///     }
    ///     fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &TooLarge<L>) -> (Decision<L>, TooLarge<L>) {
    ///         (Decision::keep(&input.flow), *state)
    ///     }
    ///     fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &TooLarge<L>) -> (Decision<L>, TooLarge<L>) {
    ///         (Decision::keep(&input.flow), *state)
    ///     }
    /// }
    /// let tonic = Tonic::<Large>::new(Large, &Parameters::default());
    /// ```
    ///
    /// # Errors
    /// Returns an error if a parameter describes no possible hardware.
    pub fn new(protocol: P, parameters: &Parameters) -> Result<Self, ParameterError> {
        const {
            assert!(
                user_state_bytes::<P>() <= P::CREDIT.user_state_limit(),
                "the user state is larger than table 4 allows for this credit scheme"
            );
            assert!(WORDS == 2 || WORDS == 4, "the window has 128 or 256 segments");
        }
        parameters.check()?;
        let latencies = &parameters.latencies;
        let updates = DelayLine::new(latencies.to_credit);
        Ok(Self {
            delivery: DeliveryEngine::new(protocol, parameters),
            credit: CreditEngine::new(P::CREDIT, parameters),
            to_credit: DelayLine::new(latencies.to_credit),
            updates: [updates.clone(), updates],
            from_credit: DelayLine::new(latencies.from_credit),
            usable_flows: parameters.usable_flows(),
        })
    }

    /// Returns how many bytes the model keeps per flow, without the ring buffer in the credit engine.
    #[must_use]
    pub const fn context_bytes() -> usize {
        DeliveryEngine::<P, WORDS>::CONTEXT_BYTES + CreditEngine::CONTEXT_BYTES
    }

    fn in_range(&self, flow: FlowId) -> Result<(), FlowError> {
        if flow.0 < self.usable_flows { Ok(()) } else { Err(FlowError::OutOfRange(flow)) }
    }

    /// Returns the segment after the last one, if `segments` segments start at `next`.
    fn data_end(next: Segment, segments: Option<u32>) -> Result<Option<Segment>, FlowError> {
        match segments {
            Some(count) if count > 1 << 30 => Err(FlowError::TooMany(count)),
            segments => Ok(segments.map(|count| next.plus(count))),
        }
    }

    /// Adds a flow, between two cycles. `now` is the next cycle. The first segment has the number `first`. The
    /// flow has `segments` segments to send, or an endless supply if `None`.
    ///
    /// # Errors
    /// Returns [`FlowError::OutOfRange`], [`FlowError::InUse`] or [`FlowError::TooMany`].
    pub fn open(
        &mut self,
        now: Cycle,
        flow: FlowId,
        first: Segment,
        segments: Option<u32>,
    ) -> Result<(), FlowError> {
        self.in_range(flow)?;
        let end = Self::data_end(first, segments)?;
        let initial = self.delivery.initial(first);
        let window = Window::new(first, initial.window_size, end);
        if !self.delivery.open(now, flow, &initial, window) {
            return Err(FlowError::InUse(flow));
        }
        self.credit.open(now, flow, &initial);
        Ok(())
    }

    /// Gives a flow more segments to send, between two cycles. `None` gives it an endless supply.
    ///
    /// # Errors
    /// Returns [`FlowError::OutOfRange`], [`FlowError::NotOpen`] or [`FlowError::TooMany`].
    pub fn supply(&mut self, flow: FlowId, segments: Option<u32>) -> Result<(), FlowError> {
        self.in_range(flow)?;
        let window = self.delivery.window(flow);
        let end = Self::data_end(window.data_end.unwrap_or(window.next_new), segments)?;
        if self.delivery.supply(flow, end) { Ok(()) } else { Err(FlowError::NotOpen(flow)) }
    }

    /// Removes a flow, between two cycles.
    ///
    /// # Errors
    /// Returns [`FlowError::OutOfRange`], or [`FlowError::Busy`] while segment addresses must still be generated
    /// or wait for credit.
    pub fn close(&mut self, flow: FlowId) -> Result<(), FlowError> {
        self.in_range(flow)?;
        if self.delivery.close(flow) { Ok(()) } else { Err(FlowError::Busy(flow)) }
    }

    /// Returns how often a segment of a flow's window was retransmitted. 3 means three times or more. Returns
    /// `None` if the segment is not in flight.
    pub fn retransmissions(&self, flow: FlowId, segment: Segment) -> Option<u8> {
        self.in_range(flow).ok()?;
        let window = self.delivery.window(flow);
        window.is_in_flight(segment).then(|| window.retransmissions(segment))
    }

    /// Returns the state of a flow between two cycles, or `None` if there is no flow with this number.
    pub fn status(&self, flow: FlowId) -> Option<FlowStatus<P::State<Plain<WORDS>>>> {
        self.in_range(flow).ok()?;
        let schedule = self.delivery.schedule(flow);
        let window = self.delivery.window(flow);
        schedule.open.then(|| FlowStatus {
            window_start: window.start,
            window_size: window.size,
            next_new: window.next_new,
            outstanding: schedule.outstanding,
            marked: window.marked.count(),
            acked: window.acked.count(),
            timer: (schedule.timer != Cycle::NEVER).then_some(schedule.timer),
            total_sent: window.total_sent,
            user: *self.delivery.user_state(flow),
        })
    }
}

impl<P: Protocol, const WORDS: usize> Block for Tonic<P, WORDS> {
    type Input = TonicInput;
    type Output = TonicOutput;
    type Next = TonicNext<P, WORDS>;

    #[inline(always)]
    fn evaluate(&self, now: Cycle, input: &TonicInput) -> (TonicOutput, TonicNext<P, WORDS>) {
        let packet = input.packet.filter(|packet| packet.flow.0 < self.usable_flows);
        let transmitted = self.from_credit.output().copied();
        let enqueue = self.to_credit.output().copied();
        let updates = [self.updates[0].output().copied(), self.updates[1].output().copied()];
        let next = TonicNext {
            delivery: self.delivery.evaluate(now, packet, transmitted),
            credit: self.credit.evaluate(now, enqueue, updates, input.link_ready),
        };
        let TonicNext { delivery, credit } = &next;
        let output = TonicOutput {
            select: delivery.selected,
            generate: delivery.generated(),
            credit_enqueue: credit.enqueue,
            credit_select: credit.selected,
            credit_transmit: credit.transmitted,
            transmit: credit.pins,
            decrement: delivery.decrement,
            incoming: delivery.record,
            timeout: delivery.timeout(),
        };
        (output, next)
    }

    #[inline(always)]
    fn commit(&mut self, now: Cycle, next: &TonicNext<P, WORDS>) {
        let TonicNext { delivery, credit } = next;
        self.delivery.commit(now, delivery);
        self.credit.commit(now, credit);
        self.to_credit.commit(delivery.generated());
        self.from_credit.commit(credit.transmitted.map(|address| address.flow));
        for (line, update) in self.updates.iter_mut().zip(delivery.credit_updates()) {
            line.commit(update);
        }
    }

    fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let lines_are_empty = self.to_credit.is_empty()
            && self.from_credit.is_empty()
            && self.updates.iter().all(DelayLine::is_empty);
        if !lines_are_empty {
            return Some(now);
        }
        match (self.delivery.next_event(now), self.credit.next_event(now)) {
            (Some(delivery), Some(credit)) => Some(delivery.min(credit)),
            (delivery, credit) => delivery.or(credit),
        }
    }
}
