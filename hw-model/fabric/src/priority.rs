//! The two queues of a link that trims: data, and headers that overtake data.

use std::collections::VecDeque;

use super::outgoing::Outgoing;

/// Maximum number of headers sent in a row while data waits. Then one frame of data is sent. Without this limit an
/// incast of headers would leave no capacity of the link for data (Handley et al., "Re-architecting datacenter
/// networks and stacks for low latency and high performance", 2017, section 3.1).
pub(super) const HEADERS_IN_A_ROW: u32 = 10;

/// Frames that wait for the wire. Each queue is first in, first out.
#[derive(Debug, Default)]
pub(super) struct PriorityQueues {
    headers: VecDeque<Outgoing>,
    data: VecDeque<Outgoing>,
    pub(super) header_bytes: u64,
    pub(super) data_bytes: u64,
    in_a_row: u32,
}

impl PriorityQueues {
    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.data.is_empty()
    }

    pub(super) fn push_header(&mut self, frame: Outgoing) {
        self.header_bytes += frame.bytes();
        self.headers.push_back(frame);
    }

    pub(super) fn push_data(&mut self, frame: Outgoing) {
        self.data_bytes += frame.bytes();
        self.data.push_back(frame);
    }

    /// Returns the newest frame in the data queue.
    pub(super) fn last_data(&self) -> Option<&Outgoing> {
        self.data.back()
    }

    /// Removes the newest frame from the data queue.
    pub(super) fn pop_last_data(&mut self) -> Option<Outgoing> {
        let frame = self.data.pop_back()?;
        self.data_bytes -= frame.bytes();
        Some(frame)
    }

    /// Removes the frame that is sent next.
    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        let is_turn_of_data = self.headers.is_empty() || self.in_a_row >= HEADERS_IN_A_ROW;
        if is_turn_of_data && let Some(frame) = self.data.pop_front() {
            self.data_bytes -= frame.bytes();
            self.in_a_row = 0;
            return Some(frame);
        }
        let frame = self.headers.pop_front()?;
        self.header_bytes -= frame.bytes();
        // Headers in a row count only while data waits.
        self.in_a_row = if self.data.is_empty() { 0 } else { self.in_a_row + 1 };
        Some(frame)
    }
}
