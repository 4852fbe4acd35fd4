//! A host with a Tonic: its clock, its flows, and its use of the cable.

use std::collections::VecDeque;

use clocked::{Block, Clock, Cycle};
use fabric_model::Time;
use tonic_model::logic::Plain;
use tonic_model::protocols::{NewReno, RoceDcqcn};
use tonic_model::{
    ControlPacket, FlowError, FlowId, FlowStatus, Frequency, Kind, Protocol, Segment, Tonic, TonicInput,
};

use super::frame::{self, Contents, Message};
use super::sender::{Loss, LossKind, Sender, SenderLog};
use super::uplink::Uplink;

/// A flow to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The time at which the flow is opened.
    pub start: Time,
    /// The host to which it sends.
    pub destination: u16,
    /// The number of segments to send. The supply is endless if `None`.
    pub segments: Option<u32>,
}

/// The part of a flow's user state that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Visible {
    /// The congestion window, in segments.
    pub cwnd: Option<u64>,
    /// The slow start threshold, in segments.
    pub ssthresh: u64,
    /// True during fast recovery.
    pub in_recovery: bool,
    /// The rate, in the unit of user logic.
    pub rate: Option<u64>,
}

/// A protocol whose user state can be observed.
pub trait Look: Protocol {
    /// Returns the observable part of a flow's state.
    fn look<const WORDS: usize>(state: &Self::State<Plain<WORDS>>) -> Visible;
}

impl Look for NewReno {
    fn look<const WORDS: usize>(state: &Self::State<Plain<WORDS>>) -> Visible {
        Visible {
            cwnd: Some(state.cwnd.0),
            ssthresh: state.ssthresh.0,
            in_recovery: state.in_recovery.0 != 0,
            rate: None,
        }
    }
}

impl Look for RoceDcqcn {
    fn look<const WORDS: usize>(state: &Self::State<Plain<WORDS>>) -> Visible {
        Visible { rate: Some(state.rate.0), ..Visible::default() }
    }
}

/// Implements [`Look`] for protocols whose user state is not observed.
macro_rules! unseen {
    ($($protocol:ty),*) => {
        $(impl Look for $protocol {
            fn look<const WORDS: usize>(_state: &Self::State<Plain<WORDS>>) -> Visible {
                Visible::default()
            }
        })*
    };
}
unseen!(
    tonic_model::protocols::Reno,
    tonic_model::protocols::Sack,
    tonic_model::protocols::Ndp,
    tonic_model::protocols::Irn
);

/// A Tonic on the network. Cycle `c` lasts from `c` to `c + 1` periods of the clock. A packet is on the input pins
/// in the first cycle that begins when it arrives or later. A segment on the output pins in a cycle goes to the
/// cable at the end of the cycle.
pub struct TonicNic<P: Look, const WORDS: usize> {
    host: u16,
    clock: Clock<Tonic<P, WORDS>>,
    frequency: Frequency,
    segment_bytes: usize,
    flows: Vec<FlowPlan>,
    /// The flows to open, the next one first.
    starts: VecDeque<(Cycle, u16)>,
    inputs: VecDeque<(Time, ControlPacket)>,
    log: SenderLog,
    was_in_recovery: bool,
}

impl<P: Look, const WORDS: usize> TonicNic<P, WORDS> {
    /// Creates a host with a Tonic without flows. It opens the flows in `flows` at their start. It logs all events
    /// of the flow `watched`.
    #[must_use]
    pub fn new(
        host: u16,
        tonic: Tonic<P, WORDS>,
        frequency: Frequency,
        segment_bytes: usize,
        flows: Vec<FlowPlan>,
        watched: Option<u16>,
    ) -> Self {
        let log = SenderLog::new(flows.len(), watched);
        let mut nic = Self {
            host,
            clock: Clock::new(tonic),
            frequency,
            segment_bytes,
            flows,
            starts: VecDeque::new(),
            inputs: VecDeque::new(),
            log,
            was_in_recovery: false,
        };
        let mut starts: Vec<_> =
            (0..).zip(&nic.flows).map(|(flow, plan)| (nic.cycle_from(plan.start), flow)).collect();
        starts.sort_unstable();
        nic.starts = starts.into();
        nic
    }

    /// Returns Tonic's clock.
    pub const fn clock(&self) -> &Clock<Tonic<P, WORDS>> {
        &self.clock
    }

    /// Returns the first cycle that begins at `time` or later.
    fn cycle_from(&self, time: Time) -> Cycle {
        Cycle(time.0.div_ceil(self.frequency.period_ps()))
    }

    fn begin_of(&self, cycle: Cycle) -> Time {
        Time(cycle.0.saturating_mul(self.frequency.period_ps()))
    }

