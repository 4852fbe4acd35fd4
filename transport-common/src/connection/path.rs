//! Addresses and path entropy of a connection.

use bytemuck::{Pod, Zeroable};

/// First port of the range from which path entropy is drawn, and the bits that are drawn (D-80).
const ENTROPY_PORT: u16 = 49152;
const ENTROPY_PORT_MASK: u16 = 0x3fff;
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Addresses and path fields of the packets that this connection sends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Path {
    /// Own address; IPv4 in the first 4 bytes.
    pub source: [u8; 16],
    /// Peer's address; IPv4 in the first 4 bytes.
    pub destination: [u8; 16],
    /// Own MAC address.
    pub source_mac: [u8; 6],
    /// Next hop's MAC address.
    pub destination_mac: [u8; 6],
    /// UDP source port: path entropy on IPv4 (D-10, D-80).
    pub source_port: u16,
    /// 4 or 6.
    pub ip_version: u8,
    /// 1 when frames carry `vlan_tci`.
    pub vlan: u8,
    /// 802.1Q tag control information.
    pub vlan_tci: u16,
    /// IP version of the inner packets in tunnel mode, 4 or 6; 0 in transport mode (F-7.1.2-1).
    pub inner_version: u8,
    /// Always 0.
    pub reserved: u8,
    /// IPv6 flow label: path entropy on IPv6 (D-80).
    pub flow_label: u32,
}

impl Path {
    /// Returns the peer's address as words of its bytes in memory order. The bytes after an IPv4 address count as
    /// 0.
    pub fn peer(&self) -> [u64; 2] {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.destination[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        if self.ip_version == 6 {
            return [word(0), word(8)];
        }
        let [a, b, c, d, ..] = self.destination;
        [u64::from(u32::from_ne_bytes([a, b, c, d])), 0]
    }

    /// Selects another path for all packets from now on (D-80). The caller draws `entropy` from values that no
    /// outsider can choose.
    #[inline(always)]
    pub(super) fn change(&mut self, entropy: u64) {
        let mut x = entropy;
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 32;
        if self.ip_version == 6 {
            let label = x as u32 & FLOW_LABEL_MASK;
            self.flow_label = if label == self.flow_label { label ^ 1 } else { label };
        } else {
            let port = ENTROPY_PORT | (x as u16 & ENTROPY_PORT_MASK);
            self.source_port = if port == self.source_port { port ^ 1 } else { port };
        }
    }
}
