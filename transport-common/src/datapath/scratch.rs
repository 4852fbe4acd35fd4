//! The working memory of one frame.
//!
//! In the kernel each CPU's scratch map holds one of these, because the stack is 512 bytes. The processing of a
//! frame writes every field before it reads it. Nothing survives from frame to frame.

use crate::congestion::entry::Entry;
use crate::connection::Step;
use crate::units::Picoseconds;
#[cfg(not(target_arch = "bpf"))]
use crate::wire::PacketType;
use bytemuck::{CheckedBitPattern, Zeroable};

/// Values from the IP layer for the UDP datagram.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Network {
    /// Bytes after the IP header.
    pub payload_length: u32,
    /// Offset of the UDP header in the frame.
    pub udp_offset: u32,
    /// Sum of the pseudo header without its length field, from words in memory order.
    pub pseudo_sum: u64,
}

/// The connection that the engine services, and the reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Serviced {
    /// Time of the service.
    pub now: Picoseconds,
    /// Connection slot.
    pub slot: u32,
    /// 1: the service is due to its deadline.
    pub fired: u32,
}

/// Lengths of the headers in the frame that is being built, bytes.
///
/// Each results from one branch per kind of packet. Reading them back from here makes them unknown to the kernel's
/// verifier. Otherwise it would walk all the code after the branch once per kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct HeaderLengths {
    /// Falcon and ULP headers.
    pub falcon: u32,
    /// Ethernet and IP headers.
    pub network: u32,
}

/// Bytes of the header buffer.
pub const HEADER_BYTES: usize = 256;
/// Bytes of the payload staging buffer: a frame, and some space for padding a checksum.
pub const STAGING_BYTES: usize = 4096 + 64;

/// The working memory of one frame. Each field names its writer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Scratch {
    /// Written by the parser: the IP layer of the received frame.
    pub network: Network,
    /// Written by the datapath before a step of the connection, and by the step.
    pub step: Step,
    /// Written by the platform: an entry of a congestion queue.
    pub entry: Entry,
    /// Written by the engine: the connection that it services.
    pub serviced: Serviced,
    /// Written by the builder: lengths of the headers.
    pub lengths: HeaderLengths,
    /// Written by the builder: headers of the frame. The Falcon header is at [`super::FALCON_AT`].
    pub header: [u8; HEADER_BYTES],
    /// Written by the platform: staging buffer for checksums and cells.
    pub staging: [u8; STAGING_BYTES],
}

impl Scratch {
    /// Returns where the payload of the packet to send is, `length` bytes, in the node's memory. Without a payload there is no
    /// place, and this is 0: the step wrote none.
    #[inline(always)]
    pub const fn payload_place(&self, length: u32) -> u64 {
        if length == 0 { 0 } else { self.step.output.packet.ulp.memory_offset }
    }
}

#[cfg(not(target_arch = "bpf"))]
impl Scratch {
    /// Fills the scratch, except the staging buffer, with values that no run of the datapath may read before it has
    /// written them. A host calls it before each run. A run that reads what an earlier one left behind gives a
    /// wrong result then.
    pub fn poison(&mut self) {
        // The only byte other than 0 that is valid in every field, but for the types of packets.
        const POISON: u8 = 1;
        const BEFORE_STAGING: usize = core::mem::offset_of!(Scratch, staging);
        let scratch = core::ptr::from_mut(self);
        // SAFETY: the bytes are inside the scratch, and the reference is exclusive. The test below shows that the
        // result is valid.
        unsafe {
            scratch.cast::<u8>().write_bytes(POISON, BEFORE_STAGING);
            for kind in [
                &raw mut (*scratch).step.input.packet.kind,
                &raw mut (*scratch).step.input.packet.resync_type,
                &raw mut (*scratch).step.output.packet.kind,
                &raw mut (*scratch).step.output.packet.resync_type,
            ] {
                kind.write(PacketType::Eack);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_valid_in_every_field() {
        let mut s: Scratch = bytemuck::Zeroable::zeroed();
        s.poison();
        // SAFETY: the bytes of the value, all of which are initialised: first with zeros, then by the poison.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(&s).cast::<u8>(), size_of::<Scratch>())
        };
        assert!(bytemuck::checked::try_pod_read_unaligned::<Scratch>(bytes).is_ok());
        let before = core::mem::offset_of!(Scratch, staging);
        assert!(bytes[..before].iter().all(|byte| [1, PacketType::Eack as u8].contains(byte)));
        assert!(bytes[before..before + STAGING_BYTES].iter().all(|byte| *byte == 0));
    }
}
