//! The data delivery engine: decides which segment is next (section 3.2).

mod context;
mod decided;
mod generation;
mod incoming;
mod merge;

use clocked::{Cycle, DelayLine, Fifo, Memory};

use super::logic::{Plain, Value};
use super::packet::{ControlPacket, FlowId, Segment, SegmentAddress};
use super::parameters::{Parameters, Rules};
use super::protocol::{Initial, Protocol};

pub use decided::IncomingRecord;

pub(super) use context::{Schedule, Window};
pub(super) use decided::CreditUpdate;
use decided::{State, UserUpdate};
use generation::Generation;
use incoming::Acknowledged;

/// The results of a cycle: the outputs of the engine, and the changes that it takes over at the clock edge.
pub(super) struct DeliveryNext<P: Protocol, const WORDS: usize> {
    packet: Option<ControlPacket>,
    pub(super) selected: Option<FlowId>,
    generation: Option<Generation>,
    pub(super) decrement: Option<FlowId>,
    acknowledged: Option<Acknowledged>,
    incoming: Option<UserUpdate<P, WORDS>>,
    pub(super) record: Option<IncomingRecord>,
    /// The flag is true if the retransmission timer has expired.
    periodic: Option<(UserUpdate<P, WORDS>, bool)>,
    /// The finished flow whose retransmission timer expired.
    timer_off: Option<FlowId>,
}

impl<P: Protocol, const WORDS: usize> DeliveryNext<P, WORDS> {
    /// Returns the segment address that was generated.
    pub(super) fn generated(&self) -> Option<SegmentAddress> {
        self.generation.as_ref()?.address
    }

    /// Returns the flow whose retransmission timer fires.
    pub(super) fn timeout(&self) -> Option<FlowId> {
        self.periodic.as_ref().filter(|(_, expired)| *expired).map(|(update, _)| update.flow)
    }

    /// Returns new parameters for the credit engine, from Incoming and from Periodic Updates.
    #[inline(always)]
    pub(super) fn credit_updates(&self) -> [Option<CreditUpdate>; 2] {
        let periodic = self.periodic.as_ref().map(|(update, _)| update);
        [self.incoming.as_ref(), periodic].map(|update| update.and_then(decided::credit_update))
    }
}

/// The engine. `Self` is its state.
pub(super) struct DeliveryEngine<P: Protocol, const WORDS: usize> {
    protocol: P,
    rules: Rules,
    flows: u16,
    stop_at: u8,
    restart_below: u8,
    /// Four modules use each of the two groups of fixed state. Each module has a read and a write port there.
    windows: Memory<Window<WORDS>, 4, 4>,
    schedules: Memory<Schedule, 4, 4>,
    /// The programmable stage of Incoming and Periodic Updates use the user state.
    users: Memory<State<P, WORDS>, 2, 2>,
    active_set: Fifo<FlowId>,
    /// The flow in context lookup, the stage after the selection from the active set. `processing` is the next
    /// stage.
    lookup: Option<FlowId>,
    processing: Option<FlowId>,
    packets: DelayLine<ControlPacket>,
    acknowledged: Option<Acknowledged>,
    /// No retransmission timer and no user timer expires before this cycle.
    no_timer_before: Cycle,
    /// The cycle of the last search through all timers, which set `no_timer_before`.
    looked_at_timers: Cycle,
}

impl<P: Protocol, const WORDS: usize> DeliveryEngine<P, WORDS> {
    /// The size of a flow's contexts in bytes.
    pub(super) const CONTEXT_BYTES: usize =
        size_of::<Window<WORDS>>() + size_of::<Schedule>() + size_of::<State<P, WORDS>>();

    pub(super) fn new(protocol: P, parameters: &Parameters) -> Self {
        let depth = usize::from(parameters.flows);
        let initial = protocol.initial::<Plain<WORDS>>(Value(0));
        Self {
            rules: parameters.rules,
            flows: parameters.flows,
            stop_at: parameters.stop_at(),
            restart_below: parameters.restart_below(),
            windows: Memory::new(depth, &Window::new(Segment(0), 0, Some(Segment(0)))),
            schedules: Memory::new(depth, &Schedule::CLOSED),
            users: Memory::new(depth, &initial.state),
            active_set: Fifo::new(depth),
            lookup: None,
            processing: None,
            packets: DelayLine::new(parameters.latencies.incoming),
            acknowledged: None,
            no_timer_before: Cycle::NEVER,
            looked_at_timers: Cycle::ZERO,
            protocol,
        }
    }

