//! DCQCN's notification point: decides when a receiver notifies a sender of marks (section 3.1 of the paper).

use fabric_model::{Span, Time};

/// The notifications of one flow: one immediately for the first marked packet, then at most one per interval N.
#[derive(Clone, Copy, Debug)]
pub struct NotificationPoint {
    interval: Span,
    last: Option<Time>,
    sent: u64,
}

impl NotificationPoint {
    /// Creates a notification point. `interval` is N, which is 50 us in the paper.
    #[must_use]
    pub const fn new(interval: Span) -> Self {
        Self { interval, last: None, sent: 0 }
    }

    /// Returns the number of notifications sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Handles a marked packet that has arrived. Returns true if the receiver must send a notification.
    pub fn on_marked(&mut self, now: Time) -> bool {
        let notifies = self.last.is_none_or(|last| now >= last + self.interval);
        if notifies {
            self.last = Some(now);
            self.sent += 1;
        }
        notifies
    }
}
