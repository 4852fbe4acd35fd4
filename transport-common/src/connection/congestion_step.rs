//! Between the datapath and the rate update engine: events, results, pacing (section 10).

use core::mem::offset_of;

use super::{Congestion, Connection, DelayRecord, Entry, state, timer};
use crate::congestion::algorithm::Algorithm;
use crate::congestion::event::{Event, EventType, RetransmitReason};
use crate::congestion::nic_time::{Delays, NicTime};
use crate::congestion::result::Outcome;
use crate::congestion::settings::{Placement, Settings};
use crate::counters::Counter;
use crate::datapath::Scratch;
use crate::packet_delivery::{TxPacket, packet_flag};
use crate::queues::{CELLS, Queues};
use crate::units::{FalconTime, Fcwnd, Picoseconds, Ticks};
use crate::wire::PacketType;

/// Picoseconds in the unit of the inter-packet gap (F-10.6.2.1-7).
const GAP_UNIT: u64 = 512_000;
/// A queued event without a result for so long is given up: the engine behind the queues stalls or is gone.
const RESULT_PATIENCE: Ticks = Ticks::from_nanos(16_000_000);
/// Window of the smallest delays.
const SMALLEST_WINDOW: Ticks = Ticks(1 << 23);
/// First port of the range that path entropy is drawn from, and the bits drawn (D-80).
const ENTROPY_PORT: u16 = 49152;
const ENTROPY_PORT_MASK: u16 = 0x3fff;
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;
/// Requests a connection may hold: its share of the packet pool (10.2).
const PACKET_POOL: u32 = super::DATA_WINDOW;
/// Levels of occupancy (F-10.2-3).
const LEVELS: u32 = 32;

impl Entry {
    /// An ACK or NACK was processed: its delays are recorded and its event is there for [`Self::decide`] (F-10.1-3, F-10.6.2.1-1).
    #[inline(never)]
    pub(crate) fn acknowledgement_event(&mut self, s: &mut Scratch, eack_drop: u32, now: FalconTime) {
        let (packet, event) = (&s.packet, &mut s.event);
        event.t1 = NicTime::from_falcon_time(FalconTime(packet.t1));
        event.t2 = NicTime::from_falcon_time(FalconTime(packet.t2));
        event.t3 = NicTime::from_picoseconds(Picoseconds(packet.iv));
        event.t4 = NicTime::from_picoseconds(Picoseconds(packet.arrival));
        let nack = packet.kind == PacketType::Nack as u8;
        event.event_type = if nack { EventType::NACK } else { EventType::ACK };
        event.nack_code = if nack { packet.nack_code } else { 0 };
        event.retransmit_count = 0;
        event.retransmit_reason = 0;
        event.cc_metadata = packet.cc_metadata;
        event.ecn_accumulated = packet.ecn_count;
        event.forward_hops = packet.forward_hops;
        event.rx_buffer_level = packet.rx_buffer_level;
        event.eack = (packet.kind == PacketType::Eack as u8) as u8;
        event.eack_drop = eack_drop as u8;
        let delays = s.event.delays();
        self.record_delays(&delays, now);
        s.report.delays = 1;
        s.report.decide = 1;
    }

    /// A packet is sent again: its event is there for [`Self::decide`] (F-10.6.2.1-1, D-68).
    #[inline(never)]
    pub(crate) fn retransmission_event(&mut self, s: &mut Scratch, packet: &TxPacket) {
        let (attempts, early) = (packet.attempts, packet.flags & packet_flag::EARLY != 0);
        let event = &mut s.event;
        event.t1 = NicTime(0);
        event.t2 = NicTime(0);
        event.t3 = NicTime(0);
        event.t4 = NicTime(0);
        event.event_type = EventType::RETRANSMIT;
        event.nack_code = 0;
        event.retransmit_count = if attempts > 7 { 7 } else { attempts as u8 };
        event.retransmit_reason = if early { RetransmitReason::EARLY } else { RetransmitReason::TIMEOUT };
        event.cc_metadata = 0;
        event.ecn_accumulated = 0;
        event.forward_hops = 0;
        event.rx_buffer_level = 0;
        event.eack = 0;
        event.eack_drop = 0;
        s.report.decide = 1;
    }