    /// Computes the logic of a cycle. `transmitted` is the flow of which the credit engine has sent a segment.
    #[inline(always)]
    pub(super) fn evaluate(
        &self,
        now: Cycle,
        packet: Option<ControlPacket>,
        transmitted: Option<FlowId>,
    ) -> DeliveryNext<P, WORDS> {
        let mut windows = self.windows.read_ports();
        let mut schedules = self.schedules.read_ports();
        let mut users = self.users.read_ports();
        let read = "each module has its own port";

        let generation = self.processing.map(|flow| {
            let window = windows.read(flow.index()).expect(read);
            generation::generate(flow, window)
        });
        let acknowledged = self.packets.output().map(|packet| {
            let window = windows.read(packet.flow.index()).expect(read);
            incoming::acknowledge(window, packet, self.rules)
        });
        let (mut incoming, mut record) = (None, None);
        if let Some(acknowledged) = &self.acknowledged {
            let flow = acknowledged.packet.flow;
            let window = windows.read(flow.index()).expect(read);
            let schedule = schedules.read(flow.index()).expect(read);
            let state = users.read(flow.index()).expect(read);
            if schedule.open {
                let input = incoming::incoming(now, acknowledged, window, schedule);
                let (decision, state) = self.protocol.incoming(&input, state);
                record = Some(decided::record(acknowledged, window, &decision));
                incoming = Some(UserUpdate { flow, decision, state });
            }
        }
        let (periodic, timer_off) = self.visit(now, |flow| {
            let window = windows.read(flow.index()).expect(read);
            let schedule = schedules.read(flow.index()).expect(read);
            (window, schedule, users.read(flow.index()).expect(read))
        });
        DeliveryNext {
            packet,
            selected: self.active_set.head().copied(),
            generation,
            decrement: transmitted,
            acknowledged,
            incoming,
            record,
            periodic,
            timer_off,
        }
    }

    /// Returns the flow that Periodic Updates visits in cycle `now`. It visits each flow once in as many cycles as
    /// there are flows. The phase is that of the published hardware. It has no other meaning.
    const fn visited(&self, now: Cycle) -> FlowId {
        let flows = self.flows as u64;
        FlowId(((now.0 + flows - 3 % flows) % flows) as u16)
    }

    /// Performs Periodic Updates. A packet of the flow in either stage of Incoming postpones a timeout (section
    /// 3.4).
    #[inline(always)]
    fn visit<'a>(
        &'a self,
        now: Cycle,
        mut read: impl FnMut(FlowId) -> (&'a Window<WORDS>, &'a Schedule, &'a State<P, WORDS>),
    ) -> (Option<(UserUpdate<P, WORDS>, bool)>, Option<FlowId>) {
        if now < self.no_timer_before {
            return (None, None);
        }
        let flow = self.visited(now);
        let (window, schedule, state) = read(flow);
        let has_packet = |packet: Option<&ControlPacket>| packet.is_some_and(|packet| packet.flow == flow);
        let has_packet =
            has_packet(self.packets.output()) || has_packet(self.acknowledged.as_ref().map(|of| &of.packet));
        let expired = schedule.timer <= now && !has_packet;
        if expired && window.is_finished() {
            return (None, Some(flow));
        }
        let due = schedule.open && self.protocol.due::<Plain<WORDS>>(state).0 <= now.0;
        if !expired && !due {
            return (None, None);
        }
        let input = incoming::periodic(now, expired, window, schedule);
        let (decision, state) = self.protocol.periodic(&input, state);
        (Some((UserUpdate { flow, decision, state }, expired)), None)
    }

