//! RoCEv2's go-back-N and DCQCN, compared with a reference in floating point.

use clocked::{Cycle, RingBitmap};
use proptest::prelude::*;

use crate::logic::{Plain, Value};
use crate::protocols::{DcqcnState, RoceDcqcn};
use crate::{Incoming, Kind, Periodic, Protocol, View};

use super::{CLOCK, Session};

type L = Plain<2>;

#[test]
fn a_negative_acknowledgment_goes_back() {
    let roce = RoceDcqcn { window: 10, rto: 20_000, ..RoceDcqcn::new(CLOCK, 100_000_000_000, 1_500) };
    let mut session = Session::new(roce);
    session.sent();
    session.packet(Kind::Ack, 2, None, 0);
    assert_eq!(session.sent(), [10, 11]);
    session.packet(Kind::Nack, 5, None, 0);
    session.wait(100);
    assert_eq!(
        session.sent(),
        [5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
        "all segments from the expected one on, then new ones"
    );
    session.wait_for_timeout();
    assert_eq!(session.sent(), [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
}

#[test]
fn a_notification_cuts_the_rate_and_time_brings_it_back() {
    let mut session = Session::new(RoceDcqcn::new(CLOCK, 40_000_000_000, 1_000));
    let rate = |session: &Session<RoceDcqcn>| CLOCK.bits_per_second(session.status().user.rate.0);
    let target = |session: &Session<RoceDcqcn>| CLOCK.bits_per_second(session.status().user.target.0);
    assert_eq!(rate(&session), 40_000_000_000);
    let start = session.clock.now();
    session.packet(Kind::Cnp, 0, None, 0);
    // Alpha starts as 1, so the rate is halved.
    assert_eq!((rate(&session), target(&session)), (20_000_000_000, 40_000_000_000));
    // K and T are 55 us, which are 5500 cycles. Each step of fast recovery goes half of the way.
    let wait_until = |session: &mut Session<RoceDcqcn>, time: u64| {
        while session.clock.now() < start + time {
            session.wait(1);
        }
    };
    wait_until(&mut session, 5_600);
    assert_eq!(rate(&session), 30_000_000_000);
    assert_eq!(session.status().user.alpha.0, (1 << 20) - (1 << 12), "decayed by 1/256");
    wait_until(&mut session, 4 * 5_500 + 100);
    assert_eq!((rate(&session), target(&session)), (38_750_000_000, 40_000_000_000));
    // After that the target rises by 40 Mb/s, but not above the line rate.
    wait_until(&mut session, 5 * 5_500 + 100);
    assert_eq!((rate(&session), target(&session)), (39_375_000_000, 40_000_000_000));
    session.packet(Kind::Cnp, 0, None, 0);
    let alpha = (0..5).fold(1.0, |alpha, _| alpha * (255.0 / 256.0));
    let expected = 39_375e6 * (1.0 - alpha / 2.0);
    assert!((rate(&session) as f64 - expected).abs() < 1e6, "{} against {expected}", rate(&session));
    assert_eq!(session.status().user.time_stage.0, 0);
}

/// The algorithm of the paper, figure 7, in floating point. Times and segments are those that the hardware sees.
#[derive(Clone, Debug)]
struct Reference {
    line: f64,
    rate: f64,
    target: f64,
    alpha: f64,
    limited: bool,
    time_stage: u32,
    segment_stage: u32,
}

impl Reference {
    fn notified(&mut self, min_rate: f64) {
        self.target = self.rate;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(min_rate);
        self.alpha = self.alpha * 255.0 / 256.0 + 1.0 / 256.0;
        (self.limited, self.time_stage, self.segment_stage) = (true, 0, 0);
    }

    fn increased(&mut self, config: &RoceDcqcn) {
        let fast = u32::from(config.fast_recovery);
        let (low, high) = (self.time_stage.min(self.segment_stage), self.time_stage.max(self.segment_stage));
        if high >= fast {
            let step = if low > fast {
                f64::from(low - fast) * f64::from(config.hyper_increase)
            } else {
                config.additive_increase.into()
            };
            self.target = (self.target + step).min(self.line);
        }
        self.rate = (self.rate + self.target) / 2.0;
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Notification,
    Decay,
    Time,
    Segments,
}

fn view(now: u64, total_sent: u64) -> View<L> {
    View {
        now: Value(now),
        window_start: Value(0),
        window_size: Value(128),
        next_new: Value(0),
        data_left: Value(100),
        total_sent: Value(total_sent),
        timer_period: Value(1),
        acked: RingBitmap::EMPTY,
        marked: RingBitmap::EMPTY,
        retransmitted: RingBitmap::EMPTY,
    }
}

fn incoming(is_cnp: bool, flow: View<L>) -> Incoming<L> {
    Incoming {
        is_ack: !is_cnp,
        is_nack: false,
        is_pull: false,
        is_cnp,
        cumulative: Value(0),
        has_selective: false,
        selective: Value(0),
        newly_selective: false,
        data: Value(0),
        newly_acked: Value(0),
        old_window_start: Value(0),
        flow,
    }
}

proptest! {
    /// Any sequence of events leads to the same rate, to within a thousandth.
    #[test]
    fn rates_follow_the_reference(
        events in prop::collection::vec(
            prop_oneof![
                2 => Just(Event::Notification), 3 => Just(Event::Decay),
                8 => Just(Event::Time), 4 => Just(Event::Segments),
            ],
            1..300,
        ),
    ) {
        let config = RoceDcqcn::new(CLOCK, 40_000_000_000, 1_000);
        let line = f64::from(config.line_rate);
        let mut reference = Reference {
            line, rate: line, target: line, alpha: 1.0, limited: false, time_stage: 0, segment_stage: 0,
        };
        let mut state: DcqcnState<L> = config.initial::<L>(Value(0)).state;
        let (mut now, mut total) = (Cycle(1_000), 5u64);
        for event in events {
            now = now + 7;
            match event {
                Event::Notification => {
                    reference.notified(config.min_rate.into());
                    (_, state) = config.incoming::<L>(&incoming(true, view(now.0, total)), &state);
                }
                Event::Segments => {
                    let mut left = u64::from(config.increase_segments);
                    if state.limited.0 == 1 {
                        left -= total.wrapping_sub(state.counted_from.0);
                    }
                    total += left;
                    if reference.limited {
                        reference.segment_stage += 1;
                        reference.increased(&config);
                    }
                    (_, state) = config.incoming::<L>(&incoming(false, view(now.0, total)), &state);
                }
                Event::Decay | Event::Time => {
                    // Only one of the two timers may expire.
                    let decays = matches!(event, Event::Decay);
                    let due = if decays { &mut state.alpha_due } else { &mut state.increase_due };
                    *due = Value(now.0);
                    let other = if decays { &mut state.increase_due } else { &mut state.alpha_due };
                    *other = Value(now.0 + 1);
                    if reference.limited && decays {
                        reference.alpha *= 255.0 / 256.0;
                    } else if reference.limited {
                        reference.time_stage += 1;
                        reference.increased(&config);
                    }
                    let input = Periodic { timer_expired: false, flow: view(now.0, total) };
                    (_, state) = config.periodic::<L>(&input, &state);
                }
            }
            let close = |model: u64, reference: f64| (model as f64 - reference).abs() <= 2.0 + reference * 1e-3;
            prop_assert!(close(state.rate.0, reference.rate), "{state:?} against {reference:?}");
            prop_assert!(close(state.target.0, reference.target), "{state:?} against {reference:?}");
            let alpha = state.alpha.0 as f64 / f64::from(1 << 20);
            prop_assert!((alpha - reference.alpha).abs() < 5e-4, "{alpha} against {}", reference.alpha);
        }
    }
}