    /// Hands the event of the step, if there is one, to whoever decides for the connection.
    #[inline(always)]
    pub(crate) fn decide(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        if s.report.decide != 0 {
            self.decide_event(s, queues, now);
        }
    }

    /// A step of its own, because the BPF target's stack is too small for an algorithm inside another step.
    #[inline(never)]
    fn decide_event(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        let settings = queues.settings();
        let placement = settings.placement;
        if placement != Placement::Kernel as u32 && placement != Placement::User as u32 {
            return;
        }
        self.describe(&mut s.event, settings);
        if placement == Placement::Kernel as u32 {
            s.event.stamp(NicTime::from_picoseconds(now));
            self.event_raised(now.ticks());
            let engine = &mut self.connection.congestion.engine;
            settings.algorithm().update(&s.event, engine, &settings.prepared, &mut s.outcome);
            self.apply_outcome(s, settings, now);
            return;
        }
        let congestion = &mut self.connection.congestion;
        let since = now.ticks().since(congestion.last_event);
        let mut outstanding = congestion.outstanding != 0;
        if outstanding && since > RESULT_PATIENCE {
            // Once, also when no other event is admitted.
            congestion.outstanding = 0;
            outstanding = false;
            self.tables.statistics.congestion_lost += 1;
            s.count(Counter::CongestionEventLost);
        }
        let queue = settings.event_queue as usize & 3;
        let queues = &s.event_queues;
        let acked = self.connection.congestion.packets_acked as u32;
        let verdict = queues.admission.judge(queues.occupancy[queue], since, acked, outstanding);
        s.count_congestion(Counter::EventAdmittedBelowFirst as u32 + verdict as u32);
        if verdict.is_admitted() {
            self.event_raised(now.ticks());
            self.connection.congestion.outstanding = 1;
            s.report.event = 1;
        }
    }

    /// What the datapath keeps for the engine (F-10.6.2.2-5).
    #[inline(always)]
    fn describe(&self, event: &mut Event, settings: &Settings) {
        let c = &self.connection.congestion;
        // Read together and written together, in the order of both structs: the compiler moves pairs of words.
        let (gap, fabric_marker, nic_marker) =
            (c.inter_packet_gap, c.fabric_window_time_marker, c.nic_window_time_marker);
        let (base_delay_target, delay_state, rtt_state) = (c.base_delay_target, c.delay_state, c.rtt_state);
        let (acked, direction, delay_select, opaque) =
            (c.packets_acked, c.ncwnd_direction, c.delay_select, c.cc_opaque);
        event.inter_packet_gap = gap;
        event.fabric_window_time_marker = fabric_marker;
        event.nic_window_time_marker = nic_marker;
        event.base_delay_target = base_delay_target;
        event.delay_state = delay_state;
        event.rtt_state = rtt_state;
        event.connection_id = self.connection.config.local_cid.0;
        event.fcwnd = c.fcwnd;
        event.retransmit_timeout = c.rto;
        event.ncwnd = c.ncwnd as u16;
        event.num_packets_acked = acked;
        event.ncwnd_direction = direction;
        event.delay_select = delay_select;
        event.cc_opaque = opaque;
        event.event_queue_select = (settings.event_queue & 3) as u8;
        event.generation = 0;
        event.reserved = 0;
    }

    #[inline(always)]
    fn event_raised(&mut self, now: FalconTime) {
        self.tables.statistics.congestion_events += 1;
        self.connection.congestion.packets_acked = 0; // D-75
        self.connection.congestion.last_event = now;
    }

    /// A result came from behind the queues; one that nobody waits for is dropped (D-73).
    #[inline(always)]
    pub(crate) fn on_result(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        let settings = queues.settings();
        let expected = self.connection.state == state::OPEN
            && self.connection.config.local_cid.0 == s.outcome.connection_id
            && settings.placement == Placement::User as u32
            && self.connection.congestion.outstanding != 0;
        if !expected {
            s.count_congestion(Counter::CongestionResultUnexpected as u32);
            return;
        }
        self.connection.congestion.outstanding = 0;
        self.apply_outcome(s, settings, now);
    }

