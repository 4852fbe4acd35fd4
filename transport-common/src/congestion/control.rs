//! Congestion control of one connection in the datapath: the windows and the timeout in force, the events that it
//! raises, the results that it applies, pacing (10.3.5, 10.6).

use crate::wire::nack::NackCode;
use bytemuck::{Pod, Zeroable};
use core::mem::offset_of;

use super::admission::Verdict;
use super::algorithm::{Algorithm, EngineState};
use super::event::{Direction, Event, EventType, RetransmitReason};
use super::nic_time::{DelayCode, Delays, NicTime};
use super::path::{EndedWindow, PathMeasure, Sample};
use super::queues::AdmissionView;
use super::result::Outcome;
use super::settings::{Placement, Settings};
use super::window::inter_packet_gap;
use crate::packet_delivery::{Cause, Gate, PathClock, PathTimes, Retransmission};
use crate::units::{Deadline, FalconTime, Fcwnd, InterPacketGap, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::packet::Packet;

/// Largest count of packets acknowledged between two congestion events; the count saturates here (F-10.6.2.1-9,
/// D-75).
const MOST_ACKED: u16 = 1023;
/// The datapath gives up a queued event without a result after this time: the engine stalls or is gone.
const RESULT_PATIENCE: Ticks = Ticks::from_nanos(16_000_000);
/// Length of the time window over which the smallest delays are taken.
const SMALLEST_WINDOW: Ticks = Ticks(1 << 23);
/// Initial value of the engine's smoothed delay and RTT (D-78).
const INITIAL_DELAY: Ticks = Ticks::from_nanos(25_000);

/// Windows and timeouts, as the rate update engine sets them, and the state for pacing and measurements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Congestion {
    /// Fabric window.
    pub fcwnd: Fcwnd,
    /// NIC window, packets.
    pub ncwnd: u32,
    /// Retransmission timeout.
    pub rto: Ticks,
    /// Round trip time of the last acknowledgement.
    pub rtt: Ticks,
    /// Smallest round trip time seen; 0 before the first.
    pub min_rtt: Ticks,
    /// Inter-packet gap while the fabric window is below 1 (F-10.6.2.1-7).
    pub inter_packet_gap: InterPacketGap,
    /// See [`Event`].
    pub fabric_window_time_marker: NicTime,
    /// See [`Event`].
    pub nic_window_time_marker: NicTime,
    /// Target delay before scaling (D-77).
    pub base_delay_target: Ticks,
    /// Smoothed delay, kept for the engine.
    pub delay_state: Ticks,
    /// Smoothed RTT, kept for the engine.
    pub rtt_state: Ticks,
    /// Metadata that ACK and NACK carry to the peer's engine (D-07).
    pub cc_metadata: u32,
    /// Time when the last event was raised.
    pub last_event: FalconTime,
    /// Packets acknowledged since the last event, saturating at 1023 (D-75).
    pub packets_acked: u16,
    /// The last change of the NIC window.
    pub ncwnd_direction: Direction,
    /// The delay that the engine uses, a [`DelaySelect`](super::nic_time::DelaySelect).
    pub delay_select: DelayCode,
    /// For the engine's own use.
    pub cc_opaque: u8,
    /// 1: an event waits for its result (D-73).
    pub outstanding: u8,
    /// 1: the next packet had to wait for its departure time.
    pub waited: u8,
    /// Always 0.
    pub reserved: [u8; 5],
    /// A packet waits for its departure until this time (F-10.3.5-1).
    pub pacing: Deadline,
    /// Departure time of the last reliable packet; 0 before the first. If that packet had to wait: the time when it
    /// was due, unless it was late by a full gap or more (D-63).
    pub last_departure: Picoseconds,
    /// State of the algorithm that the queues do not carry.
    pub engine: EngineState,
    /// Full, fabric, forward and reverse delay (F-10.1-3, F-10.1-4).
    pub delays: [DelayRecord; 4],
    /// What the connection has measured of its path.
    pub path: PathMeasure,
    /// Start of the current time window of the smallest delays.
    pub delays_since: FalconTime,
    /// T1 of the last acknowledgement. An acknowledgement that repeats it measures nothing new.
    pub last_t1: FalconTime,
}

/// Values of one of the four delays, for people.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DelayRecord {
    /// Delay of the last acknowledgement.
    pub last: Ticks,
    /// Smoothed with a weight of 1/8.
    pub smoothed: Ticks,
    /// Smallest in the current time window of about a second.
    pub smallest: Ticks,
    /// Smallest in the previous time window.
    pub smallest_before: Ticks,
}

