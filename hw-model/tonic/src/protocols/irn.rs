//! IRN (Mittal et al., "Revisiting network support for RDMA", SIGCOMM 2018): selective retransmission and a cap on
//! the segments in flight, for RDMA without a lossless network.
//!
//! A negative acknowledgment carries a cumulative acknowledgment and the segment that arrived out of order. It
//! begins loss recovery. The segment at the cumulative acknowledgment is sent again, then all other missing
//! segments below the highest one that is known to have arrived. New segments follow after these. Recovery ends
//! when all segments sent before it are acknowledged. The flow sends at line rate. IRN needs no congestion
//! control.

use crate::logic::{Flag, Logic, Word};
use crate::parameters::Frequency;
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

/// IRN.
#[derive(Clone, Copy, Debug)]
pub struct Irn {
    /// BDP-FC: the largest number of segments in flight.
    pub bdp_cap: u16,
    /// The timeout with at most `few` segments in flight, in cycles.
    pub rto_low: u64,
    /// The timeout with more segments in flight, in cycles.
    pub rto_high: u64,
    /// The largest number of segments in flight for which `rto_low` applies.
    pub few: u16,
    /// The line rate, in bytes per [`RATE_CYCLES`](crate::RATE_CYCLES).
    pub rate: u32,
}

impl Irn {
    /// Returns the configuration of the paper: a cap of 110 segments, a timeout of 100 us for up to 3 segments in
    /// flight and of 320 us for more.
    #[must_use]
    pub const fn new(clock: Frequency, bits_per_second: u64) -> Self {
        Self {
            bdp_cap: 110,
            rto_low: clock.cycles(100_000),
            rto_high: clock.cycles(320_000),
            few: 3,
            rate: clock.rate(bits_per_second) as u32,
        }
    }
}

crate::user_state!(
    /// The state of IRN.
    pub struct IrnState {
        /// Set during loss recovery.
        in_recovery: 1,
        /// Set if the low timeout has passed with many segments in flight. The rest of the high timeout then runs.
        extended: 1,
        /// One after the recovery sequence.
        recovery: 32,
        /// The next segment to consider for retransmission.
        next_lost: 32,
        /// The highest segment known to have arrived. The one before the window if none after its start has
        /// arrived.
        highest: 32,
    }
);

impl Protocol for Irn {
    const NAME: &'static str = "irn";
    const CREDIT: Credit = Credit::Rate;
    type State<L: Logic> = IrnState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<IrnState<L>> {
        let zero = L::word(0);
        let state = IrnState {
            in_recovery: zero,
            extended: zero,
            recovery: first,
            next_lost: first,
            highest: (first - L::word(1)).low(32),
        };
        let window_size = self.bdp_cap.into();
        Initial { state, window_size, timer_period: self.rto_low, rate: self.rate, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &IrnState<L>) -> (Decision<L>, IrnState<L>) {
        let one = L::word(1);
        let start = input.flow.window_start;
        let before = (start - one).low(32);
        let held = state.highest.later_segment(before);
        let highest = input.has_selective.choose(held.later_segment(input.selective), held);

        let was_in_recovery = state.in_recovery.is_set() & state.recovery.follows(start);
        let enters = input.is_nack & !was_in_recovery;
        let in_recovery = enters | was_in_recovery;
        let next_lost = enters.choose(start, state.next_lost.later_segment(start));
        // The whole range can be marked, because segments that have arrived are not marked.
        let lost = in_recovery & highest.follows(next_lost);

        let progress = !input.newly_acked.is(L::word(0));
        let next = IrnState {
            in_recovery: in_recovery.word(),
            extended: (state.extended.is_set() & !progress).word(),
            recovery: enters.choose(input.flow.next_new, state.recovery),
            next_lost: lost.choose(highest, next_lost),
            highest,
        };
        let decision = Decision {
            mark: lost,
            mark_from: next_lost,
            mark_to: highest,
            timer_period: progress.choose(L::word(self.rto_low), input.flow.timer_period),
            reset_timer: progress,
            ..Decision::keep(&input.flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &IrnState<L>) -> (Decision<L>, IrnState<L>) {
        let one = L::word(1);
        let flow = &input.flow;
        let start = flow.window_start;
        let many = L::word(self.few.into()).below(flow.in_flight());
        let extends = many & !state.extended.is_set();
        // A timeout begins loss recovery, or restarts it from the window's start.
        let behind = start.segments_on(one).later_segment(state.highest);
        let next = IrnState {
            in_recovery: extends.choose(state.in_recovery, one),
            extended: extends.word(),
            recovery: extends.choose(state.recovery, flow.next_new),
            next_lost: extends.choose(state.next_lost, behind),
            highest: state.highest,
        };
        let rest = L::word(self.rto_high - self.rto_low);
        let decision = Decision {
            mark: input.timer_expired & !extends,
            mark_to: behind,
            timer_period: extends.choose(rest, L::word(self.rto_low)),
            reset_timer: input.timer_expired,
            ..Decision::keep(flow)
        };
        (decision, next)
    }
}
