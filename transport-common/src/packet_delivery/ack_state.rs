//! State of acknowledgement generation.

use crate::units::{Deadline, FalconTime};
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
    pub pending: u32,
    /// Error accumulator of the AR fraction (D-81).
    pub request_credit: u32,
    /// Measurements for the peer.
    pub report: PathReport,
    /// Always 0.
    pub reserved: u32,
}
