//! DCQCN with test vectors, and its behaviour over time against the paper's equations in floats.

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::dcqcn::dcqcn;
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::units::Ticks;

use crate::input::{ack, after, dirty, fcwnd, plain};

const RTT: u32 = 200;

/// One event `gap` ticks after the last, with `marks` new CE marks.
struct Flow {
    engine: EngineState,
    outcome: Outcome,
    now: u32,
    ecn: u16,
    parameters: Prepared,
}

impl Flow {
    fn new(window: f64) -> Self {
        let mut flow = Self {
            engine: EngineState::default(),
            outcome: Outcome::default(),
            now: 100_000,
            ecn: 16_380,
            parameters: plain().prepare().unwrap(),
        };
        let first = Event {
            fcwnd: fcwnd(window),
            rtt_state: Ticks(RTT),
            num_packets_acked: 0,
            ecn_accumulated: flow.ecn,
            ..ack(flow.now, RTT)
        };
        flow.run(&first);
        flow
    }

    fn run(&mut self, event: &Event) {
        self.outcome = dirty();
        dcqcn(event, &mut self.engine, &self.parameters, &mut self.outcome);
        assert!(self.outcome.is_legal(self.parameters.parameters()));
    }

    fn step(&mut self, gap: u32, marks: u16, acked: u16) -> f64 {
        self.now = (self.now + gap) & NicTime::MASK;
        self.ecn = (self.ecn + marks) % (1 << 14);
        let event = Event { num_packets_acked: acked, ecn_accumulated: self.ecn, ..ack(self.now, RTT) };
        self.run(&after(&self.outcome.clone(), event));
        self.window()
    }

    fn window(&self) -> f64 {
        f64::from(self.outcome.fcwnd.0) / 1024.0
    }
}

/// A new connection keeps its window. Counting starts from the first ECN count.
#[test]
fn starts_at_the_windows_rate() {
    let flow = Flow::new(40.0);
    assert!((flow.window() - 40.0).abs() < 0.01, "{}", flow.window());
    assert_eq!(flow.outcome.rtt_state, Ticks(RTT));
}

/// The first CNP halves the rate (alpha is 1). The next one within 50 us does nothing. Also across the wrap of the
/// count.
#[test]
fn a_mark_cuts_once_in_the_interval() {
    let mut flow = Flow::new(40.0);
    assert!((flow.step(10, 1, 1) - 20.0).abs() < 0.01);
    assert_eq!(flow.outcome.fabric_window_time_marker.0, flow.now);
    assert!((flow.step(300, 9, 1) - 20.0).abs() < 0.01, "381 ticks are 50 us");
    // alpha is still 1: (1 - g) + g.
    assert!((flow.step(81, 1, 1) - 10.0).abs() < 0.01);
}

/// The time of the last cut is moved along, so that 2.2 s without marks do not make it look recent (as
/// F-10.3.6-5).
#[test]
fn an_old_cut_does_not_hide_a_mark() {
    let mut flow = Flow::new(40.0);
    flow.step(10, 1, 1);
    let mut before = 0.0;
    for _ in 0..4 {
        before = flow.step(1 << 22, 0, 0);
    }
    assert!(flow.step(5, 1, 0) < before);
}

/// Loss counts as a CNP.
#[test]
fn loss_cuts() {
    let mut flow = Flow::new(40.0);
    let event = Event { event_type: EventType::RETRANSMIT, ..ack(flow.now + 500, 0) };
    flow.run(&after(&flow.outcome.clone(), event));
    assert!((flow.window() - 20.0).abs() < 0.01);
}

/// 3000 events with occasional marks, against the paper's equations: the difference is within 0.1 %.
#[test]
fn follows_the_papers_equations() {
    let p = Parameters::DEFAULT.dcqcn;
    let unit = f64::from(1 << 24);
    let (ai, hai, max) = (
        f64::from(p.additive_increment) / unit,
        f64::from(p.hyper_increment) / unit,
        f64::from(p.max_rate) / unit,
    );
    let gain = 1.0 / 256.0;
    let mut flow = Flow::new(40.0);
    let mut current = 40.0 / f64::from(RTT);
    let (mut target, mut alpha) = (current, 1.0);
    let (mut since_cut, mut since_decay, mut since_timer) = (9999, 0, 0);
    let (mut packets, mut timer, mut bytes) = (0, 0, 0);
    let (mut lowest, mut highest) = (f64::MAX, 0.0f64);
    for n in 0..3000 {
        let gap = 90 + n % 40;
        let mark = n % 400 == 7 || n % 1000 == 30;
        let window = flow.step(gap, u16::from(mark), 150);
        since_cut += gap;
        since_decay += gap;
        since_timer += gap;
        if mark && since_cut >= p.cnp_interval.0 {
            target = current;
            current *= 1.0 - alpha / 2.0;
            alpha = (1.0 - gain) * alpha + gain;
            (since_cut, since_decay, since_timer) = (0, 0, 0);
            (packets, timer, bytes) = (0, 0, 0);
        } else {
            if since_decay >= p.alpha_interval.0 {
                alpha *= 1.0 - gain;
                since_decay = 0;
            }
            let mut step = |timer: u32, bytes: u32| {
                if timer.min(bytes) > 5 {
                    target += hai * f64::from(timer.min(bytes) - 5);
                } else if timer.max(bytes) >= 5 {
                    target += ai;
                }
                target = target.min(max);
                current = (target + current) / 2.0;
            };
            if since_timer >= p.increase_interval.0 {
                since_timer = 0;
                timer += 1;
                step(timer, bytes);
            }
            packets += 150;
            if packets >= p.increase_packets {
                packets -= p.increase_packets;
                bytes += 1;
                step(timer, bytes);
            }
        }
        let expected = (current * f64::from(RTT)).min(256.0);
        assert!((window / expected - 1.0).abs() < 0.001, "event {n}: {window} against {expected}");
        lowest = lowest.min(window);
        highest = highest.max(window);
    }
    assert!(lowest < 25.0 && highest > 100.0, "the window changed: {lowest} to {highest}");
}
