//! Several events of one flow in one cycle (section 3.4).

use clocked::{Clock, Cycle};
use serde::{Deserialize, Serialize};

use crate::protocols::{NewReno, Tcp};
use crate::{ControlPacket, FlowId, Frequency, Kind, Parameters, Segment, Tonic, TonicInput};

use super::claim::Claim;

/// A run in which an acknowledgment arrives shortly before the timer would fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeoutRace {
    /// The cycles from the acknowledgment at the input pins to the cycle in which the timer would fire.
    pub cycles_before: u64,
    /// True if a stage of Incoming held the acknowledgment in that cycle.
    pub is_in_incoming: bool,
    /// True if the timer fired.
    pub fires: bool,
}

/// The results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflicts {
    /// The runs with an acknowledgment shortly before a timeout.
    pub races: Vec<TimeoutRace>,
    /// The number of cycles in which a segment of the flow was generated and another was transmitted.
    pub generated_and_transmitted: u64,
    /// The number of these cycles in which the number of outstanding addresses did not change.
    pub count_stayed: u64,
}

const FLOW: FlowId = FlowId(5);

fn clock(initial_window: u16) -> Clock<Tonic<NewReno>> {
    let tcp = Tcp { initial_window, initial_rto: 1_000, min_rto: 1_000, ..Tcp::new(Frequency::default()) };
    let parameters = Parameters { flows: 8, ..Parameters::default() };
    let mut clock = Clock::new(Tonic::new(NewReno(tcp), &parameters).expect("hardware that exists"));
    clock.block_mut().open(Cycle::ZERO, FLOW, Segment(0), None).expect("a new flow");
    clock
}

/// Returns the cycle of the first timeout before `end`, if an acknowledgment arrives in cycle `at`.
fn first_timeout(at: Option<Cycle>, end: Cycle) -> Option<Cycle> {
    let mut clock = clock(1);
    while clock.now() < end {
        let now = clock.now();
        let packet = at.filter(|at| *at == now).map(|_| ControlPacket {
            flow: FLOW,
            kind: Kind::Ack,
            cumulative: Segment(1),
            selective: None,
            bitmap: [0; 2],
            data: now.0 as u32,
        });
        if clock.step(&TonicInput { packet, link_ready: true }).timeout.is_some() {
            return Some(now);
        }
    }
    None
}

pub(super) fn run() -> (Vec<Claim>, Conflicts) {
    let fires = first_timeout(None, Cycle(5_000)).unwrap_or(Cycle::NEVER);
    let races: Vec<_> = (0..=6)
        .map(|cycles_before| TimeoutRace {
            cycles_before,
            is_in_incoming: (2..=3).contains(&cycles_before),
            fires: first_timeout(Some(Cycle(fires.since(Cycle(cycles_before)))), fires + 1).is_some(),
        })
        .collect();

    let mut clock = clock(128);
    let (mut generated_and_transmitted, mut count_stayed) = (0, 0);
    let outstanding =
        |clock: &Clock<Tonic<NewReno>>| clock.block().status(FLOW).map(|status| status.outstanding);
    while clock.now() < Cycle(110) {
        let before = outstanding(&clock);
        let output = clock.step(&TonicInput::IDLE);
        if output.generate.is_some() && output.decrement.is_some() {
            generated_and_transmitted += 1;
            count_stayed += u64::from(outstanding(&clock) == before);
        }
    }
    let claims = vec![
        Claim::new(
            "an acknowledgment in either stage of Incoming prevents the timeout, and so does an earlier one",
            races.iter().all(|race| race.fires == (race.cycles_before < 2)),
        ),
        Claim::new(
            "generation and transmission in one cycle do not change the number of outstanding addresses",
            generated_and_transmitted > 0 && count_stayed == generated_and_transmitted,
        ),
    ];
    (claims, Conflicts { races, generated_and_transmitted, count_stayed })
}
