//! The fabric window of Swift, computed by the datapath's own code, for user logic: the fixed-point function of
//! `transport-common` as one box, and the conversion between cycles and ticks.

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::nic_time::{DelaySelect, NicTime};
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift;
use transport_common::units::{FalconTime, Fcwnd, InterPacketGap, Picoseconds, Ticks};

use crate::logic::{Flag, Logic, Word};
use crate::parameters::{Frequency, RATE_CYCLES};
use crate::protocol::{Decision, Incoming, View};

/// The configuration of a fabric window.
#[derive(Clone, Copy, Debug)]
pub struct SwiftWindow {
    /// The parameters of Swift, in the datapath's form for a connection.
    pub parameters: Prepared,
    /// The initial fabric window, in packets.
    pub initial_window: u16,
    /// The retransmission timeout before the first measurement, in cycles.
    pub initial_rto: u64,
    /// The line rate, in bytes per [`RATE_CYCLES`].
    pub rate: u32,
    /// The bytes of a segment.
    pub segment_bytes: u32,
    /// The frequency of Tonic's clock.
    pub clock: Frequency,
}

/// The part that user logic keeps: fcwnd (21 bits), its time marker, the smoothed delay and RTT (24 bits each).
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<L: Logic> {
    pub(super) fcwnd: L::Word,
    pub(super) marker: L::Word,
    pub(super) delay: L::Word,
    pub(super) rtt: L::Word,
}

/// The result of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steered<L: Logic> {
    pub(super) held: Held<L>,
    /// The number of segments that may be in flight (D-28).
    pub(super) window: L::Word,
    /// The line rate, or one segment per inter-packet gap.
    pub(super) rate: L::Word,
    /// The retransmission timeout, in cycles.
    pub(super) timeout: L::Word,
}

impl<L: Logic> Steered<L> {
    /// Limits the window to `most` segments.
    pub(super) fn capped(self, most: u32) -> Self {
        Self { window: self.window.min(L::word(most.into())), ..self }
    }

    /// Returns a decision that sets window, pace and timeout if the event applies. It changes nothing else.
    pub(super) fn decision(&self, flow: &View<L>, applies: L::Flag) -> Decision<L> {
        Decision {
            window_size: applies.choose(self.window, flow.window_size),
            timer_period: applies.choose(self.timeout, flow.timer_period),
            set_rate: applies,
            rate: self.rate,
            ..Decision::keep(flow)
        }
    }
}

impl SwiftWindow {
    /// Returns Swift with the defaults of D-78, an initial window of 32 segments and an initial timeout of 1 ms.
    #[must_use]
    pub const fn new(clock: Frequency, bits_per_second: u64, segment_bytes: u32) -> Self {
        Self {
            parameters: Prepared::DEFAULT,
            initial_window: 32,
            initial_rto: clock.cycles(1_000_000),
            rate: clock.rate(bits_per_second) as u32,
            segment_bytes,
            clock,
        }
    }

    /// Returns the initial state, before any measurement.
    pub(super) fn initial<L: Logic>(&self) -> Held<L> {
        let zero = L::word(0);
        let fcwnd = L::word(Fcwnd::from_packets(self.initial_window.into()).0.into());
        Held { fcwnd, marker: zero, delay: zero, rtt: zero }
    }

    /// Returns the time of a cycle in the datapath's ticks. The 64-bit count of picoseconds wraps, and the ticks
    /// with it.
    pub(super) const fn ticks(&self, cycle: u64) -> FalconTime {
        Picoseconds(cycle.wrapping_mul(self.clock.period_ps())).ticks()
    }

    /// Returns the state after an acknowledgment, whose data is the cycle in which its segment was sent. Other
    /// packets do not change the state. `shows_loss` says that its bitmap shows loss by the out-of-order distance.
    pub(super) fn acknowledged<L: Logic>(
        &self,
        input: &Incoming<L>,
        held: &Held<L>,
        shows_loss: L::Flag,
    ) -> Steered<L> {
        let event = [input.flow.now, input.data, input.newly_acked, shows_loss.word(), L::word(0)];
        let steered = self.steered(held, event);
        let keep = |new, old| input.is_ack.choose(new, old);
        let new = steered.held;
        let held = Held {
            fcwnd: keep(new.fcwnd, held.fcwnd),
            marker: keep(new.marker, held.marker),
            delay: keep(new.delay, held.delay),
            rtt: keep(new.rtt, held.rtt),
        };
        Steered { held, ..steered }
    }

    /// Returns the state after the `count`-th timeout in a row. `count` is at least 1.
    pub(super) fn timed_out<L: Logic>(&self, now: L::Word, held: &Held<L>, count: L::Word) -> Steered<L> {
        self.steered(held, [now, now, L::word(0), L::word(0), count])
    }

    fn steered<L: Logic>(&self, held: &Held<L>, [now, sent, acked, lost, count]: [L::Word; 5]) -> Steered<L> {
        let inputs = [held.fcwnd, held.marker, held.delay, held.rtt, now, sent, acked, lost, count];
        let [fcwnd, marker, delay, rtt, window, rate, timeout] = L::core(inputs, |inputs| self.run(inputs));
        Steered { held: Held { fcwnd, marker, delay, rtt }, window, rate, timeout }
    }

    /// The box. The receiver answers immediately (T2 = T3), so the fabric delay is the round-trip time. Tonic has
    /// no NIC window and no choice of paths.
    fn run(&self, [fcwnd, marker, delay, rtt, now, echo, acked, lost, count]: [u64; 9]) -> [u64; 7] {
        let sent = now.wrapping_sub(now.wrapping_sub(echo) & u64::from(u32::MAX));
        let time = |cycle| NicTime::from_falcon_time(self.ticks(cycle));
        let event = Event {
            event_type: if count == 0 { EventType::ACK } else { EventType::RETRANSMIT },
            t1: time(sent),
            t4: time(now),
            fcwnd: Fcwnd(fcwnd as u32),
            fabric_window_time_marker: NicTime(marker as u32),
            base_delay_target: self.parameters.parameters().base_delay_target,
            delay_select: DelaySelect::Fabric.code(),
            delay_state: Ticks(delay as u32),
            rtt_state: Ticks(rtt as u32),
            num_packets_acked: acked as u16,
            eack: u8::from(lost != 0),
            eack_drop: u8::from(lost != 0),
            retransmit_count: count as u8,
            ..Event::default()
        };
        let mut outcome = Outcome::default();
        swift(&event, &mut EngineState::default(), &self.parameters, &mut outcome);
        [
            outcome.fcwnd.0.into(),
            outcome.fabric_window_time_marker.0.into(),
            outcome.delay_state.0.into(),
            outcome.rtt_state.0.into(),
            outcome.fcwnd.packets().into(),
            self.paced(outcome.inter_packet_gap),
            self.clock.cycles(outcome.retransmit_timeout.as_nanos()),
        ]
    }

    /// Returns the rate of one segment per `gap` (D-63), or the line rate if there is no gap.
    fn paced(&self, gap: InterPacketGap) -> u64 {
        let cycles = self.clock.cycles(gap.as_nanos());
        let paced = (u64::from(self.segment_bytes) * RATE_CYCLES).checked_div(cycles);
        paced.unwrap_or(u64::MAX).clamp(1, self.rate.into())
    }
}
