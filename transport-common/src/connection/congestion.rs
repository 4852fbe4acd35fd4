//! Connects a connection to its congestion control: events, results, change of path.

use super::{Flow, Statistics, Step};
use crate::congestion::settings::{Placement, Settings};
use crate::counters::Counter;
use crate::units::Picoseconds;
use crate::verifier::walked_once;

impl Flow {
    /// Passes the event of the step to congestion control, at its placement.
    #[inline(always)]
    fn decide_event(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        settings: &Settings,
        now: Picoseconds,
    ) {
        let output = &mut s.output;
        let kernel = settings.placement == Placement::Kernel as u32;
        if !kernel && settings.placement != Placement::User as u32 {
            return;
        }
        self.congestion.describe(&mut output.event, settings, self.endpoint.local_cid.0);
        if kernel {
            statistics.congestion_events += 1;
            self.congestion.update(&mut output.event, settings, now, &mut output.outcome);
            self.apply_outcome(statistics, s, settings, now);
            return;
        }
        let admitted = self.congestion.admit(&s.input.event_queues, settings, now.ticks());
        if admitted.lost {
            statistics.congestion_lost += 1;
            output.report.raised.raise(Counter::CongestionEventLost);
        }
        output.report.raised.raise_index(Counter::EventAdmittedBelowFirst as u32 + admitted.verdict as u32);
        if admitted.verdict.is_admitted() {
            statistics.congestion_events += 1;
            output.report.event = 1;
        }
    }

    /// Applies the result in the step's output, and passes its effects to packet delivery and to the path.
    #[inline(always)]
    fn apply_outcome(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        settings: &Settings,
        now: Picoseconds,
    ) {
        statistics.congestion_results += 1;
        let applied = self.congestion.apply(&mut s.output.outcome, settings);
        if applied.repaired {
            statistics.congestion_repairs += 1;
            s.output.report.raised.raise(Counter::CongestionResultRepaired);
        }
        self.delivery.timeout_changed(applied.old_rto, self.congestion.rto);
        if applied.randomize_path {
            self.change_path(statistics, now);
        }
    }

    /// Selects another path for all packets from now on (D-80).
    #[inline(always)]
    fn change_path(&mut self, statistics: &mut Statistics, now: Picoseconds) {
        statistics.path_changes += 1;
        let who = (self.endpoint.peer_cid.0 as u64) << 40;
        // The last IV differs from packet to packet.
        let entropy = self.security.last_iv.0 ^ who ^ (now.ticks().0 as u64) << 32;
        self.endpoint.path.change(entropy);
    }

    /// Passes the event of the step, if there is one, to congestion control.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        settings: &Settings,
        now: Picoseconds,
    ) {
        if s.output.report.decide != 0 {
            decide_event(self, statistics, s, settings, now.0);
        }
    }

    /// Applies a congestion result that came through the queues. A result that the connection does not expect is
    /// dropped (D-73). Never inlined: it is rare where the kernel decides, and the caller has no stack for it.
    #[inline(never)]
    pub(super) fn on_result(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        settings: &Settings,
        now: Picoseconds,
    ) {
        let ours = self.endpoint.local_cid.0 == s.input.outcome.connection_id;
        if !ours || !self.congestion.expects_result(settings) {
            return s.output.report.raised.raise(Counter::CongestionResultUnexpected);
        }
        s.output.outcome = s.input.outcome;
        self.apply_outcome(statistics, s, settings, now);
    }

    /// Notes a packet that had been received before. If many come, our acknowledgements are probably lost, and they
    /// try another path: the peer's congestion control cannot move them (D-80 holds for each end). Never inlined: it
    /// is rare, and two callers would have a copy of it.
    #[inline(never)]
    pub(super) fn copy_received(
        &mut self,
        statistics: &mut Statistics,
        settings: &Settings,
        now: Picoseconds,
    ) {
        statistics.duplicates += 1;
        let threshold = settings.prepared.parameters().plb_timeout_threshold;
        if threshold != 0 && self.delivery.ack.copy_received(threshold) {
            self.change_path(statistics, now);
        }
    }
}

walked_once! {
    /// Does the work of [`Flow::decide`]. Never inlined: the stack of the BPF target is too small for an algorithm
    /// inside another step.
    fn decide_event(
        flow: &mut Flow,
        statistics: &mut Statistics,
        s: &mut Step,
        settings: &Settings;
        now: u64
    ) -> () {
        flow.decide_event(statistics, s, settings, Picoseconds(now));
    }
}
