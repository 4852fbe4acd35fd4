//! The congestion result: the output of the rate update engine (10.6.2.2), and the protection against an illegal
//! one.

use super::entry::{ENTRY_BITS, Entry, Field, MAX_NCWND, clear};
use super::event::{Direction, Event};
use super::nic_time::{DelayCode, NicTime};
use super::parameters::Parameters;
use crate::units::{Fcwnd, InterPacketGap, Ticks};
use crate::verifier::walked_once;
use bytemuck::{Pod, Zeroable};

/// Bits of the metadata that an engine may set. The lowest two hold OWN and belong to the datapath (D-07).
pub const METADATA_MASK: u32 = 0x00ff_fffc;
/// Bits that are passed on when an engine sets no metadata. The highest bit is excluded, so that our bytes are the
/// same under both readings of the wire format (D-05).
const PASSED_METADATA_MASK: u32 = METADATA_MASK >> 1 & METADATA_MASK;

/// A congestion result, unpacked. Field widths in bits are those of the entry. [`Self::encode`] drops the bits
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Outcome {
    /// Connection, 24 bits, as in the event.
    pub connection_id: u32,
    /// Metadata for the peer's engine, bits of [`METADATA_MASK`] (D-07).
    pub cc_metadata: u32,
    /// Fabric window, 21 bits in the format 11.10 (D-79).
    pub fcwnd: Fcwnd,
    /// Retransmission timeout, 24 bits (D-69).
    pub retransmit_timeout: Ticks,
    /// Inter-packet gap in units of 512 ns, 20 bits; 0 while `fcwnd` is at least 1 (D-63).
    pub inter_packet_gap: InterPacketGap,
    /// Guard of the fabric window.
    pub fabric_window_time_marker: NicTime,
    /// Guard of the NIC window.
    pub nic_window_time_marker: NicTime,
    /// Target delay before scaling, as in the event (D-77).
    pub base_delay_target: Ticks,
    /// Smoothed delay, 24 bits.
    pub delay_state: Ticks,
    /// Smoothed RTT, 24 bits.
    pub rtt_state: Ticks,
    /// NIC window in packets, 11 bits.
    pub ncwnd: u16,
    /// As in the event, 1 bit.
    pub ncwnd_direction: Direction,
    /// Delay selection, as in the event (D-74).
    pub delay_select: DelayCode,
    /// For the engine's own use, 2 bits.
    pub cc_opaque: u8,
    /// 1: asks for one change of path (D-80).
    pub randomize_path: u8,
    /// Event queue, as in the event (D-74).
    pub event_queue_select: u8,
    /// Always 0.
    pub reserved: u8,
}

const CONNECTION_ID: Field = Field::first(24);
const RANDOMIZE_PATH: Field = CONNECTION_ID.then(1);
const CC_METADATA: Field = RANDOMIZE_PATH.then(24);
// Fraction (10 bits), then integer part (11 bits): together the window as a fixed-point number.
const FCWND: Field = CC_METADATA.then(21);
const INTER_PACKET_GAP: Field = FCWND.then(20);
const NCWND: Field = INTER_PACKET_GAP.then(11);
const RETRANSMIT_TIMEOUT: Field = NCWND.then(24);
const EVENT_QUEUE_SELECT: Field = RETRANSMIT_TIMEOUT.then(2);
const DELAY_SELECT: Field = EVENT_QUEUE_SELECT.then(2);
const FABRIC_MARKER: Field = DELAY_SELECT.then(24);
const NIC_MARKER: Field = FABRIC_MARKER.then(24);
const NCWND_DIRECTION: Field = NIC_MARKER.then(1);
const BASE_DELAY_TARGET: Field = NCWND_DIRECTION.then(24);
const DELAY_STATE: Field = BASE_DELAY_TARGET.then(24);
const RTT_STATE: Field = DELAY_STATE.then(24);
const CC_OPAQUE: Field = RTT_STATE.then(2);
const RESERVED: Field = CC_OPAQUE.then(260);
const _: () = assert!(RESERVED.end() == ENTRY_BITS);

impl Outcome {
    /// Writes the 64-byte entry (F-10.6.2.2-2, F-10.6.2.2-3). Reserved bits are 0.
    #[inline(always)]
    pub fn encode(&self, entry: &mut Entry) {
        clear(entry);
        CONNECTION_ID.put(entry, self.connection_id);
        RANDOMIZE_PATH.put(entry, self.randomize_path as u32);
        CC_METADATA.put(entry, self.cc_metadata);
        FCWND.put(entry, self.fcwnd.0);
        INTER_PACKET_GAP.put(entry, self.inter_packet_gap.0);
        NCWND.put(entry, self.ncwnd as u32);
        RETRANSMIT_TIMEOUT.put(entry, self.retransmit_timeout.0);
        EVENT_QUEUE_SELECT.put(entry, self.event_queue_select as u32);
        DELAY_SELECT.put(entry, self.delay_select.0 as u32);
        FABRIC_MARKER.put(entry, self.fabric_window_time_marker.0);
        NIC_MARKER.put(entry, self.nic_window_time_marker.0);
        NCWND_DIRECTION.put(entry, self.ncwnd_direction.0 as u32);
        BASE_DELAY_TARGET.put(entry, self.base_delay_target.0);
        DELAY_STATE.put(entry, self.delay_state.0);
        RTT_STATE.put(entry, self.rtt_state.0);
        CC_OPAQUE.put(entry, self.cc_opaque as u32);
    }

