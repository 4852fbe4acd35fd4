//! State of the RACK-TLP extension.

use super::Window;
use super::WindowBits;
use crate::ids::Psn;
use crate::units::{Deadline, FalconTime, Ticks};
use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};

/// The most recently sent of the delivered packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum Latest {
    /// Not known.
    #[default]
    None = 0,
    /// It was in the data window.
    Data = 1,
    /// It was in the request window.
    Request = 2,
}

/// The probe of the last packet. There is one until something new is delivered (RFC 8985, 7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum Probe {
    /// None was queued since the last news.
    #[default]
    None = 0,
    /// It is in the data window and waits for the gate.
    QueuedData = 1,
    /// It is in the request window and waits for the gate.
    QueuedRequest = 2,
    /// It was sent, or is not needed any more.
    Sent = 3,
}

impl Probe {
    /// Returns the window of a probe that waits for the gate.
    #[inline(always)]
    pub(super) const fn queued(self) -> Option<Window> {
        if matches!(self, Self::QueuedData) {
            Some(Window::Data)
        } else if matches!(self, Self::QueuedRequest) {
            Some(Window::Request)
        } else {
            None
        }
    }
}

/// State of RACK-TLP for both windows. It is stored beside the context, with the packets. All 0 while it is off.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Rack {
    /// Bit n: the peer has received data packet `received_base` + n. It may not be acknowledged yet.
    pub received: WindowBits,
    /// Base of `received`. The window's base may be past it.
    pub received_base: Psn,
    /// When the most recently sent of the delivered packets was sent. This and the next two are valid with
    /// [`latest`](Self::latest).
    pub sent: FalconTime,
    /// Its PSN.
    pub psn: Psn,
    /// The time from then until its delivery was known.
    pub rtt: Ticks,
    /// A probe is sent at this time, if nothing arrives before.
    pub probe_at: Deadline,
    /// PSN of the last probe.
    pub probe_psn: Psn,
    /// The most recently sent of the delivered packets.
    pub latest: Latest,
    /// The probe.
    pub probe: Probe,
    /// 1: a packet arrived after a later one of its window, without a retransmission.
    pub reordered: u8,
    /// 1: the acknowledgement in work shows deliveries. It is here and not in a register, because the verifier would
    /// walk what follows for each value.
    pub news: u8,
}
