//! A ULP that takes SENDs more slowly than they arrive. A SEND without a posted receive waits in receive cells.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use tiercel::{Connection, MemoryRegion};
use tiercel_node::Node;
use tokio::time::MissedTickBehavior;
use transport_common::counters::Counter;
use transport_common::queues::Completion;

use crate::setup::SEGMENT;

/// The largest number of posted receives that are not used.
const POSTED: u64 = 64;
/// How often the ULP posts receives.
const TURN: Duration = Duration::from_millis(2);
/// Number of SENDs that the ULP may catch up after a wait.
const SAVED: f64 = 32.0;

/// The application at the far end of a connection.
pub(super) struct Receiver<'a> {
    connection: &'a Connection,
    node: &'a Node,
    region: &'a MemoryRegion,
    /// SENDs that it takes in a second.
    per_second: f64,
    /// SENDs that it has taken.
    taken: Cell<u64>,
    /// Requests that wait for it, and the largest number of them.
    held: Cell<u64>,
    peak: Cell<u64>,
}

impl<'a> Receiver<'a> {
    /// Creates an application that takes so many bits of user data in a second.
    pub(super) fn new(
        connection: &'a Connection,
        node: &'a Node,
        region: &'a MemoryRegion,
        rate: f64,
    ) -> Self {
        let per_second = rate / (SEGMENT * 8) as f64;
        let [taken, held, peak] = [(); 3].map(|()| Cell::new(0));
        Self { connection, node, region, per_second, taken, held, peak }
    }

    /// Posts receives at the application's rate until all senders are done.
    pub(super) async fn serve(&self, done: &Cell<bool>) -> Result<()> {
        let (mut posted, mut credit, mut before) = (0u64, 0.0, Instant::now());
        let mut ticks = tokio::time::interval(TURN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut completions = [Completion::default(); 64];
        while !done.get() {
            ticks.tick().await;
            loop {
                let count = self.connection.poll(&mut completions);
                self.taken.set(self.taken.get() + count as u64);
                if count < completions.len() {
                    break;
                }
            }
            let now = Instant::now();
            credit = (credit + (now - before).as_secs_f64() * self.per_second).min(SAVED);
            before = now;
            while credit >= 1.0 && posted - self.taken.get() < POSTED {
                self.connection.post_receive(self.region, 0, SEGMENT as u32, posted)?;
                posted += 1;
                credit -= 1.0;
            }
            let window = self.connection.info()?.data_rx;
            let held = window.received - window.acknowledged.min(window.received);
            self.held.set(held.into());
            self.peak.set(self.peak.get().max(held.into()));
        }
        Ok(())
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken.get() * SEGMENT
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held.get() * SEGMENT
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak.get() * SEGMENT
    }

    /// Returns the number of requests that did not fit.
    pub(super) fn refused(&self) -> Result<u64> {
        Ok(self.node.stats()?.counters[Counter::DropResources.name()])
    }
}