impl DelayRecord {
    /// Returns the smallest delay of the last one to two time windows.
    #[inline(always)]
    pub fn windowed_minimum(&self) -> Ticks {
        self.smallest.min(self.smallest_before)
    }
}

/// Initial values of a connection's congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Fabric window.
    pub fcwnd: Fcwnd,
    /// NIC window, packets.
    pub ncwnd: u32,
    /// Retransmission timeout.
    pub rto: Ticks,
}

/// Result of the admission of an event to the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Whether it may be published, and why.
    pub verdict: Verdict,
    /// An earlier event was given up, because its result did not come in time.
    pub lost: bool,
}

/// Effects of a result on other parts of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The result was not legal and had to be repaired.
    pub repaired: bool,
    /// The previous timeout.
    pub old_rto: Ticks,
    /// The connection has to change its path (D-80).
    pub randomize_path: bool,
}

impl PathClock for Congestion {
    #[inline(always)]
    fn rto(&self) -> Ticks {
        self.rto
    }

    /// They are of the delay from T1 to T4.
    #[inline(always)]
    fn times(&self, now: FalconTime) -> PathTimes {
        let [full, ..] = &self.delays;
        let (min_rtt, smoothed_rtt) = (full.windowed_minimum(), full.smoothed);
        PathTimes { now, min_rtt, smoothed_rtt, rto: self.rto }
    }
}

impl Congestion {
    /// Creates the state of a new connection, without measurements.
    pub fn new(start: Start, settings: &Settings) -> Self {
        let set = settings.prepared.parameters();
        Self {
            fcwnd: start.fcwnd,
            ncwnd: start.ncwnd,
            rto: start.rto,
            base_delay_target: set.base_delay_target,
            delay_select: set.delay_select.code(),
            delay_state: INITIAL_DELAY,
            rtt_state: INITIAL_DELAY,
            path: PathMeasure::new(start.rto),
            ..Self::default()
        }
    }

    /// Returns the limits of outstanding packets (D-27, D-28).
    #[inline(always)]
    pub fn gate(&self) -> Gate {
        let fabric = if self.path.is_draining() { 1 } else { self.fcwnd.packets() };
        Gate { fabric, ncwnd: self.ncwnd }
    }

    /// Counts an acknowledged packet.
    #[inline(always)]
    pub fn packet_acknowledged(&mut self) {
        self.packets_acked =
            if self.packets_acked < MOST_ACKED { self.packets_acked + 1 } else { MOST_ACKED };
    }

    /// Takes a sample of the round trip time from an acknowledgement (F-9.2.3-4). Returns whether it measures
    /// anything. It does not if an earlier acknowledgement had the same times, or if the peer kept the packet longer
    /// than the network could have: then it measures the peer's ULP. A sample of more than half the wrap is not a
    /// round trip time, and is not stored.
    #[inline(always)]
    pub fn sample_rtt(&mut self, packet: &Packet) -> bool {
        let t1 = packet.t1;
        let rtt = packet.arrival.ticks().since(t1);
        let kept = packet.iv.ticks().since(packet.t2);
        let is_new = t1 != self.last_t1 && (kept <= self.rto || kept.0 > u32::MAX / 2);
        self.last_t1 = t1;
        if is_new && rtt.0 < u32::MAX / 2 {
            self.rtt = rtt;
            if self.min_rtt.0 == 0 || rtt < self.min_rtt {
                self.min_rtt = rtt;
            }
        }
        is_new
    }

    /// How long ago a packet must have left to count as lost by an EACK that measured `rtt` (F-9.1.4-2).
    #[inline(always)]
    pub fn loss_age(&self, rtt: Ticks, settings: &Settings) -> Ticks {
        if settings.prepared.parameters().adaptive_timeout != 0 { self.path.loss_age(rtt) } else { rtt }
    }

