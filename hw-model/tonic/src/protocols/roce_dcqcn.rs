//! RoCEv2 with DCQCN: go-back-N (InfiniBand specification, volume 1, 9.7) and the rate control of Zhu et al.,
//! "Congestion control for large-scale RDMA deployments", SIGCOMM 2015, with the parameters of Zhu et al., "ECN or
//! delay", CoNEXT 2016.

use crate::logic::{Flag, Logic, UserState, Word};
use crate::parameters::Frequency;
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

/// The number of fraction bits of alpha.
const ALPHA_BITS: u32 = 20;
/// Alpha's gain g is 2^-8.
const GAIN_BITS: u32 = 8;

/// RoCEv2 with DCQCN. Rates are in bytes per [`RATE_CYCLES`](crate::RATE_CYCLES), times in cycles.
#[derive(Clone, Copy, Debug)]
pub struct RoceDcqcn {
    /// The window of segments that the sender keeps track of.
    pub window: u16,
    /// Retransmission timeout.
    pub rto: u64,
    /// Line rate, at which a flow starts. At most 2^28.
    pub line_rate: u32,
    /// The lowest rate.
    pub min_rate: u32,
    /// Additive increase R_AI.
    pub additive_increase: u32,
    /// Hyper increase R_HAI.
    pub hyper_increase: u32,
    /// Alpha decays if no notification comes for this time (K).
    pub alpha_timer: u64,
    /// Time between increases (T).
    pub increase_timer: u64,
    /// Segments between increases (B).
    pub increase_segments: u32,
    /// Fast recovery ends when the count of increases by time or by segments reaches this value (F).
    pub fast_recovery: u8,
}

impl RoceDcqcn {
    /// Returns the default parameters: K = T = 55 us, B = 10 MB, F = 5, R_AI = 40 Mb/s, R_HAI = 400 Mb/s.
    #[must_use]
    pub const fn new(clock: Frequency, bits_per_second: u64, segment_bytes: u32) -> Self {
        Self {
            window: 256,
            rto: clock.cycles(1_000_000),
            line_rate: clock.rate(bits_per_second) as u32,
            min_rate: clock.rate(10_000_000) as u32,
            additive_increase: clock.rate(40_000_000) as u32,
            hyper_increase: clock.rate(400_000_000) as u32,
            alpha_timer: clock.cycles(55_000),
            increase_timer: clock.cycles(55_000),
            increase_segments: 10_000_000 / segment_bytes,
            fast_recovery: 5,
        }
    }
}

crate::user_state!(
    /// The state of DCQCN. Go-back-N needs no state.
    pub struct DcqcnState {
        /// Set after the first notification. The rate is then controlled.
        limited: 1,
        /// Current rate R_C.
        rate: 29,
        /// Target rate R_T.
        target: 29,
        /// Congestion estimate, a fraction.
        alpha: 21,
        /// The cycle in which alpha decays next.
        alpha_due: 48,
        /// The cycle of the next increase by time.
        increase_due: 48,
        /// The low bits of `total_sent` at the last increase by segments.
        counted_from: 32,
        /// Increases by time since the last notification.
        time_stage: 8,
        /// Increases by segments since the last notification.
        segment_stage: 8,
    }
);

impl RoceDcqcn {
    /// Returns the target and the current rate after an increase, with the stages that it reaches.
    fn increased<L: Logic>(&self, state: &DcqcnState<L>) -> (L::Word, L::Word) {
        let fast = L::word(self.fast_recovery.into());
        let (low, high) =
            (state.time_stage.min(state.segment_stage), state.time_stage.max(state.segment_stage));
        let hyper = (low - fast) * L::word(self.hyper_increase.into());
        let step = fast.below(low).choose(hyper, L::word(self.additive_increase.into()));
        let raised = (state.target + step).min(L::word(self.line_rate.into()));
        let target = high.below(fast).choose(state.target, raised);
        (target, (target + state.rate) >> 1)
    }
}

