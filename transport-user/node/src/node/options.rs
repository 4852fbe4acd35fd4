//! The options of a node.

use std::net::IpAddr;

use tiercel::backend::memory;
use tiercel::congestion::Algorithms;

use crate::node::engine::EngineOptions;
use crate::node::rate_update::RateUpdateOptions;
use crate::node::xdp::attach_mode::AttachMode;
use crate::node::xdp::transmit::Transmit;

/// Largest interface MTU for native XDP: a frame, its headroom and the kernel's data structures share one page.
pub const NATIVE_MTU: u32 = 3498;

/// Options with which a node is brought up.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Interface, in the calling thread's network namespace.
    pub interface: String,
    /// The node's address, IPv4 or IPv6.
    pub address: IpAddr,
    /// IP MTU to use, bytes, at most [`LARGEST_MTU`](tiercel::LARGEST_MTU). `None` stands for the interface's MTU, or
    /// [`LARGEST_MTU`](tiercel::LARGEST_MTU) if that is smaller.
    pub mtu: Option<u32>,
    /// Bytes of memory that the node's regions share, 256 MiB to 64 GiB, rounded up to a multiple of
    /// 16 MiB. The kernel takes them from the machine when the node comes up.
    pub memory: u64,
    /// Attach mode: native or generic.
    pub attach: AttachMode,
    /// Whether to replace an XDP program that is attached to the interface.
    pub force: bool,
    /// Have frames leave in this way, whatever the driver takes: for tests.
    #[doc(hidden)]
    pub transmit: Option<Transmit>,
    /// Whether to use the receive timestamps of the network card. With `None`, the node uses them if the driver
    /// has them and the card's clock can be compared with the machine's. With `Some(true)`, the node does not come
    /// up if the driver has none; timestamps that cannot be compared are counted and not used. With `Some(false)`,
    /// the node does not use them.
    pub hardware_timestamps: Option<bool>,
    /// Whether the XDP programs log rare events: refused packets, locks that could not be taken, and exchanges.
    /// The node writes them as log records of target `bpf`, four times per second. Needs the cargo feature
    /// `bpf-log`.
    pub bpf_log: bool,
    /// Options of the engine thread.
    pub engine: EngineOptions,
    /// Options of the rate update engine in user space.
    pub rate_update: RateUpdateOptions,
    /// Custom algorithms that connections may select by name. More can be registered later.
    pub algorithms: Algorithms,
}

impl NodeOptions {
    /// Makes options with native attachment, the interface's MTU and a sleeping engine. The node does not replace
    /// another XDP program.
    pub fn new(interface: impl Into<String>, address: IpAddr) -> Self {
        Self {
            interface: interface.into(),
            address,
            mtu: None,
            memory: memory::DEFAULT,
            attach: AttachMode::default(),
            force: false,
            transmit: None,
            hardware_timestamps: None,
            bpf_log: false,
            engine: EngineOptions::default(),
            rate_update: RateUpdateOptions::default(),
            algorithms: Algorithms::new(),
        }
    }
}