    /// Describes an acknowledgement as an event, and records its delays (F-10.1-3, F-10.6.2.1-1).
    #[inline(always)]
    pub fn on_acknowledgement(
        &mut self,
        event: &mut Event,
        packet: &Packet,
        eack_drop: bool,
        (settings, now): (&Settings, FalconTime),
    ) {
        event.t1 = NicTime::from_falcon_time(packet.t1);
        event.t2 = NicTime::from_falcon_time(packet.t2);
        event.t3 = NicTime::from_picoseconds(packet.iv);
        event.t4 = NicTime::from_picoseconds(packet.arrival);
        let nack = packet.kind == PacketType::Nack;
        event.event_type = if nack { EventType::NACK } else { EventType::ACK };
        event.nack_code = if nack { packet.nack_code } else { NackCode::NONE };
        event.retransmit_count = 0;
        event.retransmit_reason = RetransmitReason::TIMEOUT;
        event.cc_metadata = packet.cc_metadata;
        event.ecn_accumulated = packet.ecn_count;
        event.forward_hops = packet.forward_hops;
        event.rx_buffer_level = packet.rx_buffer_level;
        event.eack = (packet.kind == PacketType::Eack) as u8;
        event.eack_drop = eack_drop as u8;
        let delays = event.delays();
        self.record_delays(&delays, packet.forward_hops, settings, now);
    }

    /// Describes a retransmission as an event (F-10.6.2.1-1, D-68).
    #[inline(always)]
    pub fn on_retransmission(&self, event: &mut Event, retransmission: &Retransmission) {
        let attempts = retransmission.attempts;
        event.t1 = NicTime(0);
        event.t2 = NicTime(0);
        event.t3 = NicTime(0);
        event.t4 = NicTime(0);
        event.event_type = EventType::RETRANSMIT;
        event.nack_code = NackCode::NONE;
        event.retransmit_count = if attempts > 7 { 7 } else { attempts as u8 };
        let early = matches!(retransmission.cause, Cause::Early);
        event.retransmit_reason = if early { RetransmitReason::EARLY } else { RetransmitReason::TIMEOUT };
        event.cc_metadata = 0;
        event.ecn_accumulated = 0;
        event.forward_hops = 0;
        event.rx_buffer_level = 0;
        event.eack = 0;
        event.eack_drop = 0;
    }

    /// Adds the values that the datapath keeps for the engine (F-10.6.2.2-5).
    #[inline(always)]
    pub fn describe(&self, event: &mut Event, settings: &Settings, connection_id: u32) {
        // All reads together and all writes together, in the order of both structs: so the compiler moves pairs of
        // words.
        let (gap, fabric_marker, nic_marker) =
            (self.inter_packet_gap, self.fabric_window_time_marker, self.nic_window_time_marker);
        let (base_delay_target, delay_state, rtt_state) =
            (self.base_delay_target, self.delay_state, self.rtt_state);
        let (acked, direction, delay_select, opaque) =
            (self.packets_acked, self.ncwnd_direction, self.delay_select, self.cc_opaque);
        event.inter_packet_gap = gap;
        event.fabric_window_time_marker = fabric_marker;
        event.nic_window_time_marker = nic_marker;
        event.base_delay_target = base_delay_target;
        event.delay_state = delay_state;
        event.rtt_state = rtt_state;
        event.connection_id = connection_id;
        event.fcwnd = self.fcwnd;
        event.retransmit_timeout = self.rto;
        event.ncwnd = self.ncwnd as u16;
        event.num_packets_acked = acked;
        event.ncwnd_direction = direction;
        event.delay_select = delay_select;
        event.cc_opaque = opaque;
        event.event_queue_select = (settings.event_queue & 3) as u8;
        event.generation = 0;
        event.reserved = 0;
    }

    /// Records that an event is on its way to the algorithm.
    #[inline(always)]
    pub fn raised(&mut self, now: FalconTime) {
        self.packets_acked = 0; // D-75
        self.last_event = now;
    }

    /// Runs the algorithm in force. The caller has to [apply](Self::apply) the result.
    #[inline(always)]
    pub fn update(
        &mut self,
        event: &mut Event,
        settings: &Settings,
        now: Picoseconds,
        outcome: &mut Outcome,
    ) {
        event.stamp(NicTime::from_picoseconds(now));
        self.raised(now.ticks());
        settings.algorithm().update(event, &mut self.engine, &settings.prepared, outcome);
    }

    /// Applies the admission policy of the event queues (D-73). The caller has to publish an admitted event.
    #[inline(always)]
    pub fn admit(&mut self, queues: &AdmissionView, settings: &Settings, now: FalconTime) -> Admitted {
        let since = now.since(self.last_event);
        // This reports the loss once, even if no other event is admitted.
        let lost = self.outstanding != 0 && since > RESULT_PATIENCE;
        if lost {
            self.outstanding = 0;
        }
        let occupancy = queues.occupancy[settings.event_queue as usize & 3];
        let acked = self.packets_acked as u32;
        let verdict = queues.admission.judge(occupancy, since, acked, self.outstanding != 0);
        if verdict.is_admitted() {
            self.raised(now);
            self.outstanding = 1;
        }
        Admitted { verdict, lost }
    }

