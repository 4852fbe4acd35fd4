//! Grace periods. After a grace period, no XDP program copies data for an object that was removed before it.
//!
//! A program that found a connection, a receive or a region before its removal may still copy into its memory on
//! another CPU. So memory, queue pairs and slots are freed in three steps. First, programs that start from now on
//! can no longer find them. Then a grace period passes. Then they are freed. [`bpf_call::Grace`] explains why this
//! is enough.

/// A requested grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A source of grace periods.
pub trait Quiescence: Send + Sync + std::fmt::Debug {
    /// Waits for a grace period: some milliseconds.
    fn wait(&self);
    /// Requests a grace period that begins now or later.
    fn begin(&self) -> Ticket;
    /// Returns whether the grace period is over.
    fn has_passed(&self, ticket: Ticket) -> bool;
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    /// Grace periods that the test ends.
    #[derive(Debug, Default)]
    pub(crate) struct ByHand {
        asked: AtomicU64,
        passed: AtomicU64,
    }

    impl ByHand {
        /// Makes grace periods that are over as soon as they are requested.
        pub(crate) fn over() -> Arc<Self> {
            Arc::new(Self { asked: AtomicU64::new(0), passed: AtomicU64::new(u64::MAX) })
        }

        /// Ends all requested grace periods.
        pub(crate) fn pass(&self) {
            self.passed.store(self.asked.load(SeqCst), SeqCst);
        }
    }

    impl Quiescence for ByHand {
        fn wait(&self) {}

        fn begin(&self) -> Ticket {
            Ticket(self.asked.fetch_add(1, SeqCst) + 1)
        }

        fn has_passed(&self, ticket: Ticket) -> bool {
            self.passed.load(SeqCst) >= ticket.0
        }
    }
}