    /// Reads an entry. Every bit pattern is a result, but it is legal only after [`Self::sanitize`]. Reserved bits
    /// are ignored.
    #[inline(always)]
    pub const fn decode(&mut self, entry: &Entry) {
        self.connection_id = CONNECTION_ID.get(entry);
        self.randomize_path = RANDOMIZE_PATH.get(entry) as u8;
        self.cc_metadata = CC_METADATA.get(entry);
        self.fcwnd = Fcwnd(FCWND.get(entry));
        self.inter_packet_gap = InterPacketGap(INTER_PACKET_GAP.get(entry));
        self.ncwnd = NCWND.get(entry) as u16;
        self.retransmit_timeout = Ticks(RETRANSMIT_TIMEOUT.get(entry));
        self.event_queue_select = EVENT_QUEUE_SELECT.get(entry) as u8;
        self.delay_select = DelayCode(DELAY_SELECT.get(entry) as u8);
        self.fabric_window_time_marker = NicTime(FABRIC_MARKER.get(entry));
        self.nic_window_time_marker = NicTime(NIC_MARKER.get(entry));
        self.ncwnd_direction = Direction(NCWND_DIRECTION.get(entry) as u8);
        self.base_delay_target = Ticks(BASE_DELAY_TARGET.get(entry));
        self.delay_state = Ticks(DELAY_STATE.get(entry));
        self.rtt_state = Ticks(RTT_STATE.get(entry));
        self.cc_opaque = CC_OPAQUE.get(entry) as u8;
        self.reserved = 0;
    }

    /// Writes the result that changes nothing: all state as in the event, and the metadata passed on (D-07). An
    /// algorithm starts from it and overwrites the fields that it decides.
    #[inline(always)]
    pub const fn carry_over(&mut self, event: &Event) {
        self.carry_over_fixed(event);
        self.randomize_path = 0;
        self.fcwnd = event.fcwnd;
        self.inter_packet_gap = event.inter_packet_gap;
        self.ncwnd = event.ncwnd;
        self.retransmit_timeout = event.retransmit_timeout;
        self.fabric_window_time_marker = event.fabric_window_time_marker;
        self.nic_window_time_marker = event.nic_window_time_marker;
        self.ncwnd_direction = event.ncwnd_direction;
        self.delay_state = event.delay_state;
        self.rtt_state = event.rtt_state;
    }

    /// Writes the part of [`Self::carry_over`] that algorithms rarely decide: all fields but the path, the windows
    /// with their markers and direction, gap, timeout, smoothed delay and RTT. For an algorithm that decides all
    /// of these.
    #[inline(always)]
    pub const fn carry_over_fixed(&mut self, event: &Event) {
        self.connection_id = event.connection_id;
        self.cc_metadata = event.cc_metadata & PASSED_METADATA_MASK;
        self.event_queue_select = event.event_queue_select;
        self.delay_select = event.delay_select;
        self.base_delay_target = event.base_delay_target;
        self.cc_opaque = event.cc_opaque;
        self.reserved = 0;
    }

    /// Returns true if [`Self::sanitize`] has nothing to repair. Nearly every result is legal, so the fields are
    /// checked together, without a branch for each.
    #[inline(always)]
    pub const fn is_legal(&self, parameters: &Parameters) -> bool {
        let (timeout, ncwnd) = (self.retransmit_timeout.0, self.ncwnd as u32);
        // A field that must not be 0 is combined with its value minus 1: for 0 this sets all bits.
        let wide = (self.times() | timeout | timeout.wrapping_sub(1)) >> NicTime::BITS
            | self.inter_packet_gap.0 >> InterPacketGap::MAX.0.trailing_ones()
            | (ncwnd | ncwnd.wrapping_sub(1)) >> MAX_NCWND.trailing_ones()
            | self.cc_metadata & !METADATA_MASK
            | (self.bits() >> 1 | self.pairs() >> 2) as u32;
        wide == 0 && self.fcwnd.0 != 0 && self.fcwnd.0 <= largest_fcwnd(parameters).0
    }

    /// Makes the result of an untrusted engine legal, and returns what was wrong with it. Windows, gap and timeout
    /// change to the nearest legal value. State is cut to its width. The caller checks the connection.
    #[inline(always)]
    pub fn sanitize(&mut self, parameters: &Parameters) -> Faults {
        if self.is_legal(parameters) { Faults(0) } else { Faults(repair(self, parameters)) }
    }

