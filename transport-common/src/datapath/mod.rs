//! The way of a packet, in and out, written once for every platform (F-9.2.2, D-23).
//!
//! [`receive`] is the wire program, [`engine`] the transmit pipeline. Both do the same dance: parse, one pure step
//! on the connection under its lock, carry out what it asked for, report back under the lock, send. Everything
//! that touches a packet, memory or a map goes through the narrow [`Platform`].

mod emit;
mod engine;
mod parse;
mod platform;
mod receive;
mod scratch;

pub use emit::{FALCON_AT, MAX_FRAME_BYTES};
pub use engine::{Turn, engine, redeliver};
pub use parse::{mac_word, words};
pub use platform::{Platform, Verdict};
pub use receive::receive;
pub use scratch::{
    Delivery, EventQueues, HEADER_BYTES, NO_CELL, Network, Packet, Report, STAGING_BYTES, Scratch,
    Transmission, TurnOf, UlpOut, delivery, ulp_header,
};

pub use crate::ulp::rdma::{Operation, operation};
