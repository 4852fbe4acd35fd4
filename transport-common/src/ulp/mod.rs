//! Upper layer protocols: what a request means. A ULP parses and writes its headers, admits a request (with a verdict and
//! a place for the data) and answers it. It has no access to windows, PSNs or packets.
//!
//! [`Ulp`] is the boundary, and the only one: nothing outside of this module calls a function of one ULP. Two
//! protocols are behind it: [`rdma`], and [`block`] for the protocol type of NVMe. Each connection has one of them, and
//! [`Protocol`] chooses between them (F-7.1-2, F-7.2-6). The types of requests, answers and verdicts belong to no
//! protocol. The packet of another protocol is refused as that of a connection that its ULP does not know.

pub mod block;
mod boundary;
mod operation;
mod payload;
mod protocol;
pub mod rdma;
mod request;
mod responder;
mod verdict;

pub use boundary::Ulp;
pub use operation::{Operation, OperationKind, UlpCode};
pub use payload::{Headers, Payload};
pub use protocol::Protocol;
pub use request::{Completion, RECEIVE_QUEUE_DEPTH, ReceiveRequest, Verb, WorkFlags, WorkRequest};
pub use responder::{Readiness, Receives, Responder};
pub use verdict::{Answer, AnswerKind, AnswerVerdict, Atomic, Place, PlaceFlags, PullVerdict, PushVerdict};
