//! Asks the kernel's generic netlink family "netdev" what a driver can do for XDP.

use std::io;

use netlink_packet_core::{DecodeError, DefaultNla, Emitable, Nla, NlasIterator, ParseableParametrized};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::node::interface::netlink::Requests;
use crate::node::interface::netlink::generic::{Family, ask};

/// From linux/netdev.h.
const FAMILY: &str = "netdev";
const VERSION: u8 = 1;
const COMMAND_DEVICE_GET: u8 = 1;
const ATTRIBUTE_INTERFACE_INDEX: u16 = 1;
const ATTRIBUTE_XDP_FEATURES: u16 = 3;
const ATTRIBUTE_RX_METADATA: u16 = 5;
const RX_METADATA_TIMESTAMP: u64 = 1;

/// The current XDP features of a device. They can change: some drivers accept frames from XDP only while a program
/// is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XdpFeatures(u64);

impl XdpFeatures {
    /// Returns whether programs run in the driver (`NETDEV_XDP_ACT_BASIC`).
    pub(crate) fn native(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether the driver sends frames that XDP redirects to it (`NETDEV_XDP_ACT_NDO_XMIT`).
    pub(crate) fn sends(self) -> bool {
        self.0 & 4 != 0
    }
}

/// A netlink socket for the queries. It stays in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netdev {
    requests: Requests,
    family: u16,
}

impl Netdev {
    /// Opens the socket in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let requests = Requests::open(NETLINK_GENERIC)?;
        let family = Family::find(&requests, FAMILY)?.id;
        Ok(Self { requests, family })
    }

    /// Returns the XDP features of the interface with `index`.
    pub(crate) fn xdp_features(&self, index: u32) -> io::Result<XdpFeatures> {
        let Device(attributes) = self.device(index)?;
        Ok(XdpFeatures(bits(&attributes, ATTRIBUTE_XDP_FEATURES)))
    }

    /// Returns whether the driver of the interface with `index` passes receive timestamps to XDP programs.
    pub(crate) fn offers_timestamps(&self, index: u32) -> io::Result<bool> {
        let Device(attributes) = self.device(index)?;
        Ok(bits(&attributes, ATTRIBUTE_RX_METADATA) & RX_METADATA_TIMESTAMP != 0)
    }

    fn device(&self, index: u32) -> io::Result<Device> {
        let index = DefaultNla::new(ATTRIBUTE_INTERFACE_INDEX, index.to_ne_bytes().to_vec());
        let mut question = GenlMessage::from_payload(Device(vec![index]));
        question.set_resolved_family_id(self.family);
        ask(&self.requests, question)
    }
}

/// Returns a 64-bit attribute. If the kernel does not know the attribute, no bit is set.
fn bits(attributes: &[DefaultNla], kind: u16) -> u64 {
    let attribute = attributes.iter().find(|attribute| attribute.kind() == kind);
    let mut value = [0; 8];
    if let Some(attribute) = attribute.filter(|attribute| attribute.value_len() == value.len()) {
        attribute.emit_value(&mut value);
    }
    u64::from_ne_bytes(value)
}

/// The request `NETDEV_CMD_DEV_GET` and its answer.
#[derive(Debug)]
struct Device(Vec<DefaultNla>);

impl GenlFamily for Device {
    fn family_name() -> &'static str {
        FAMILY
    }

    fn command(&self) -> u8 {
        COMMAND_DEVICE_GET
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for Device {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Device {
    fn parse_with_param(bytes: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        let attribute = |nla: Result<netlink_packet_core::NlaBuffer<&[u8]>, DecodeError>| {
            nla.map(|nla| DefaultNla::new(nla.kind(), nla.value().to_vec()))
        };
        NlasIterator::new(bytes).map(attribute).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn netdev() -> Netdev {
        Netdev::open().expect("the kernel knows the family")
    }

    #[test]
    fn the_loopback_interface_hands_nothing_to_xdp_and_takes_nothing() {
        assert!(!netdev().offers_timestamps(1).expect("it is there"));
        let features = netdev().xdp_features(1).expect("it is there");
        assert!(!features.native() && !features.sends());
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = netdev().xdp_features(u32::MAX / 2).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_feature_is_one_bit_of_several() {
        let attributes = |value: u64| [DefaultNla::new(ATTRIBUTE_XDP_FEATURES, value.to_ne_bytes().to_vec())];
        let features = |value| XdpFeatures(bits(&attributes(value), ATTRIBUTE_XDP_FEATURES));
        assert!(features(7).native() && features(7).sends());
        assert!(features(3).native() && !features(3).sends());
        assert_eq!(bits(&attributes(7), ATTRIBUTE_RX_METADATA), 0);
    }
}
