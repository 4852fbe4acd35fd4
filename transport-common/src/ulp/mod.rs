//! Upper layer protocols: the operation headers carried in Falcon payloads, and the RDMA ULP served in the
//! datapath.

pub mod rdma;
mod requester;
mod responder;

pub use requester::parse_operation;
pub(crate) use requester::{Answer, is_valid, request_payload, response_payload};
