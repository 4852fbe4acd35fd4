//! The network cards of the guests, and how a node is attached to each.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::network::WIRE_MTU;

/// A network card and a way to attach to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Nic {
    /// virtio_net with one queue, native XDP
    VirtioNet,
    /// virtio_net with four queues and two CPUs, native XDP
    VirtioNetQueues,
    /// virtio_net with one queue, generic XDP
    VirtioNetGeneric,
    /// e1000e, which has no native XDP: generic
    E1000e,
}

impl Nic {
    /// Returns QEMU's name of the device, with its properties.
    pub(crate) fn device(self) -> String {
        let virtio = format!("virtio-net-pci,host_mtu={WIRE_MTU}");
        match self {
            Self::VirtioNet | Self::VirtioNetGeneric => virtio,
            // One interrupt for each direction of a queue, and two more.
            Self::VirtioNetQueues => format!("{virtio},mq=on,vectors={}", 2 * self.queues() + 2),
            Self::E1000e => "e1000e".to_owned(),
        }
    }

    /// Returns the number of queues of the card and of its tap.
    pub(crate) fn queues(self) -> u32 {
        if self == Self::VirtioNetQueues { 4 } else { 1 }
    }

    /// Returns the number of CPUs of the guest.
    pub(crate) fn cpus(self) -> u32 {
        if self == Self::VirtioNetQueues { 2 } else { 1 }
    }

    /// Returns the options of `tiercel up`.
    pub(crate) fn up_options(self) -> &'static str {
        match self {
            Self::VirtioNet | Self::VirtioNetQueues => "",
            Self::VirtioNetGeneric | Self::E1000e => "--generic",
        }
    }

    /// Returns whether the card's driver has native XDP.
    pub(crate) fn has_native_xdp(self) -> bool {
        self != Self::E1000e
    }

    /// Returns the name that the table shows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio_net",
            Self::VirtioNetQueues => "virtio_net, 4 queues",
            Self::VirtioNetGeneric => "virtio_net, generic",
            Self::E1000e => "e1000e, generic",
        }
    }
}
