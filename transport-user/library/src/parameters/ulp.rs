//! The upper layer protocol of a connection.

use serde::{Deserialize, Serialize};
use transport_common::ulp::Protocol;

/// The upper layer protocol of a connection (F-7.2-6). Both ends have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Ulp {
    /// RDMA: READ, WRITE, SEND, atomics (D-84).
    #[default]
    Rdma,
    /// The block protocol, with the protocol type of NVMe: READ and WRITE of whole blocks of 512 bytes in a region.
    Block,
}

impl Ulp {
    /// Returns whether it is RDMA.
    pub fn is_rdma(&self) -> bool {
        *self == Self::Rdma
    }

    /// Returns the datapath's number of it.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Rdma => Protocol::RDMA,
            Self::Block => Protocol::BLOCK,
        }
    }
}

impl From<Protocol> for Ulp {
    fn from(protocol: Protocol) -> Self {
        if protocol.is_block() { Self::Block } else { Self::Rdma }
    }
}
