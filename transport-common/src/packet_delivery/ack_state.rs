//! State of acknowledgement generation.

use crate::units::{Deadline, FalconTime, Ticks};
use bytemuck::{Pod, Zeroable};

/// What the receiver reports about the forward path (F-10.1-5, D-13).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PathReport {
    /// T1 of the last packet: its IV in ticks.
    pub t1: FalconTime,
    /// T2 of the last packet: local time in ticks.
    pub t2: FalconTime,
    /// Packets received with congestion experienced, modulo 2^14 (D-14).
    pub ecn_count: u16,
    /// Forward hops of the last packet, at most 15 (D-14).
    pub forward_hops: u8,
    /// Always 0.
    pub reserved: u8,
}

/// State of acknowledgement generation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct AckState {
    /// Latest time for an ACK of the packets since the last ACK.
    pub coalescing: Deadline,
    /// 1: an ACK is due at once, and was not sent yet.
    pub pending: u16,
    /// 1: a response asked the peer for a packet, whose frame can carry the pending ACK.
    pub frame_asked: u8,
    /// 1: an ACK that says nothing new was planned sooner, because a packet asked for it. The next ones keep their distance
    /// (D-93).
    pub hastened: u8,
    /// Error accumulator of the AR fraction (D-81).
    pub request_credit: u16,
    /// Packets received in a row that had been received before. Saturates.
    pub copies: u16,
    /// Measurements for the peer.
    pub report: PathReport,
    /// When the last ACK was sent.
    pub sent: FalconTime,
}

impl AckState {
    /// Notes a packet that had not been received before.
    #[inline(always)]
    pub fn new_received(&mut self) {
        self.copies = 0;
        self.hastened = 0;
    }

    /// Counts a packet that had been received before. Returns whether the peer seems not to get our
    /// acknowledgements: more than `threshold` such packets came in a row, and their number is a power of two. So a
    /// window of copies leads to a few attempts, not to one for each packet.
    #[inline(always)]
    pub fn copy_received(&mut self, threshold: u32) -> bool {
        self.copies = self.copies.saturating_add(1);
        u32::from(self.copies) > threshold && self.copies.is_power_of_two()
    }
}

/// State of NACK generation. It is stored beside the context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct NackState {
    /// When the last resource NACK was sent.
    pub resource: FalconTime,
    /// Always 0.
    pub reserved: u32,
}

impl NackState {
    /// Returns whether a resource NACK is sent now, and records it: the last one was sent `apart` ago or more. Such a
    /// NACK tells congestion control about the receiver, and the sender repeats the packet by its timeout in any case.
    /// So a storm of packets for which there is no room costs one NACK in that time (F-11-16, D-94).
    #[inline(always)]
    pub fn send_resource_nack(&mut self, now: FalconTime, apart: Ticks) -> bool {
        let send = now.since(self.resource) >= apart;
        if send {
            self.resource = now;
        }
        send
    }
}
