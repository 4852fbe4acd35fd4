//! State of DCQCN.

use crate::congestion::nic_time::NicTime;
use bytemuck::{Pod, Zeroable};

/// State of a connection. Zero is a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct DcqcnState {
    /// Current rate (R_C); 0 for a new connection.
    pub current_rate: u32,
    /// Target rate (R_T).
    pub target_rate: u32,
    /// Packets acknowledged since the last step of the byte counter.
    pub packets: u32,
    /// Last decay of alpha.
    pub(super) alpha_at: NicTime,
    /// Last step of the increase timer.
    pub(super) increased_at: NicTime,
    /// Estimate of congestion (alpha), stored as 1 - alpha in units of 2^-16: a new connection has alpha = 1.
    pub(super) one_minus_alpha: u16,
    /// ECN count of the last event, modulo 2^14.
    pub(super) ecn: u16,
    /// Steps of the increase timer since the last cut, at most 255.
    pub(super) timer_steps: u8,
    /// Steps of the byte counter since the last cut, at most 255.
    pub(super) byte_steps: u8,
    /// Always 0.
    pub(super) reserved: [u8; 2],
}

impl DcqcnState {
    /// Sets alpha in units of 2^-16, from 1 to 65536.
    #[inline(always)]
    pub(super) const fn set_alpha(&mut self, alpha: u32) {
        let alpha = if alpha == 0 { 1 } else { alpha };
        self.one_minus_alpha = (1u32 << 16).saturating_sub(alpha) as u16;
    }
}
