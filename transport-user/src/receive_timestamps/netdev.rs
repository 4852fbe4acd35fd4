//! Asks the kernel which metadata a driver gives to XDP programs with a frame, by the generic netlink family
//! "netdev".

use std::io;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkSerializable, Nla, NlasIterator,
    ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::netlink::Requests;

/// Constants of linux/netdev.h.
const FAMILY: &str = "netdev";
const VERSION: u8 = 1;
const COMMAND_DEVICE_GET: u8 = 1;
const ATTRIBUTE_INTERFACE_INDEX: u16 = 1;
const ATTRIBUTE_RX_METADATA: u16 = 5;
const RX_METADATA_TIMESTAMP: u64 = 1;

/// Returns whether the driver of the interface with `index`, in the calling thread's network namespace, gives
/// receive timestamps to XDP programs.
pub(super) fn offers_timestamps(index: u32) -> io::Result<bool> {
    let requests = Requests::open(NETLINK_GENERIC)?;
    let family = family(&requests)?;
    let mut question = GenlMessage::from_payload(Device(vec![DefaultNla::new(
        ATTRIBUTE_INTERFACE_INDEX,
        index.to_ne_bytes().to_vec(),
    )]));
    question.set_resolved_family_id(family);
    let Device(attributes) = ask(&requests, question)?;
    Ok(rx_metadata(&attributes) & RX_METADATA_TIMESTAMP != 0)
}

/// Returns the number of the family in this kernel.
fn family(requests: &Requests) -> io::Result<u16> {
    let nlas = vec![GenlCtrlAttrs::FamilyName(FAMILY.to_owned())];
    let question = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas });
    let answer: GenlCtrl = ask(requests, question)?;
    let id = answer.nlas.iter().find_map(|attribute| match attribute {
        GenlCtrlAttrs::FamilyId(id) => Some(*id),
        _ => None,
    });
    id.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the bits of the metadata that the driver gives to XDP programs. Returns 0 if the kernel does not have
/// the attribute.
fn rx_metadata(attributes: &[DefaultNla]) -> u64 {
    let attribute = attributes.iter().find(|attribute| attribute.kind() == ATTRIBUTE_RX_METADATA);
    let mut value = [0; 8];
    if let Some(attribute) = attribute.filter(|attribute| attribute.value_len() == value.len()) {
        attribute.emit_value(&mut value);
    }
    u64::from_ne_bytes(value)
}

/// Sends one request and returns the answer.
fn ask<F>(requests: &Requests, question: GenlMessage<F>) -> io::Result<F>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + std::fmt::Debug,
    GenlMessage<F>: NetlinkSerializable + NetlinkDeserializable,
{
    let answer = requests.ask(question)?.into_iter().next();
    answer.map(|answer| answer.payload).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `NETDEV_CMD_DEV_GET` and its answer.
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

    #[test]
    fn the_loopback_interface_hands_nothing_to_xdp() {
        assert!(!offers_timestamps(1).expect("the kernel knows the family"));
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = offers_timestamps(u32::MAX / 2).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn the_timestamps_bit_is_one_of_several() {
        let features =
            |bits: u64| rx_metadata(&[DefaultNla::new(ATTRIBUTE_RX_METADATA, bits.to_ne_bytes().to_vec())]);
        assert_eq!(features(7) & RX_METADATA_TIMESTAMP, 1);
        assert_eq!(features(6) & RX_METADATA_TIMESTAMP, 0);
        assert_eq!(rx_metadata(&[]), 0);
    }
}