    /// Returns whether a result from the queues is expected (D-73). After this call none is expected.
    #[inline(always)]
    pub fn expects_result(&mut self, settings: &Settings) -> bool {
        let expected = settings.placement == Placement::User as u32 && self.outstanding != 0;
        if expected {
            self.outstanding = 0;
        }
        expected
    }

    /// Applies a result from any source. Repairs illegal values (F-10.6.2.2-5).
    #[inline(always)]
    pub fn apply(&mut self, outcome: &mut Outcome, settings: &Settings) -> Applied {
        let set = settings.prepared.parameters();
        let repaired = !outcome.sanitize(set).is_none();
        if set.adaptive_target != 0 {
            let least = self.path.least_fcwnd(set.min_fcwnd);
            if outcome.fcwnd < least {
                outcome.fcwnd = least;
                outcome.inter_packet_gap = inter_packet_gap(least, self.rtt);
            }
        }
        self.take_over(outcome);
        let old_rto = self.rto;
        self.rto = outcome.retransmit_timeout;
        if set.adaptive_timeout != 0 {
            let least = self.path.least_timeout(set.min_rto);
            if self.rto < least {
                self.rto = least;
            }
        }
        Applied { repaired, old_rto, randomize_path: outcome.randomize_path != 0 }
    }

    /// Applies new settings from outside. The state that the previous algorithm reached stays, within the new
    /// limits.
    #[inline(never)]
    pub fn apply_settings(&mut self, settings: &Settings) {
        let set = settings.prepared.parameters();
        self.outstanding = 0;
        self.base_delay_target = if set.adaptive_target != 0 {
            self.path.delay_target(set.base_delay_target)
        } else {
            self.path.stop_draining();
            set.base_delay_target
        };
        self.delay_select = DelayCode(set.delay_select.code().0 & 3);
        if settings.placement == Placement::Constant as u32 {
            self.inter_packet_gap = InterPacketGap::NONE;
            self.path.stop_draining();
        } else {
            self.fcwnd = within(self.fcwnd, set.min_fcwnd, set.max_fcwnd);
            self.ncwnd = within(self.ncwnd, set.min_ncwnd, set.max_ncwnd);
        }
    }

    #[inline(always)]
    fn record_delays(&mut self, delays: &Delays, hops: u8, settings: &Settings, now: FalconTime) {
        let set = settings.prepared.parameters();
        let next_window = now.since(self.delays_since) > SMALLEST_WINDOW;
        let selected = self.delay_select.0 as usize & 3;
        let mut ended = None;
        if next_window {
            self.delays_since = now;
            let target = Ticks(self.base_delay_target.0.saturating_add(set.largest_addition(hops).0));
            ended = Some(EndedWindow { smallest: self.delays[selected].smallest, target, fcwnd: self.fcwnd });
        }
        let sample = Sample {
            fabric: delays.fabric,
            fabric_before: self.delays[1].last,
            selected: match selected {
                0 => delays.full,
                1 => delays.fabric,
                2 => delays.forward,
                _ => delays.reverse,
            },
            full: delays.full,
        };
        // A constant window stays as it is, so it is not drained either.
        let may_drain = set.adaptive_target != 0 && settings.placement != Placement::Constant as u32;
        self.path.record(&sample, ended, (may_drain, now));
        if set.adaptive_target != 0 {
            self.base_delay_target = self.path.delay_target(set.base_delay_target);
        }
        record(&mut self.delays[0], delays.full, next_window);
        record(&mut self.delays[1], delays.fabric, next_window);
        record(&mut self.delays[2], delays.forward, next_window);
        record(&mut self.delays[3], delays.reverse, next_window);
    }

    /// Returns the earliest departure of the next reliable packet, if packets are paced (F-10.3.5-1, D-63).
    #[inline(always)]
    fn paced_departure(&self) -> Option<Picoseconds> {
        let paced = self.inter_packet_gap.0 != 0 && self.fcwnd.0 < Fcwnd::from_packets(1).0;
        if !paced || self.last_departure.0 == 0 {
            return None;
        }
        Some(self.last_departure.after(self.inter_packet_gap.as_picos()))
    }

