//! What happened on the cards of a world. It shows that random runs reach what they are to check.

use std::collections::BTreeMap;
use std::fmt;

use host_nic::HostNic;
use serde::Serialize;
use transport_common::connection::{Connection, Snapshot, State, Statistics, TRANSACTIONS};
use transport_common::counters::Counter;
use transport_common::packet_delivery::{PACKETS, Window};
use transport_common::transaction::{CompletionCode, TransactionState};

use crate::simulation::wraps::WRAPS;

/// How often each thing happened. What never happened is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Reached(BTreeMap<&'static str, u64>);

impl Reached {
    /// Returns how often something happened: a name of [`Counter`], a field of [`Statistics`], or what full queues, late
    /// acknowledgements and wrapping clocks did.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, count)| self.book(name, *count));
    }

    /// Adds the counters of a card.
    pub(in crate::simulation) fn add_card(&mut self, nic: &HostNic) {
        Counter::ALL.iter().for_each(|counter| self.book(counter.name(), nic.counter(*counter)));
    }

    /// Adds what happened on a connection.
    pub(in crate::simulation) fn add_connection(&mut self, s: &Statistics) {
        for (name, count) in [
            ("packets_sent", s.packets_sent),
            ("retransmitted_early", s.retransmitted_early),
            ("retransmitted_timeout", s.retransmitted_timeout),
            ("retransmitted_rnr", s.retransmitted_rnr),
            ("tail_probes", s.tail_probes),
            ("resyncs_sent", s.resyncs_sent),
            ("eacks_sent", s.eacks_sent),
            ("nacks_sent", s.nacks_sent),
            ("held", s.held),
            ("congestion_results", s.congestion_results),
            ("congestion_repairs", s.congestion_repairs),
            ("congestion_lost", s.congestion_lost),
            ("path_changes", s.path_changes),
            ("paced", s.paced),
        ] {
            self.book(name, count);
        }
    }

    /// Adds what a full completion queue did in a step of a connection.
    pub(in crate::simulation) fn add_full_queue(&mut self, connection: &Connection, lost_ends: usize) {
        if connection.initiator.completions_blocked != 0 {
            let ordered = connection.initiator.ordered != 0;
            self.book(if ordered { "steps_blocked_ordered" } else { "steps_blocked_unordered" }, 1);
        }
        self.book("ends_lost", lost_ends as u64);
    }

    /// Adds what a connection is after a step, if a peer that acknowledges late has made it so.
    pub(in crate::simulation) fn add_lateness(&mut self, entry: &Snapshot) {
        self.note("answers_full", !entry.connection.target.has_response_slot());
        self.note("answered_and_open", is_answered_and_open(entry));
    }

    /// Adds the wraps that a clock has passed while a timer ran.
    pub(in crate::simulation) fn add_wraps(&mut self, passed: [u64; WRAPS.len()]) {
        WRAPS.into_iter().zip(passed).for_each(|((name, _), count)| self.book(name, count));
    }

    /// Counts a thing once, if it happened.
    pub(in crate::simulation) fn note(&mut self, name: &'static str, happened: bool) {
        self.book(name, u64::from(happened));
    }

    fn book(&mut self, name: &'static str, count: u64) {
        if count != 0 {
            *self.0.entry(name).or_default() += count;
        }
    }
}

/// Whether the oldest request of a connection is answered and not acknowledged, and each request behind it is acknowledged.
fn is_answered_and_open(entry: &Snapshot) -> bool {
    let tx = &entry.connection.flow.delivery.request().tx;
    let behind = tx.in_flight().saturating_sub(1);
    let is_open = entry.connection.state == State::Open;
    if !is_open || behind == 0 || tx.acknowledged.count_ones() != behind {
        return false;
    }
    // The oldest one is never marked as acknowledged (F-9.1.1-1), so the others are.
    let packet = &entry.tables.delivery.packets[Window::Request as usize][tx.base.0 as usize % PACKETS];
    let transaction = &entry.tables.transactions[packet.rsn.0 as usize % TRANSACTIONS];
    let has_ended = matches!(transaction.state, TransactionState::Done | TransactionState::Reported);
    let is_kept = packet.rsn.distance_from(entry.connection.initiator.released) < TRANSACTIONS as u32;
    is_kept && has_ended && transaction.code == CompletionCode::Ack as u8
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, count)| writeln!(f, "{count:>12} {name}"))
    }
}
