//! How the wire program is attached.

use bpf_call::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use serde::{Deserialize, Serialize};

use crate::node::interface::netlink::Interface;

/// Attach mode of the wire program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// In the driver. This is the fast mode.
    #[default]
    Native,
    /// In the network stack. This mode works with every driver and is slower.
    Generic,
}

impl AttachMode {
    /// Returns the name that messages and `--json` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// Returns whether the program runs in the driver of a veth.
    pub(crate) fn is_native_veth(self, interface: &Interface) -> bool {
        self == Self::Native && interface.kind.as_deref() == Some("veth")
    }

    /// Returns the flags with which the kernel attaches it.
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Native => XDP_FLAGS_DRV_MODE,
            Self::Generic => XDP_FLAGS_SKB_MODE,
        }
    }
}