    #[inline(always)]
    const fn repair(&mut self, parameters: &Parameters) -> u32 {
        let mut faults = 0;
        let most = largest_fcwnd(parameters);
        if self.fcwnd.0 > most.0 {
            self.fcwnd = most;
            faults |= Faults::FCWND;
        }
        if self.fcwnd.0 == 0 {
            self.fcwnd = Fcwnd(1);
            faults |= Faults::FCWND;
        }
        if self.ncwnd as u32 > MAX_NCWND {
            self.ncwnd = MAX_NCWND as u16;
            faults |= Faults::NCWND;
        }
        if self.ncwnd == 0 {
            self.ncwnd = 1;
            faults |= Faults::NCWND;
        }
        if self.inter_packet_gap.0 > InterPacketGap::MAX.0 {
            self.inter_packet_gap = InterPacketGap::MAX;
            faults |= Faults::INTER_PACKET_GAP;
        }
        if self.retransmit_timeout.0 > NicTime::MASK {
            self.retransmit_timeout = Ticks(NicTime::MASK);
            faults |= Faults::RETRANSMIT_TIMEOUT;
        }
        if self.retransmit_timeout.0 == 0 {
            self.retransmit_timeout = Ticks(1);
            faults |= Faults::RETRANSMIT_TIMEOUT;
        }
        if self.cc_metadata & !METADATA_MASK != 0 {
            self.cc_metadata &= METADATA_MASK;
            faults |= Faults::METADATA;
        }
        if self.cut_state() {
            faults |= Faults::STATE;
        }
        faults
    }

    /// Returns the bitwise OR of the state fields of 24 bits.
    #[inline(always)]
    const fn times(&self) -> u32 {
        self.fabric_window_time_marker.0
            | self.nic_window_time_marker.0
            | self.base_delay_target.0
            | self.delay_state.0
            | self.rtt_state.0
    }

    /// Returns the bitwise OR of the fields of one bit.
    #[inline(always)]
    const fn bits(&self) -> u8 {
        self.ncwnd_direction.0 | self.randomize_path
    }

    /// Returns the bitwise OR of the fields of two bits.
    #[inline(always)]
    const fn pairs(&self) -> u8 {
        self.event_queue_select | self.delay_select.0 | self.cc_opaque
    }

    /// Cuts the state that the datapath only keeps for the engine to the width of its fields. Returns true if a
    /// field was too wide.
    #[inline(always)]
    const fn cut_state(&mut self) -> bool {
        if self.times() <= NicTime::MASK && self.bits() <= 1 && self.pairs() <= 3 {
            return false;
        }
        self.fabric_window_time_marker.0 &= NicTime::MASK;
        self.nic_window_time_marker.0 &= NicTime::MASK;
        self.base_delay_target.0 &= NicTime::MASK;
        self.delay_state.0 &= NicTime::MASK;
        self.rtt_state.0 &= NicTime::MASK;
        self.ncwnd_direction.0 &= 1;
        self.randomize_path &= 1;
        self.event_queue_select &= 3;
        self.delay_select.0 &= 3;
        self.cc_opaque &= 3;
        true
    }
}

/// Returns the largest fabric window of a result.
#[inline(always)]
const fn largest_fcwnd(parameters: &Parameters) -> Fcwnd {
    if parameters.max_fcwnd.0 > Fcwnd::MAX.0 { Fcwnd::MAX } else { parameters.max_fcwnd }
}

walked_once! {
    /// Does the work of [`Outcome::sanitize`]. Returns the bits of the [`Faults`].
    fn repair(outcome: &mut Outcome, parameters: &Parameters) -> u32 {
        outcome.repair(parameters)
    }
}

/// The set of repairs by [`Outcome::sanitize`], as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Faults(pub u32);

impl Faults {
    /// Fabric window 0, or above `max_fcwnd`.
    pub const FCWND: u32 = 1;
    /// NIC window 0, or above 2047.
    pub const NCWND: u32 = 2;
    /// Gap above 20 bits.
    pub const INTER_PACKET_GAP: u32 = 4;
    /// Timeout 0, or above 24 bits.
    pub const RETRANSMIT_TIMEOUT: u32 = 8;
    /// Metadata outside [`METADATA_MASK`].
    pub const METADATA: u32 = 16;
    /// Marker, delay, selection or opaque bits wider than their fields.
    pub const STATE: u32 = 32;

    /// Every fault and its name for people.
    pub const NAMES: [(u32, &'static str); 6] = [
        (Self::FCWND, "fcwnd"),
        (Self::NCWND, "ncwnd"),
        (Self::INTER_PACKET_GAP, "inter_packet_gap"),
        (Self::RETRANSMIT_TIMEOUT, "retransmit_timeout"),
        (Self::METADATA, "cc_metadata"),
        (Self::STATE, "state"),
    ];

    /// Returns whether nothing was wrong.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the names of the faults.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| name)
    }
}

const _: () = assert!(size_of::<Outcome>() == 48 && align_of::<Outcome>() == 4);
