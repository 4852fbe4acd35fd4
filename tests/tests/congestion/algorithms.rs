//! User-defined algorithms that work, and algorithms that misbehave.

use std::panic::panic_any;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tiercel::congestion::{
    Algorithm, AlgorithmChoice, AlgorithmId, CongestionControl, CongestionParameters, EngineState, Event,
    Outcome, Placement, Prepared,
};
use transport_common::congestion::event::Direction;
use transport_common::congestion::nic_time::{DelayCode, NicTime};
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

/// Number of events that an algorithm answers correctly before it misbehaves.
const GOOD: u32 = 20;

/// Swift in the kernel with a target far above any delay of this machine, so that windows do not depend on how
/// busy it is.
pub(crate) const KERNEL: CongestionControl = CongestionControl {
    parameters: CongestionParameters {
        base_delay_target: Duration::from_millis(100),
        ..CongestionParameters::DEFAULT
    },
    ..CongestionControl::SWIFT
};

/// Swift in user space.
pub(crate) const USER: CongestionControl = CongestionControl { placement: Placement::User, ..KERNEL };

/// A user-defined algorithm in user space.
pub(crate) fn user(algorithm: AlgorithmChoice) -> CongestionControl {
    CongestionControl { algorithm, ..USER }
}

/// The misbehaviour of an algorithm at its event number [`GOOD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misdeed {
    /// It sleeps for a second, then continues.
    Sleep,
    /// It panics.
    Panic,
    /// It panics with a value that panics when it is dropped. The thread cannot survive this.
    PanicTwice,
}

/// Swift, until it misbehaves.
pub(crate) struct Sometimes {
    pub(crate) misdeed: Misdeed,
    events: AtomicU32,
}

impl Sometimes {
    pub(crate) fn new(misdeed: Misdeed) -> Self {
        Self { misdeed, events: AtomicU32::new(0) }
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the payload of a panic panics in its turn");
        }
    }
}

impl Algorithm for Sometimes {
    fn name(&self) -> &'static str {
        "sometimes"
    }

    fn update(&self, event: &Event, state: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
        AlgorithmId::Swift.update(event, state, parameters, outcome);
        if self.events.fetch_add(1, Relaxed) == GOOD {
            match self.misdeed {
                Misdeed::Sleep => std::thread::sleep(Duration::from_secs(1)),
                Misdeed::Panic => panic!("an algorithm under test panics"),
                Misdeed::PanicTwice => panic_any(Bomb),
            }
        }
    }
}

/// Random bits as results.
pub(crate) struct Nonsense(pub(crate) AtomicU32);

impl Algorithm for Nonsense {
    fn name(&self) -> &'static str {
        "nonsense"
    }

    fn update(&self, _: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
        let random = || {
            let x = self.0.fetch_add(0x9e37_79b9, Relaxed).wrapping_mul(0x85eb_ca6b);
            (x ^ x >> 13).wrapping_mul(0xc2b2_ae35) ^ x >> 16
        };
        *outcome = Outcome {
            connection_id: random(),
            cc_metadata: random(),
            // One in four is 0, which is not legal.
            fcwnd: Fcwnd(if random() & 3 == 0 { 0 } else { random() }),
            inter_packet_gap: InterPacketGap(random()),
            retransmit_timeout: Ticks(random()),
            fabric_window_time_marker: NicTime(random()),
            nic_window_time_marker: NicTime(random()),
            base_delay_target: Ticks(random()),
            delay_state: Ticks(random()),
            rtt_state: Ticks(random()),
            ncwnd: random() as u16,
            randomize_path: random() as u8,
            event_queue_select: random() as u8,
            delay_select: DelayCode(random() as u8),
            ncwnd_direction: Direction(random() as u8),
            cc_opaque: random() as u8,
            reserved: random() as u8,
        };
    }
}
