//! The congestion event: the information from the datapath for the rate update engine (10.6.2.1).

use super::entry::{ENTRY_BITS, Entry, Field, clear};
use super::nic_time::{DelayCode, DelaySelect, Delays, NicTime};
use crate::units::{Fcwnd, InterPacketGap, Ticks};
use crate::wire::nack::NackCode;
use bytemuck::{Pod, Zeroable};

/// The kind of an event (F-10.6.2.1-2), 2 bits. 3 is reserved. Any byte is allowed: the queues are in memory that user
/// space can write.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct EventType(pub u8);

impl EventType {
    /// An ACK was received.
    pub const ACK: Self = Self(0);
    /// A NACK was received.
    pub const NACK: Self = Self(1);
    /// A packet was retransmitted.
    pub const RETRANSMIT: Self = Self(2);

    /// Returns whether this is the same kind. For code that is evaluated at compile time.
    #[inline(always)]
    pub const fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

/// The reason for a retransmission (F-10.6.2.1-3).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct RetransmitReason(pub u8);

impl RetransmitReason {
    /// The retransmission timer expired.
    pub const TIMEOUT: Self = Self(0);
    /// An EACK showed that the packet was lost.
    pub const EARLY: Self = Self(1);
}

/// The last change of the NIC window (F-10.6.2.1-12).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct Direction(pub u8);

impl Direction {
    /// A decrease.
    pub const DECREASE: Self = Self(0);
    /// An increase.
    pub const INCREASE: Self = Self(1);