    /// Returns whether a reliable packet may be sent now.
    #[inline(always)]
    pub fn may_depart(&self, now: Picoseconds) -> bool {
        let Some(due) = self.paced_departure() else { return true };
        // To the picosecond, not in ticks, which wrap after 563 s: a connection may have sent nothing for longer. If the
        // departure is further ahead than the gap, the last one was half a circle of the clock ago.
        let ahead = departure(due).since(now).signed();
        ahead <= 0 || ahead as u64 > self.inter_packet_gap.as_picos().0 + Ticks(1).as_picos().0
    }

    /// Records the departure of a reliable packet. A packet that waited is booked with the time when it was due, so
    /// that the delays of the engine do not add up.
    #[inline(always)]
    pub fn departed(&mut self, now: Picoseconds) {
        let mut at = now;
        if self.waited != 0
            && let Some(due) = self.paced_departure()
            && now.since(due).0 < self.inter_packet_gap.as_picos().0
        {
            at = due;
        }
        self.waited = 0;
        self.last_departure = at;
    }

    /// Makes a packet wait for its departure: the timing wheel brings the connection back then. Returns true if
    /// the packet did not wait before.
    #[inline(always)]
    pub fn wait_for_departure(&mut self) -> bool {
        let Some(due) = self.paced_departure() else { return false };
        self.pacing = Deadline::at(departure(due).ticks());
        let first = self.waited == 0;
        self.waited = 1;
        first
    }

    /// Copies windows and state from a result. The caller handles timeout and path.
    #[inline(always)]
    fn take_over(&mut self, outcome: &Outcome) {
        self.fcwnd = outcome.fcwnd;
        self.ncwnd = outcome.ncwnd as u32;
        self.cc_metadata = outcome.cc_metadata;
        // In blocks: they move as large words, and no register has to keep what was read to check each field.
        let (from, to) = (core::ptr::from_ref(outcome), core::ptr::from_mut(self));
        // SAFETY: the fields of a block are in both structs in the same order and without gaps, see `same_order`.
        unsafe {
            let times = (&raw mut (*to).inter_packet_gap).cast::<[u32; 6]>();
            times.copy_from_nonoverlapping((&raw const (*from).inter_packet_gap).cast(), 1);
            let bits = (&raw mut (*to).ncwnd_direction).cast::<[u8; 3]>();
            bits.copy_from_nonoverlapping((&raw const (*from).ncwnd_direction).cast(), 1);
        }
    }
}

/// Asserts that the listed fields of `$size` bytes follow each other without gaps in connection and result.
macro_rules! same_order {
    ($size:literal: $first:ident $(, $field:ident)*) => {
        let mut distance = 0;
        $(
            distance += $size;
            assert!(offset_of!(Congestion, $field) - offset_of!(Congestion, $first) == distance);
            assert!(offset_of!(Outcome, $field) - offset_of!(Outcome, $first) == distance);
        )*
    };
}

const _: () = {
    same_order!(
        4: inter_packet_gap, fabric_window_time_marker, nic_window_time_marker, base_delay_target, delay_state,
        rtt_state
    );
    same_order!(1: ncwnd_direction, delay_select, cc_opaque);
};

/// Returns the start of the first tick at which a departure due at an instant is not too early.
#[inline(always)]
const fn departure(due: Picoseconds) -> Picoseconds {
    Picoseconds(((due.0 >> Ticks::PICOS_SHIFT).wrapping_add(1)) << Ticks::PICOS_SHIFT)
}

#[inline(always)]
fn within<T: PartialOrd>(value: T, least: T, most: T) -> T {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

#[inline(always)]
fn record(record: &mut DelayRecord, delay: Ticks, next_window: bool) {
    let smoothed = record.smoothed.0;
    record.smoothed = if smoothed == 0 {
        delay
    } else if delay.0 > smoothed {
        Ticks(smoothed + ((delay.0 - smoothed) >> 3))
    } else {
        Ticks(smoothed - ((smoothed - delay.0) >> 3))
    };
    if record.smallest_before.0 == 0 {
        record.smallest_before = delay;
        record.smallest = delay;
    } else if next_window {
        record.smallest_before = record.smallest;
        record.smallest = delay;
    } else if delay < record.smallest {
        record.smallest = delay;
    }
    record.last = delay;
}
