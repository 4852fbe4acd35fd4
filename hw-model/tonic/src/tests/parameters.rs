//! Parameters that describe no hardware are refused with a sentence.

use crate::logic::Logic;
use crate::{
    Credit, Decision, Incoming, Initial, Latencies, ParameterError, Parameters, Periodic, Protocol, Rules,
    Tonic, user_state_bytes,
};

use super::{CLOCK, fixed_window};

fn error(change: impl FnOnce(&mut Parameters)) -> Option<ParameterError> {
    let mut parameters = Parameters::default();
    change(&mut parameters);
    Tonic::<_, 2>::new(fixed_window(8), &parameters).err()
}

#[test]
fn what_the_hardware_can_be() {
    assert_eq!(error(|_| {}), None);
    assert_eq!(error(|p| (p.flows, p.outstanding) = (1, 1)), None);
    assert_eq!(error(|p| (p.flows, p.outstanding) = (2048, 64)), None);
    assert_eq!(error(|p| (p.rules, p.outstanding) = (Rules::Published, 8)), None);
    assert_eq!(error(|p| p.output_queue = 3), None);
}

#[test]
fn what_it_cannot_be() {
    use ParameterError as Error;
    assert_eq!(error(|p| p.flows = 0), Some(Error::Flows(0)));
    assert_eq!(error(|p| p.flows = 2049), Some(Error::Flows(2049)));
    assert_eq!(error(|p| (p.rules, p.flows) = (Rules::Published, 1)), Some(Error::Flows(1)));
    assert_eq!(error(|p| p.outstanding = 0), Some(Error::Outstanding(0)));
    assert_eq!(error(|p| p.outstanding = 65), Some(Error::Outstanding(65)));
    assert_eq!(error(|p| (p.rules, p.outstanding) = (Rules::Published, 7)), Some(Error::Outstanding(7)));
    assert_eq!(error(|p| p.segment_bytes = 0), Some(Error::SegmentBytes(0)));
    assert_eq!(error(|p| p.segment_bytes = 1 << 20), Some(Error::SegmentBytes(1 << 20)));
    assert_eq!(error(|p| p.burst_bytes = 1499), Some(Error::Burst { burst: 1499, segment: 1500 }));
    for quanta in [vec![], vec![0, 1], vec![8, 8], vec![8, 1], vec![1 << 21], (1..=9).collect()] {
        assert_eq!(error(|p| p.quanta.clone_from(&quanta)), Some(Error::Quanta(quanta)));
    }
    assert_eq!(error(|p| p.output_queue = 2), Some(Error::OutputQueue(2)));
    let latencies = Latencies { divider: 0, ..Latencies::default() };
    assert_eq!(error(|p| p.latencies = latencies), Some(Error::Latency(latencies)));
    assert_eq!(
        error(|p| p.outstanding = 65).expect("too many").to_string(),
        "65 outstanding segments per flow: choose 1 to 64, and at least 8 under the published rules, which restart \
         a flow only when 7 are free"
    );
}

#[test]
fn time_and_rates() {
    assert_eq!(CLOCK.period_ps(), 10_000);
    assert_eq!(CLOCK.cycles(55_000), 5_500);
    assert_eq!(CLOCK.cycles(1), 1, "rounded up");
    // 100 Gb/s are 125 bytes in 10 ns.
    assert_eq!(CLOCK.rate(100_000_000_000), 125 << 20);
    assert_eq!(CLOCK.bits_per_second(125 << 20), 100_000_000_000);
    // The lowest rate that is not 0 in the coarsest representation.
    assert_eq!(CLOCK.rate(1_562_500), (1 << 20) / 512);
}

crate::user_state!(
    /// The largest state that table 4 allows with tokens.
    struct FullState {
        field: 2048,
    }
);

struct Full;

impl Protocol for Full {
    const NAME: &'static str = "full";
    const CREDIT: Credit = Credit::Token;
    type State<L: Logic> = FullState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<FullState<L>> {
        Initial { state: FullState { field: first }, window_size: 1, timer_period: 1, rate: 0, tokens: 0 }
    }

    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &FullState<L>) -> (Decision<L>, FullState<L>) {
        (Decision::keep(&input.flow), *state)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &FullState<L>) -> (Decision<L>, FullState<L>) {
        (Decision::keep(&input.flow), *state)
    }
}

/// The limits of table 4. One byte more does not compile: see [`Tonic::new`].
#[test]
fn user_state_up_to_the_limit() {
    let limits = [Credit::Window, Credit::Rate, Credit::Token].map(Credit::user_state_limit);
    assert_eq!(limits, [448, 340, 256]);
    assert_eq!(user_state_bytes::<Full>(), 256);
    assert!(Tonic::<_, 2>::new(Full, &Parameters::default()).is_ok());
}