    /// Returns whether this is the same direction. For code that is evaluated at compile time.
    #[inline(always)]
    pub const fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

/// A congestion event, unpacked. Field widths in bits are those of the entry. [`Self::encode`] drops the bits
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    /// Connection, 24 bits.
    pub connection_id: u32,
    /// Time when the packet was sent; ACK and NACK events.
    pub t1: NicTime,
    /// Time when the packet was received, by the peer's clock; ACK and NACK events.
    pub t2: NicTime,
    /// Time when the acknowledgement was sent, by the peer's clock; ACK and NACK events.
    pub t3: NicTime,
    /// Time when the acknowledgement was received. For retransmit events: the time at which the engine handles the
    /// event, which the engine fills in (D-70).
    pub t4: NicTime,
    /// Low 24 bits of the received congestion information: metadata of the peer's engine, and OWN (D-07).
    pub cc_metadata: u32,
    /// Fabric window, 21 bits in the format 11.10 (D-79).
    pub fcwnd: Fcwnd,
    /// Retransmission timeout, 24 bits.
    pub retransmit_timeout: Ticks,
    /// Inter-packet gap in units of 512 ns, 20 bits (D-63).
    pub inter_packet_gap: InterPacketGap,
    /// Guard of the fabric window (F-10.3.6-2).
    pub fabric_window_time_marker: NicTime,
    /// Guard of the NIC window (F-10.3.6-3).
    pub nic_window_time_marker: NicTime,
    /// Target delay before scaling, 24 bits (D-77).
    pub base_delay_target: Ticks,
    /// Smoothed delay, 24 bits.
    pub delay_state: Ticks,
    /// Smoothed RTT, 24 bits.
    pub rtt_state: Ticks,
    /// NIC window in packets, 11 bits.
    pub ncwnd: u16,
    /// Packets the peer received with a CE mark, modulo 2^14 (D-14).
    pub ecn_accumulated: u16,
    /// Packets acknowledged since the last event of the connection, 10 bits, saturating (D-75).
    pub num_packets_acked: u16,
    /// See [`Direction`], 1 bit.
    pub ncwnd_direction: Direction,
    /// A [`DelaySelect`], 2 bits.
    pub delay_select: DelayCode,
    /// For the engine's own use, 2 bits.
    pub cc_opaque: u8,
    /// See [`EventType`], 2 bits.
    pub event_type: EventType,
    /// Retransmissions of the packet so far, 3 bits, saturating; retransmit events (D-67).
    pub retransmit_count: u8,
    /// See [`RetransmitReason`], 1 bit; retransmit events.
    pub retransmit_reason: RetransmitReason,
    /// Cause as on the wire, see [`NackCode`]; NACK events.
    pub nack_code: NackCode,
    /// Hops of the forward path, 4 bits (D-14).
    pub forward_hops: u8,
    /// Level of the peer's receive buffers, 5 bits.
    pub rx_buffer_level: u8,
    /// 1 if an EACK shows loss by the out-of-order distance (F-10.6.2.1-10).
    pub eack_drop: u8,
    /// 1 if an EACK caused the event.
    pub eack: u8,
    /// Event queue of the connection, 2 bits.
    pub event_queue_select: u8,
    /// The entry's poll bit `gen`: toggles with each lap of the ring (D-74).
    pub generation: u8,
    /// Always 0.
    pub reserved: u8,
}

const CONNECTION_ID: Field = Field::first(24);
const EVENT_TYPE: Field = CONNECTION_ID.then(2);
const T1: Field = EVENT_TYPE.then(24);
const T2: Field = T1.then(24);
const T3: Field = T2.then(24);
const T4: Field = T3.then(24);
const RETRANSMIT_COUNT: Field = T4.then(3);
const RETRANSMIT_REASON: Field = RETRANSMIT_COUNT.then(1);
const NACK_CODE: Field = RETRANSMIT_REASON.then(8);
const FORWARD_HOPS: Field = NACK_CODE.then(4);
const RX_BUFFER_LEVEL: Field = FORWARD_HOPS.then(5);
const CC_METADATA: Field = RX_BUFFER_LEVEL.then(24);
// Fraction (10 bits), then integer part (11 bits): together the window as a fixed-point number.
const FCWND: Field = CC_METADATA.then(21);
const INTER_PACKET_GAP: Field = FCWND.then(20);
const NCWND: Field = INTER_PACKET_GAP.then(11);
const RETRANSMIT_TIMEOUT: Field = NCWND.then(24);
const NUM_PACKETS_ACKED: Field = RETRANSMIT_TIMEOUT.then(10);
const EACK_DROP: Field = NUM_PACKETS_ACKED.then(1);
const EACK: Field = EACK_DROP.then(1);
const RESERVED: Field = EACK.then(8);
const EVENT_QUEUE_SELECT: Field = RESERVED.then(2);
const DELAY_SELECT: Field = EVENT_QUEUE_SELECT.then(2);
const FABRIC_MARKER: Field = DELAY_SELECT.then(24);
const NIC_MARKER: Field = FABRIC_MARKER.then(24);
const NCWND_DIRECTION: Field = NIC_MARKER.then(1);
const BASE_DELAY_TARGET: Field = NCWND_DIRECTION.then(24);
const DELAY_STATE: Field = BASE_DELAY_TARGET.then(24);
const RTT_STATE: Field = DELAY_STATE.then(24);
const CC_OPAQUE: Field = RTT_STATE.then(2);
const ECN_ACCUMULATED: Field = CC_OPAQUE.then(14);
const RESERVED_TAIL: Field = ECN_ACCUMULATED.then(107);
const GENERATION: Field = RESERVED_TAIL.then(1);
const _: () = assert!(GENERATION.end() == ENTRY_BITS);

impl Event {
    /// Writes the 64-byte entry (F-10.6.2.1-2 to F-10.6.2.1-13). Reserved bits are 0.
    #[inline(always)]
    pub fn encode(&self, entry: &mut Entry) {
        clear(entry);
        CONNECTION_ID.put(entry, self.connection_id);
        EVENT_TYPE.put(entry, self.event_type.0 as u32);
        T1.put(entry, self.t1.0);
        T2.put(entry, self.t2.0);
        T3.put(entry, self.t3.0);
        T4.put(entry, self.t4.0);
        RETRANSMIT_COUNT.put(entry, self.retransmit_count as u32);
        RETRANSMIT_REASON.put(entry, self.retransmit_reason.0 as u32);
        NACK_CODE.put(entry, self.nack_code.0 as u32);
        FORWARD_HOPS.put(entry, self.forward_hops as u32);
        RX_BUFFER_LEVEL.put(entry, self.rx_buffer_level as u32);
        CC_METADATA.put(entry, self.cc_metadata);
        FCWND.put(entry, self.fcwnd.0);
        INTER_PACKET_GAP.put(entry, self.inter_packet_gap.0);
        NCWND.put(entry, self.ncwnd as u32);
        RETRANSMIT_TIMEOUT.put(entry, self.retransmit_timeout.0);
        NUM_PACKETS_ACKED.put(entry, self.num_packets_acked as u32);
        EACK_DROP.put(entry, self.eack_drop as u32);
        EACK.put(entry, self.eack as u32);
        EVENT_QUEUE_SELECT.put(entry, self.event_queue_select as u32);
        DELAY_SELECT.put(entry, self.delay_select.0 as u32);
        FABRIC_MARKER.put(entry, self.fabric_window_time_marker.0);
        NIC_MARKER.put(entry, self.nic_window_time_marker.0);
        NCWND_DIRECTION.put(entry, self.ncwnd_direction.0 as u32);
        BASE_DELAY_TARGET.put(entry, self.base_delay_target.0);
        DELAY_STATE.put(entry, self.delay_state.0);
        RTT_STATE.put(entry, self.rtt_state.0);
        CC_OPAQUE.put(entry, self.cc_opaque as u32);
        ECN_ACCUMULATED.put(entry, self.ecn_accumulated as u32);
        GENERATION.put(entry, self.generation as u32);
    }