    /// Returns the first cycle from `now` on in which something happens without a packet or a transmission.
    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let busy = self.lookup.is_some()
            || self.processing.is_some()
            || self.acknowledged.is_some()
            || !self.packets.is_empty()
            || !self.active_set.is_empty();
        if busy {
            return Some(now);
        }
        if self.no_timer_before == Cycle::NEVER {
            return None;
        }
        if self.no_timer_before > now {
            return Some(self.no_timer_before);
        }
        // The first visit of a flow at or after the expiry of its timer.
        let flows = u64::from(self.flows);
        let visit = |flow: usize| {
            let earliest = self.expiry(flow).max(now).0;
            let phase = (flow as u64 + 3) % flows;
            Cycle(earliest) + (phase + flows - earliest % flows) % flows
        };
        let armed = (0..usize::from(self.flows)).filter(|flow| self.expiry(*flow) != Cycle::NEVER);
        armed.map(visit).min()
    }

    /// Returns the first cycle in which Periodic Updates has something to do for a flow.
    fn expiry(&self, flow: usize) -> Cycle {
        let schedule = self.schedules.peek(flow);
        if !schedule.open {
            return Cycle::NEVER;
        }
        schedule.timer.min(Cycle(self.protocol.due::<Plain<WORDS>>(self.users.peek(flow)).0))
    }

    /// Returns true if all timers must be searched again: a timer may expire, and the last search was at least one
    /// round of visits ago.
    #[inline(always)]
    fn timer_bound_is_old(&self, now: Cycle) -> bool {
        self.no_timer_before <= now && now - self.looked_at_timers >= self.flows.into()
    }

    /// Searches all timers for the earliest expiry.
    fn raise_timer_bound(&mut self, now: Cycle) {
        let earliest = (0..usize::from(self.flows)).map(|flow| self.expiry(flow)).min();
        self.no_timer_before = earliest.unwrap_or(Cycle::NEVER);
        self.looked_at_timers = now;
    }

    /// Returns the initial state of a flow.
    pub(super) fn initial(&self, first: Segment) -> Initial<State<P, WORDS>> {
        self.protocol.initial::<Plain<WORDS>>(Value(first.0.into()))
    }

    /// Adds a flow with the given window. Returns false if there is a flow with this number already.
    pub(super) fn open(
        &mut self,
        now: Cycle,
        flow: FlowId,
        initial: &Initial<State<P, WORDS>>,
        window: Window<WORDS>,
    ) -> bool {
        let schedule = self.schedules.poke(flow.index());
        if schedule.open {
            return false;
        }
        *schedule = Schedule { open: true, timer_period: initial.timer_period, ..Schedule::CLOSED };
        *self.windows.poke(flow.index()) = window;
        *self.users.poke(flow.index()) = initial.state;
        self.no_timer_before = self.no_timer_before.min(self.expiry(flow.index()).max(now));
        self.wake(flow);
        true
    }

    /// Sets the end of a flow's data to `end`. Returns false if there is no such flow.
    pub(super) fn supply(&mut self, flow: FlowId, end: Option<Segment>) -> bool {
        let open = self.schedules.peek(flow.index()).open;
        if open {
            self.windows.poke(flow.index()).data_end = end;
            self.wake(flow);
        }
        open
    }

    /// Removes a flow. Returns false if it is in use: it has segments to send, or segments that wait for credit.
    pub(super) fn close(&mut self, flow: FlowId) -> bool {
        let schedule = self.schedules.poke(flow.index());
        let free = !schedule.active && schedule.outstanding == 0;
        if free {
            *schedule = Schedule::CLOSED;
            *self.windows.poke(flow.index()) = Window::new(Segment(0), 0, Some(Segment(0)));
        }
        free
    }

    /// Puts a flow into the active set, between two cycles, if it has something to send.
    fn wake(&mut self, flow: FlowId) {
        let idle = self.windows.peek(flow.index()).is_idle(self.rules);
        let schedule = self.schedules.poke(flow.index());
        schedule.idle = idle;
        if !idle && !schedule.stopped && !schedule.active {
            schedule.active = true;
            self.active_set.commit(false, [flow]).expect("the set has space for every flow");
        }
    }

    pub(super) fn window(&self, flow: FlowId) -> &Window<WORDS> {
        self.windows.peek(flow.index())
    }

    pub(super) fn schedule(&self, flow: FlowId) -> &Schedule {
        self.schedules.peek(flow.index())
    }

    pub(super) fn user_state(&self, flow: FlowId) -> &State<P, WORDS> {
        self.users.peek(flow.index())
    }
}
