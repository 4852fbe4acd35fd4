//! Packet delivery as a step borrows it, and the first copy of a packet.

use super::transmit_window::packet_index;
use super::{DeliveryTables, PacketDelivery, PathClock, TxPacket, Window, rack};
use crate::ids::Psn;
use crate::units::FalconTime;

/// Packet delivery of one connection, borrowed for a step: its state in the context and its tables.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// What is in the context.
    pub state: &'a mut PacketDelivery,
    /// What is beside the context.
    pub tables: &'a mut DeliveryTables,
}

impl<'a> Delivery<'a> {
    /// Borrows packet delivery.
    #[inline(always)]
    pub const fn new(state: &'a mut PacketDelivery, tables: &'a mut DeliveryTables) -> Self {
        Self { state, tables }
    }

    /// Records a packet that is sent for the first time and assigns its PSN. The gate must be open (F-9.1.3).
    #[inline(always)]
    pub fn send(&mut self, packet: TxPacket, clock: &impl PathClock, now: FalconTime) -> (Window, Psn) {
        let window = packet.window();
        let psn = self.state.lane(window).tx.assign(packet.is_response());
        self.tables.packets[window.index()][packet_index(psn)] = packet;
        self.state.arm_retransmit(now.after(clock.rto()));
        if self.state.has_rack() {
            rack::arm_probe(self.state, &mut self.tables.rack, clock, now);
        }
        (window, psn)
    }
}
