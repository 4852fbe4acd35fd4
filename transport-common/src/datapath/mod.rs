//! The path of a packet, in and out, written once for every platform (F-9.2.2, D-23).
//!
//! [`receive`] is the wire program, [`engine`] the transmit pipeline. Both work alike. A step of the connection,
//! the work that it requests and the result of that work happen in one lock hold. Counters, doorbells and the
//! packet follow. All access to packets, memory and maps goes through the narrow [`Platform`] interface.

mod emit;
mod engine;
pub mod exchange;
mod parse;
mod place;
mod platform;
mod receive;
mod scratch;

pub use emit::{FALCON_AT, MAX_FRAME_BYTES, UDP_AT, build};
pub use engine::{Turn, engine, redeliver, service};
pub use exchange::Exchange;
pub use parse::{mac_word, words};
pub use platform::{
    Atomic, Cells, CongestionQueues, Connections, Frames, Host, Locked, MAX_COPY, MAX_HEADERS,
    MAX_SUMMED_HEADERS, MIN_CELL_FRAME, MIN_FRAME, Memory, PREFIX_BYTES, Platform, Services, Verdict,
};
pub use receive::{accept, read, receive};
pub use scratch::{HEADER_BYTES, Network, STAGING_BYTES, Scratch, Serviced};
