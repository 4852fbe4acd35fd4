//! Addresses as the datapath has them: in 16 bytes.

use std::net::IpAddr;

/// Returns an address in 16 bytes. An IPv4 address uses the first 4.
pub(crate) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            bytes
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Returns the address of 16 bytes. This is the inverse of [`address_bytes`].
pub(crate) fn address_from(bytes: [u8; 16], ip_version: u8) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    if ip_version == 4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(bytes) }
}