    /// Reads an entry. Every bit pattern is an event. Reserved bits are ignored.
    #[inline(always)]
    pub const fn decode(&mut self, entry: &Entry) {
        self.connection_id = CONNECTION_ID.get(entry);
        self.event_type = EventType(EVENT_TYPE.get(entry) as u8);
        self.t1 = NicTime(T1.get(entry));
        self.t2 = NicTime(T2.get(entry));
        self.t3 = NicTime(T3.get(entry));
        self.t4 = NicTime(T4.get(entry));
        self.retransmit_count = RETRANSMIT_COUNT.get(entry) as u8;
        self.retransmit_reason = RetransmitReason(RETRANSMIT_REASON.get(entry) as u8);
        self.nack_code = NackCode(NACK_CODE.get(entry) as u8);
        self.forward_hops = FORWARD_HOPS.get(entry) as u8;
        self.rx_buffer_level = RX_BUFFER_LEVEL.get(entry) as u8;
        self.cc_metadata = CC_METADATA.get(entry);
        self.fcwnd = Fcwnd(FCWND.get(entry));
        self.inter_packet_gap = InterPacketGap(INTER_PACKET_GAP.get(entry));
        self.ncwnd = NCWND.get(entry) as u16;
        self.retransmit_timeout = Ticks(RETRANSMIT_TIMEOUT.get(entry));
        self.num_packets_acked = NUM_PACKETS_ACKED.get(entry) as u16;
        self.eack_drop = EACK_DROP.get(entry) as u8;
        self.eack = EACK.get(entry) as u8;
        self.event_queue_select = EVENT_QUEUE_SELECT.get(entry) as u8;
        self.delay_select = DelayCode(DELAY_SELECT.get(entry) as u8);
        self.fabric_window_time_marker = NicTime(FABRIC_MARKER.get(entry));
        self.nic_window_time_marker = NicTime(NIC_MARKER.get(entry));
        self.ncwnd_direction = Direction(NCWND_DIRECTION.get(entry) as u8);
        self.base_delay_target = Ticks(BASE_DELAY_TARGET.get(entry));
        self.delay_state = Ticks(DELAY_STATE.get(entry));
        self.rtt_state = Ticks(RTT_STATE.get(entry));
        self.cc_opaque = CC_OPAQUE.get(entry) as u8;
        self.ecn_accumulated = ECN_ACCUMULATED.get(entry) as u16;
        self.generation = GENERATION.get(entry) as u8;
        self.reserved = 0;
    }

    /// Returns the poll bit of an entry. The consumer has to check it before it reads the rest.
    #[inline(always)]
    pub const fn generation_of(entry: &Entry) -> u8 {
        GENERATION.get(entry) as u8
    }

    /// Sets the time at which a retransmit event is handled. Other events already have their time (D-70). The
    /// caller has to do this once, before an algorithm sees the event.
    #[inline(always)]
    pub const fn stamp(&mut self, now: NicTime) {
        if self.event_type.is(EventType::RETRANSMIT) {
            self.t4 = now;
        }
    }

    /// Returns the time of the event: T4, or the time that [`Self::stamp`] set (D-70).
    #[inline(always)]
    pub const fn now(&self) -> NicTime {
        self.t4
    }

    /// Returns true if the event is a measurement: an ACK or a NACK.
    #[inline(always)]
    pub const fn is_acknowledgement(&self) -> bool {
        self.event_type.0 <= EventType::NACK.0
    }

    /// Returns true for the NACK of a receiver without resources (F-10.3.3-1).
    #[inline(always)]
    pub const fn is_resource_exhaustion(&self) -> bool {
        self.event_type.is(EventType::NACK) && matches!(self.nack_code, NackCode::INSUFFICIENT_RESOURCES)
    }

    /// Returns the RTT for guards and gaps: T4 - T1 of this event, or the smoothed RTT if it is not a measurement
    /// (D-70).
    #[inline(always)]
    pub const fn rtt(&self) -> Ticks {
        if self.is_acknowledgement() { self.t4.since(self.t1) } else { self.rtt_state }
    }

    /// Returns the delays of an ACK or NACK event.
    #[inline(always)]
    pub const fn delays(&self) -> Delays {
        Delays::new(self.t1, self.t2, self.t3, self.t4)
    }

    /// Returns the delay that the connection selected, or the smoothed delay if the event is not a measurement.
    #[inline(always)]
    pub const fn delay(&self) -> Ticks {
        if self.is_acknowledgement() {
            self.delays().select(DelaySelect::from_code(self.delay_select))
        } else {
            self.delay_state
        }
    }
}

const _: () = assert!(size_of::<Event>() == 76 && align_of::<Event>() == 4);