impl Protocol for RoceDcqcn {
    const NAME: &'static str = "roce_dcqcn";
    const CREDIT: Credit = Credit::Rate;
    type State<L: Logic> = DcqcnState<L>;

    fn initial<L: Logic>(&self, _first: L::Word) -> Initial<DcqcnState<L>> {
        let state = DcqcnState {
            rate: L::word(self.line_rate.into()),
            target: L::word(self.line_rate.into()),
            alpha: L::word(1 << ALPHA_BITS),
            ..DcqcnState::from_words(|_| L::word(0))
        };
        let window_size = self.window.into();
        Initial { state, window_size, timer_period: self.rto, rate: self.line_rate, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &DcqcnState<L>) -> (Decision<L>, DcqcnState<L>) {
        let zero = L::word(0);
        let flow = &input.flow;
        // The byte counter, counted in segments.
        let segments = L::word(self.increase_segments.into());
        let sent = (flow.total_sent - state.counted_from).low(32);
        let counted = state.limited.is_set() & segments.at_most(sent);
        let stage = (state.segment_stage + counted.word()).min(L::word(255));
        let (target, rate) = self.increased::<L>(&DcqcnState { segment_stage: stage, ..*state });

        let cut = (state.rate * state.alpha) >> (ALPHA_BITS + 1);
        let cut_rate = (state.rate - cut).max(L::word(self.min_rate.into()));
        let decayed = state.alpha - (state.alpha >> GAIN_BITS);
        let cnp = input.is_cnp;
        let next = DcqcnState {
            limited: (state.limited.is_set() | cnp).word(),
            rate: cnp.choose(cut_rate, counted.choose(rate, state.rate)),
            target: cnp.choose(state.rate, counted.choose(target, state.target)),
            alpha: cnp.choose(decayed + L::word(1 << (ALPHA_BITS - GAIN_BITS)), state.alpha),
            alpha_due: cnp.choose(flow.now + L::word(self.alpha_timer), state.alpha_due),
            increase_due: cnp.choose(flow.now + L::word(self.increase_timer), state.increase_due),
            counted_from: cnp
                .choose(flow.total_sent, counted.choose(state.counted_from + segments, state.counted_from)),
            time_stage: cnp.choose(zero, state.time_stage),
            segment_stage: cnp.choose(zero, stage),
        };
        let decision = Decision {
            // Go back to the segment that the receiver expects.
            mark: input.is_nack,
            mark_to: flow.next_new,
            reset_timer: flow.window_start.follows(input.old_window_start) | input.is_nack,
            set_rate: cnp | counted,
            rate: next.rate,
            ..Decision::keep(flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &DcqcnState<L>) -> (Decision<L>, DcqcnState<L>) {
        let flow = &input.flow;
        let limited = state.limited.is_set();
        let decays = limited & state.alpha_due.at_most(flow.now);
        let increases = limited & state.increase_due.at_most(flow.now);
        let stage = (state.time_stage + L::word(1)).min(L::word(255));
        let (target, rate) = self.increased::<L>(&DcqcnState { time_stage: stage, ..*state });
        let next = DcqcnState {
            rate: increases.choose(rate, state.rate),
            target: increases.choose(target, state.target),
            alpha: decays.choose(state.alpha - (state.alpha >> GAIN_BITS), state.alpha),
            alpha_due: decays.choose(state.alpha_due + L::word(self.alpha_timer), state.alpha_due),
            increase_due: increases
                .choose(state.increase_due + L::word(self.increase_timer), state.increase_due),
            time_stage: increases.choose(stage, state.time_stage),
            ..*state
        };
        let decision = Decision {
            mark: input.timer_expired,
            mark_to: flow.next_new,
            set_rate: increases,
            rate: next.rate,
            ..Decision::keep(flow)
        };
        (decision, next)
    }

    fn due<L: Logic>(&self, state: &DcqcnState<L>) -> L::Word {
        state.limited.is_set().choose(state.alpha_due.min(state.increase_due), L::word(u64::MAX))
    }
}
