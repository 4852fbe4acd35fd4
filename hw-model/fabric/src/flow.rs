//! The flow hash by which switches spread flows over equal paths.

use super::header::{self, IpVersion};
use super::random::mix;

/// The hash of a flow. Over IPv4 it covers addresses, protocol and ports. Over IPv6 it covers addresses, next
/// header and flow label (RFC 6438). A sender that changes its source port or flow label gets another hash, and
/// maybe another path (F-10.6.2.2-4, D-80). Packets of one flow keep their path, and so their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowHash(u64);

impl FlowHash {
    /// Returns the hash of a flow over IPv4. `ports` are the source and the destination port.
    #[must_use]
    pub const fn ipv4(source: [u8; 4], destination: [u8; 4], protocol: u8, ports: [u16; 2]) -> Self {
        let addresses = (u32::from_be_bytes(source) as u64) << 32 | u32::from_be_bytes(destination) as u64;
        let rest = (protocol as u64) << 32 | (ports[0] as u64) << 16 | ports[1] as u64;
        Self(mix(mix(addresses ^ 4) ^ rest))
    }

    /// Returns the hash of a flow over IPv6. `flow_label` has 20 bits.
    #[must_use]
    pub const fn ipv6(source: [u8; 16], destination: [u8; 16], next_header: u8, flow_label: u32) -> Self {
        let source = u128::from_be_bytes(source);
        let destination = u128::from_be_bytes(destination);
        let mut hash = mix((source >> 64) as u64 ^ 6);
        hash = mix(hash ^ source as u64);
        hash = mix(hash ^ (destination >> 64) as u64);
        hash = mix(hash ^ destination as u64);
        Self(mix(hash ^ (next_header as u64) << 32 ^ flow_label as u64))
    }

    /// Returns the hash of a frame's flow. All frames that are not IP are one flow, because the switch reads no
    /// field that distinguishes them.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        match header::ip(frame) {
            None => Self(0),
            Some(IpVersion::V4) => {
                let (source, destination) = header::ipv4_addresses(frame);
                Self::ipv4(source, destination, header::protocol(frame), header::ports(frame))
            }
            Some(IpVersion::V6) => {
                let (source, destination) = header::ipv6_addresses(frame);
                Self::ipv6(source, destination, header::next_header(frame), header::flow_label(frame))
            }
        }
    }

    /// Chooses one of `choices` equal paths, 0 to `choices - 1`. `choices` should not be 0. `salt` differs between
    /// switches, so that the second switch on the path does not repeat the choice of the first.
    #[must_use]
    pub const fn choose(self, salt: u64, choices: usize) -> usize {
        ((mix(self.0 ^ mix(salt)) as u128 * choices as u128) >> 64) as usize
    }
}
