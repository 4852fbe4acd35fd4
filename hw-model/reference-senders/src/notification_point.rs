//! DCQCN's notification point: when a receiver tells a sender about marks (section 3.1 of the paper).

use fabric_model::{Span, Time};

/// Decides about a flow's notifications: one at once for the first marked packet, then at most one in N.
#[derive(Clone, Copy, Debug)]
pub struct NotificationPoint {
    interval: Span,
    last: Option<Time>,
    sent: u64,
}

impl NotificationPoint {
    /// `interval` is N, 50 us in the paper.
    #[must_use]
    pub const fn new(interval: Span) -> Self {
        Self { interval, last: None, sent: 0 }
    }

    /// Notifications sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// A marked packet has arrived. True: send a notification.
    pub fn on_marked(&mut self, now: Time) -> bool {
        let notifies = self.last.is_none_or(|last| now >= last + self.interval);
        if notifies {
            self.last = Some(now);
            self.sent += 1;
        }
        notifies
    }
}
