//! Upper layer protocols: what a request means. A ULP parses its headers, admits a request (with a verdict and a
//! place for the data) and answers it. It has no access to windows, PSNs or packets.
//!
//! [`Ulp`] is the boundary. Two protocols are behind it: [`rdma`], and [`block`] for the protocol type of NVMe. Each
//! connection has one of them, and [`Protocol`] chooses between them (F-7.1-2, F-7.2-6). Two places outside of this
//! module know more than the trait: `datapath::emit` writes the headers of either protocol, and `connection` judges
//! the answer to a pull by `rdma::check_answer` for both. The types of requests and answers that both protocols use
//! are in [`rdma`]. The packet of another protocol is refused as that of a connection that its ULP does not know.

pub mod block;
mod boundary;
mod protocol;
pub mod rdma;

pub use boundary::Ulp;
pub use protocol::Protocol;
