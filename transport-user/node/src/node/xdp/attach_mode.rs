//! How the wire program is attached.

use bpf_call::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};

pub use tiercel::status::AttachMode;

use crate::node::interface::netlink::Interface;

/// Returns whether the program runs in the driver of a veth.
pub(crate) fn is_native_veth(mode: AttachMode, interface: &Interface) -> bool {
    mode == AttachMode::Native && interface.kind.as_deref() == Some("veth")
}

/// Returns the flags with which the kernel attaches it.
pub(super) fn flags(mode: AttachMode) -> u32 {
    match mode {
        AttachMode::Native => XDP_FLAGS_DRV_MODE,
        AttachMode::Generic => XDP_FLAGS_SKB_MODE,
    }
}