    /// Takes over the result in the scratch, whoever wrote it: what is not legal is made so (F-10.6.2.2-5).
    #[inline(always)]
    fn apply_outcome(&mut self, s: &mut Scratch, settings: &Settings, now: Picoseconds) {
        self.tables.statistics.congestion_results += 1;
        let faults = s.outcome.sanitize(settings.prepared.parameters());
        if !faults.is_none() {
            self.tables.statistics.congestion_repairs += 1;
            s.count_congestion(Counter::CongestionResultRepaired as u32);
        }
        self.connection.congestion.take_over(&s.outcome);
        let (rto, randomize) = (s.outcome.retransmit_timeout, s.outcome.randomize_path != 0);
        self.connection.set_rto(rto);
        if randomize {
            self.tables.statistics.path_changes += 1;
            self.connection.change_path(now);
        }
    }

    /// Congestion control is set anew from outside. What the algorithm before had reached goes on, within the new
    /// limits.
    #[inline(never)]
    pub(crate) fn apply_settings(&mut self, queues: &impl Queues) {
        queues.take_settings();
        let settings = queues.settings();
        let set = settings.prepared.parameters();
        let c = &mut self.connection.congestion;
        c.outstanding = 0;
        c.base_delay_target = set.base_delay_target;
        c.delay_select = set.delay_select as u8 & 3;
        if settings.placement == Placement::Constant as u32 {
            c.inter_packet_gap = 0;
        } else {
            c.fcwnd = within(c.fcwnd, set.min_fcwnd, set.max_fcwnd);
            c.ncwnd = within(c.ncwnd, set.min_ncwnd, set.max_ncwnd);
        }
    }

    #[inline(always)]
    fn record_delays(&mut self, delays: &Delays, now: FalconTime) {
        let c = &mut self.connection.congestion;
        let next_window = now.since(c.delays_since) > SMALLEST_WINDOW;
        if next_window {
            c.delays_since = now;
        }
        record(&mut c.delays[0], delays.full, next_window);
        record(&mut c.delays[1], delays.fabric, next_window);
        record(&mut c.delays[2], delays.forward, next_window);
        record(&mut c.delays[3], delays.reverse, next_window);
    }

    /// The held requests changed, or the node's cells did: the occupancy levels follow (F-10.2-1, F-10.2-3, F-10.2-4).
    #[inline(always)]
    pub(crate) fn occupancy_changed(&mut self, cells_in_use: u32) {
        let config = &self.connection.config;
        let alpha = config.occupancy_weight;
        let packet_pool = pool(config.full_packet_pool, PACKET_POOL);
        let buffer_pool = pool(config.full_buffer_pool, CELLS as u32);
        let target = &mut self.connection.target;
        smooth_occupancy(&mut target.packet_occupancy, target.held, alpha);
        smooth_occupancy(&mut target.buffer_occupancy, cells_in_use, alpha);
        let packets = level(target.packet_occupancy, packet_pool);
        let buffers = level(target.buffer_occupancy, buffer_pool);
        self.connection.report.rx_buffer_level = if packets > buffers { packets } else { buffers };
    }
}

impl Congestion {
    /// Takes over what a result says of windows and state; timeout and path are the caller's.
    #[inline(always)]
    fn take_over(&mut self, outcome: &Outcome) {
        self.fcwnd = outcome.fcwnd;
        self.ncwnd = outcome.ncwnd as u32;
        self.cc_metadata = outcome.cc_metadata;
        // In blocks: they move as large words, and what was read to look at each field need not stay in registers.
        let (from, to) = (core::ptr::from_ref(outcome), core::ptr::from_mut(self));
        // SAFETY: what a block covers stands in both structs in the same order and without gaps, see `same_order`.
        unsafe {
            let times = (&raw mut (*to).inter_packet_gap).cast::<[u32; 6]>();
            times.copy_from_nonoverlapping((&raw const (*from).inter_packet_gap).cast(), 1);
            let bits = (&raw mut (*to).ncwnd_direction).cast::<[u8; 3]>();
            bits.copy_from_nonoverlapping((&raw const (*from).ncwnd_direction).cast(), 1);
        }
    }
}

/// Asserts that fields of `$size` bytes follow each other in connection and result alike.
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

impl Connection {
    /// A new timeout holds for timers that run already (F-10.6.2.1-8, D-69).
    #[inline(always)]
    fn set_rto(&mut self, rto: Ticks) {
        let old = self.congestion.rto;
        self.congestion.rto = rto;
        if rto < old && self.timers.armed & timer::RETRANSMIT != 0 {
            // The deadline is a lower bound of those of all packets; each moves by the difference.
            self.timers.retransmit = self.timers.retransmit.wrapping_sub(old.0 - rto.0);
        }
    }