    /// Returns the first cycle with an input from outside.
    fn next_input(&self) -> Cycle {
        let input = self.inputs.front().map_or(Cycle::NEVER, |(time, _)| self.cycle_from(*time));
        self.starts.front().map_or(input, |(cycle, _)| input.min(*cycle))
    }

    fn open_flows(&mut self, now: Cycle) -> Result<(), FlowError> {
        while let Some((_, flow)) = self.starts.pop_front_if(|(cycle, _)| *cycle <= now) {
            let segments = self.flows[usize::from(flow)].segments;
            self.clock.block_mut().open(now, FlowId(flow), Segment(0), segments)?;
        }
        Ok(())
    }

    fn watched_status(&self) -> Option<FlowStatus<P::State<Plain<WORDS>>>> {
        self.clock.block().status(FlowId(self.log.watched?))
    }

    /// Logs the state of the watched flow after a cycle. `timed_out` is true if its timer expired in the cycle.
    fn watch(&mut self, time: Time, timed_out: bool) {
        let Some(status) = self.watched_status() else { return };
        let visible = P::look::<WORDS>(&status.user);
        if let Some(cwnd) = visible.cwnd {
            self.log.window(time, cwnd as f64);
            let kind = if timed_out {
                Some(LossKind::Timeout)
            } else {
                (visible.in_recovery && !self.was_in_recovery).then_some(LossKind::FastRetransmit)
            };
            let (segment, ssthresh) = (status.window_start.0, visible.ssthresh);
            self.log.losses.extend(kind.map(|kind| Loss { picoseconds: time.0, kind, segment, ssthresh }));
            self.was_in_recovery = visible.in_recovery;
        }
        if let Some(rate) = visible.rate {
            self.log.rate(time, self.frequency.bits_per_second(rate) as f64);
        }
    }
}

impl<P: Look, const WORDS: usize> Sender for TonicNic<P, WORDS> {
    fn next_event(&self) -> Option<Time> {
        let now = self.clock.now();
        let event = self.clock.block().next_event(now).unwrap_or(Cycle::NEVER);
        let event = event.min(self.next_input().max(now));
        (event != Cycle::NEVER).then(|| self.begin_of(event))
    }

    fn receive(&mut self, now: Time, packet: ControlPacket, _uplink: &mut Uplink) {
        if packet.kind == Kind::Cnp {
            self.log.notification(now, packet.flow.0);
        }
        self.inputs.push_back((now, packet));
    }

    fn run(&mut self, end: Time, uplink: &mut Uplink) {
        let end = self.cycle_from(end);
        loop {
            self.clock.skip_idle(self.next_input().min(end));
            let now = self.clock.now();
            if now >= end {
                break;
            }
            self.open_flows(now).expect("the flows of a plan have different numbers");
            let begin = self.begin_of(now);
            let over = self.begin_of(now + 1);
            let packet = self.inputs.pop_front_if(|(time, _)| *time <= begin).map(|(_, packet)| packet);
            // The frame goes to the cable at the end of this cycle. A cable that becomes free within the next
            // cycle counts as ready. So no rate is lost if frames do not last whole cycles.
            let link_ready = uplink.free() < self.begin_of(now + 2);
            let output = self.clock.step(&TonicInput { packet, link_ready });
            if let Some(address) = output.transmit {
                let (flow, segment) = (address.flow.0, address.segment.0);
                let contents = Contents {
                    source: self.host,
                    destination: self.flows[address.flow.index()].destination,
                    flow,
                    marked: false,
                    message: Message::Data { segment, stamp: now.0 as u32 },
                };
                let mut buffer = uplink.buffer();
                frame::write(&mut buffer, &contents, self.segment_bytes);
                uplink.send(over, buffer);
                self.log.transmission(over, flow, segment, address.retransmission);
            }
            self.log.timeouts += u64::from(output.timeout.is_some());
            let timed_out = output.timeout.is_some_and(|flow| self.log.watches(flow.0));
            let informed = output.incoming.is_some_and(|of| self.log.watches(of.packet.flow.0));
            if timed_out || informed {
                self.watch(over, timed_out);
            }
        }
        // A rate can also change without a packet. Such a change is logged at the end of the computed time.
        if let Some(status) = self.watched_status()
            && let Some(rate) = P::look::<WORDS>(&status.user).rate
        {
            self.log.rate(self.begin_of(end), self.frequency.bits_per_second(rate) as f64);
        }
    }

    fn log(&self) -> &SenderLog {
        &self.log
    }

    fn cycles(&self) -> u64 {
        self.clock.evaluated()
    }
}
