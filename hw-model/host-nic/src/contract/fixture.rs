//! The node under test.

use transport_common::datapath::{Platform, Scratch};
use transport_common::queues::{BANK_BYTES, NodeConfig};
use transport_common::units::Picoseconds;

use crate::{FrameAtHand, HostConfig, HostNic, node_config};

/// Number of receive cells of the node under test.
pub(super) const CELLS: usize = 3;
/// Maximum length in bytes to which a frame under test can grow.
pub(super) const FRAME_LIMIT: u32 = 3408;
/// Bytes of memory of the node under test: two banks and some pages.
pub(super) const MEMORY: u64 = 2 * BANK_BYTES as u64 + (1 << 16);
/// The addresses of the node under test.
pub(super) const MAC: [u8; 6] = [2, 0x11, 0x22, 0x33, 0x44, 0x55];
pub(super) const IPV4: [u8; 4] = [10, 7, 9, 1];
pub(super) const IPV6: [u8; 16] = [0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns the node under test, which has not run yet. Its clock is at one second.
#[must_use]
pub fn node() -> HostNic {
    let node = NodeConfig { memory: MEMORY, ..node_config(MAC, IPV4, IPV6) };
    let config = HostConfig { cells: CELLS, ..HostConfig::new(node) };
    let mut nic = HostNic::new(config);
    nic.set_time(Picoseconds(1_000_000_000_000));
    nic
}

/// Creates platforms over one node, which is [`node`] at the beginning.
pub trait Fixture {
    /// The platform under test.
    type Platform<'a>: Platform
    where
        Self: 'a;

    /// Returns the platform of the node with this frame.
    fn with(&mut self, frame: FrameAtHand) -> Self::Platform<'_>;

    /// Changes the node, as an application, a rate update engine or a card does.
    fn arrange(&mut self, change: impl FnOnce(&mut HostNic));

    /// Returns what the node holds.
    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R;
}

pub(super) fn frame_of(bytes: Vec<u8>) -> FrameAtHand {
    FrameAtHand { bytes, limit: FRAME_LIMIT, arrival: None }
}

pub(super) fn scratch() -> Box<Scratch> {
    bytemuck::zeroed_box()
}
