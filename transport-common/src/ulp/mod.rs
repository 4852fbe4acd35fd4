//! Upper layer protocols: what a request means. A ULP parses its headers, admits a request (with a verdict and a
//! place for the data) and answers it. It has no access to windows, PSNs or packets.
//!
//! [`Ulp`] is the boundary. Two protocols are behind it: [`rdma`], and [`block`] for the protocol type of NVMe. Each
//! connection has one of them. [`Protocol`] is the only place that distinguishes them (F-7.1-2, F-7.2-6). The packet
//! of another protocol is refused as that of a connection that its ULP does not know.

pub mod block;
mod boundary;
mod protocol;
pub mod rdma;

pub use boundary::Ulp;
pub use protocol::Protocol;
