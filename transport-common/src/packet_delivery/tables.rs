//! What packet delivery keeps beside the context of a connection.

use super::transmit_window::packet_index;
use super::{NackState, PACKETS, Rack, TxPacket, Window};
use crate::ids::Psn;
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit, Zeroable};

/// Outstanding packets of both windows, by [`Window`].
pub type PacketTables = [PacketTable; 2];
/// Outstanding packets of one window, by PSN modulo [`PACKETS`].
pub type PacketTable = [TxPacket; PACKETS];

/// A packet to resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resend {
    /// Its window.
    pub window: Window,
    /// Its PSN.
    pub psn: Psn,
}

/// What packet delivery keeps beside the context: only a connection with packets in flight needs it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroable)]
pub struct DeliveryTables {
    /// Outstanding packets of both windows.
    pub packets: PacketTables,
    /// RACK-TLP.
    pub rack: Rack,
    /// NACK generation.
    pub nack: NackState,
}

/// The bytes of a [`DeliveryTables`] in a file. Any bytes are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Zeroable)]
pub struct DeliveryTablesBits {
    packets: [[<TxPacket as CheckedBitPattern>::Bits; PACKETS]; 2],
    rack: <Rack as CheckedBitPattern>::Bits,
    nack: NackState,
}

// bytemuck derives nothing for arrays of types that are not `Pod`.

// SAFETY: no field has padding. The assertion proves that there is none between the fields.
unsafe impl NoUninit for DeliveryTables {}
// SAFETY: all fields take any bytes.
unsafe impl AnyBitPattern for DeliveryTablesBits {}
// SAFETY: both types have the same layout, field by field. A value is valid if its fields with invalid values are
// valid.
unsafe impl CheckedBitPattern for DeliveryTables {
    type Bits = DeliveryTablesBits;

    fn is_valid_bit_pattern(bits: &DeliveryTablesBits) -> bool {
        bits.packets.as_flattened().iter().all(TxPacket::is_valid_bit_pattern)
            && Rack::is_valid_bit_pattern(&bits.rack)
    }
}

const _: () = {
    let parts = size_of::<PacketTables>() + size_of::<Rack>() + size_of::<NackState>();
    assert!(size_of::<DeliveryTables>() == parts && size_of::<DeliveryTablesBits>() == parts);
};

impl DeliveryTables {
    /// Returns the packet at `psn` of `window`.
    #[inline(always)]
    pub fn packet(&mut self, window: Window, psn: Psn) -> &mut TxPacket {
        packet(&mut self.packets, window, psn)
    }
}

/// Returns the packet at `psn` of `window`.
#[inline(always)]
pub(super) fn packet(packets: &mut PacketTables, window: Window, psn: Psn) -> &mut TxPacket {
    &mut packets[window.index()][packet_index(psn)]
}