    /// Takes another path for all packets from now on (D-80). Drawn from the clock and the last IV, which nobody
    /// outside chooses.
    #[inline(always)]
    fn change_path(&mut self, now: Picoseconds) {
        let entropy = (now.ticks().0 as u64) << 32;
        let mut x = self.security.last_iv ^ entropy ^ (self.config.peer_cid.0 as u64) << 40;
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 32;
        let path = &mut self.config.path;
        if path.ip_version == 6 {
            let label = x as u32 & FLOW_LABEL_MASK;
            path.flow_label = if label == path.flow_label { label ^ 1 } else { label };
        } else {
            let port = ENTROPY_PORT | (x as u16 & ENTROPY_PORT_MASK);
            path.source_port = if port == path.source_port { port ^ 1 } else { port };
        }
    }

    /// The earliest departure of the next reliable packet, if packets are paced (F-10.3.5-1, D-63).
    #[inline(always)]
    fn paced_departure(&self) -> Option<u64> {
        let c = &self.congestion;
        if c.inter_packet_gap == 0 || c.fcwnd.0 >= Fcwnd::from_packets(1).0 || c.last_departure == 0 {
            return None;
        }
        Some(c.last_departure.wrapping_add(c.inter_packet_gap as u64 * GAP_UNIT))
    }

    /// Whether a reliable packet may leave now.
    #[inline(always)]
    pub(crate) fn may_depart(&self, now: Picoseconds) -> bool {
        match self.paced_departure() {
            Some(due) => now.ticks().reached(departure_tick(due)),
            None => true,
        }
    }

    /// A reliable packet leaves. One that waited is booked for when it was due: the time the engine took to notice does
    /// not add up.
    #[inline(always)]
    pub(crate) fn departed(&mut self, now: Picoseconds) {
        let mut at = now.0;
        if self.congestion.waited != 0
            && let Some(due) = self.paced_departure()
            && now.0.wrapping_sub(due) < self.congestion.inter_packet_gap as u64 * GAP_UNIT
        {
            at = due;
        }
        self.congestion.waited = 0;
        self.congestion.last_departure = at;
    }

    /// A packet has to wait for its departure: the timing wheel brings the connection back. True if it did not wait
    /// before.
    #[inline(always)]
    pub(crate) fn wait_for_departure(&mut self) -> bool {
        let Some(due) = self.paced_departure() else { return false };
        self.timers.pacing = departure_tick(due).0;
        self.timers.armed |= timer::PACING;
        let first = self.congestion.waited == 0;
        self.congestion.waited = 1;
        first
    }
}

/// The first tick at which what is due at an instant is not early.
#[inline(always)]
const fn departure_tick(due: u64) -> FalconTime {
    Picoseconds(due).ticks().after(Ticks(1))
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

/// Moves an average with 8 fraction bits towards `current`; `alpha` of 256 is the weight of the new value, 0 stands for
/// 256 (F-10.2-1, F-10.2-2, D-61).
#[inline(always)]
fn smooth_occupancy(average: &mut u32, current: u32, alpha: u32) {
    let alpha = if alpha == 0 || alpha > 256 { 256 } else { alpha };
    let current = current << 8;
    *average = if current > *average {
        *average + (((current - *average) as u64 * alpha as u64) >> 8) as u32
    } else {
        *average - (((*average - current) as u64 * alpha as u64) >> 8) as u32
    };
}

/// The size of a pool that counts as full at `full` of `all`; 0 and what is more than all stand for all.
#[inline(always)]
fn pool(full: u16, all: u32) -> u32 {
    if full == 0 || full as u32 > all { all } else { full as u32 }
}

/// The level of an average in a pool of `size`, not 0: the thresholds divide the pool evenly (D-76).
#[inline(always)]
fn level(average: u32, size: u32) -> u8 {
    let whole = average as u64 * LEVELS as u64;
    let level = whole.checked_div((size as u64) << 8).map_or(LEVELS, |level| level as u32);
    if level >= LEVELS { (LEVELS - 1) as u8 } else { level as u8 }
}
