//! A connection, and the application that writes to it.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use fabric_model::{Span, Time};
use host_nic::HostNic;
use transport_common::connection::{Connection, State};
use transport_common::queues::{Verb, WorkRequest};

use super::host::{Host, RKEY};
use super::plan::{BUFFER_BYTES, FlowPlan};
use super::record::FlowSample;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) host: u16,
    pub(super) card: usize,
    pub(super) slot: usize,
}

/// A running flow.
#[derive(Debug)]
pub struct Flow {
    plan: FlowPlan,
    pub(super) source: End,
    pub(super) destination: End,
    /// The index of the message that is being posted.
    current: usize,
    /// Bytes of this message that are posted.
    posted: u64,
    /// The memory offset of the next segment.
    offset: u64,
    /// Messages that are completely posted but not complete, with the RSN after their last segment.
    unfinished: VecDeque<(usize, u32)>,
    completions: Vec<Option<Time>>,
    /// Delays that the acknowledgements since the last sample report.
    delays: Delays,
}

#[derive(Clone, Copy, Debug, Default)]
struct Delays {
    sum: u64,
    greatest: Span,
    count: u64,
}

impl Flow {
    pub(super) fn new(plan: FlowPlan, source: End, destination: End) -> Self {
        let completions = vec![None; plan.messages.len()];
        Self {
            plan,
            source,
            destination,
            current: 0,
            posted: 0,
            offset: 0,
            unfinished: VecDeque::new(),
            completions,
            delays: Delays::default(),
        }
    }

    /// Returns the plan of the flow.
    #[must_use]
    pub fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// Returns the time when the last byte of each message was acknowledged, or `None` for incomplete messages.
    #[must_use]
    pub fn completions(&self) -> &[Option<Time>] {
        &self.completions
    }

    /// Returns true if all messages are complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.completions.iter().all(Option::is_some)
    }

    /// Posts the messages that are due, as far as the send queue has space.
    pub(super) fn post(&mut self, nic: &mut HostNic, now: Time) {
        while let Some(message) = self.plan.messages.get(self.current) {
            if message.at > now || now >= self.plan.until {
                return;
            }
            let segment = u64::from(self.plan.tuning.segment);
            let length = segment.min(message.bytes - self.posted);
            if self.offset + length > BUFFER_BYTES {
                self.offset = 0;
            }
            let work = WorkRequest {
                opcode: Verb::WRITE,
                length: length as u32,
                local_offset: self.offset,
                remote_address: self.offset,
                rkey: RKEY,
                ..WorkRequest::default()
            };
            let Ok(rsn) = nic.post(self.source.slot, work) else { return };
            self.offset += length;
            self.posted += length;
            if self.posted == message.bytes {
                self.unfinished.push_back((self.current, rsn.add(1).0));
                self.current += 1;
                self.posted = 0;
            }
        }
    }

    /// Records completed messages, and continues posting.
    pub(super) fn progress(&mut self, nic: &mut HostNic, now: Time) {
        let oldest = nic.queue_pair(self.source.slot).send_consumer.load(Ordering::Relaxed);
        while let Some(&(message, end)) = self.unfinished.front() {
            if oldest.wrapping_sub(end) as i32 > -1 {
                self.completions[message] = Some(now);
                self.unfinished.pop_front();
            } else {
                break;
            }
        }
        self.post(nic, now);
    }

    /// Records the fabric delay that an acknowledgement reports.
    pub(super) fn sample_delay(&mut self, delay: Span) {
        self.delays.sum += delay.0;
        self.delays.greatest = self.delays.greatest.max(delay);
        self.delays.count += 1;
    }

    /// Returns a sample of the connection. Its delays are those since the last sample.
    pub(super) fn sample(&mut self, hosts: &[Host]) -> FlowSample {
        let entry = |end: End| hosts[usize::from(end.host)].cards[end.card].nic.entry(end.slot);
        let Connection { state, flow, .. } = &entry(self.source).connection;
        let (endpoint, congestion) = (&flow.endpoint, &flow.congestion);
        let statistics = &entry(self.source).tables.statistics;
        let delays = core::mem::take(&mut self.delays);
        let path = &endpoint.path;
        FlowSample {
            fcwnd: congestion.fcwnd,
            ncwnd: congestion.ncwnd,
            rtt: congestion.rtt,
            mean_delay: delays.sum.checked_div(delays.count).map(Span),
            greatest_delay: (delays.count > 0).then_some(delays.greatest),
            received: entry(self.destination).tables.statistics.bytes_received,
            retransmissions: statistics.retransmissions(),
            retransmitted_early: statistics.retransmitted_early,
            retransmitted_timeout: statistics.retransmitted_timeout,
            tail_probes: statistics.tail_probes,
            entropy: if path.ip_version == 6 { path.flow_label } else { path.source_port.into() },
            alive: *state == State::Open,
        }
    }
}
