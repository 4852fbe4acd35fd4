//! Examples from the RFCs and the paper, worked by hand, and properties checked with slow reference
//! implementations.

mod dcqcn;
mod go_back_n;
mod new_reno;
mod retransmission_timer;
mod tcp_receiver;

use fabric_model::{Span, Time};

use super::TimeoutBounds;

/// One second before the first measurement, then 200 ms to one minute.
const TIMEOUT: TimeoutBounds = TimeoutBounds {
    initial: Span::from_millis(1_000),
    min: Span::from_millis(200),
    max: Span::from_millis(60_000),
};

/// The time `micros` microseconds after the beginning.
fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}
