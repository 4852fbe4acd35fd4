//! Compares the P4 program with the Swift of `transport-common`: the same events, and every bit of result and
//! state.
//!
//! [`compare`] does the comparison for the program in this crate, and [`compare_with`] for another one. Both
//! return a [`Comparison`].

use serde::{Deserialize, Serialize};
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift;

use super::{CONNECTIONS, RandomEvents, SwiftError, SwiftProgram};

/// Number of events of one connection with one set of parameters.
const HISTORY: u64 = 50;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Number of events that both handled.
    pub events: u64,
    /// Number of events whose results or PLB counters differ in any bit.
    pub differences: u64,
    /// A description of the first difference.
    pub first_difference: Option<String>,
    /// Number of events by type: ACK, NACK, retransmission, reserved.
    pub by_type: [u64; 4],
    /// Number of events that raised the fabric window.
    pub fcwnd_rose: u64,
    /// Number of events that lowered the fabric window.
    pub fcwnd_fell: u64,
    /// Number of events that lowered the fabric window by more than one unit and less than the maximum of one
    /// decrease.
    pub fcwnd_fell_in_proportion: u64,
    /// Number of events that raised the NIC window.
    pub ncwnd_rose: u64,
    /// Number of events that lowered the NIC window.
    pub ncwnd_fell: u64,
    /// Number of results with a gap between packets.
    pub paced: u64,
    /// Number of results that request another path.
    pub rerouted: u64,
}

/// Compares both on random events of random connections with random parameters. `progress` gets the number of
/// finished events.
///
/// # Errors
/// Returns a [`SwiftError`] if `swift.p4` is not a valid Swift program.
pub fn compare(events: u64, seed: u64, progress: &mut dyn FnMut(u64)) -> Result<Comparison, SwiftError> {
    compare_with(SwiftProgram::new()?, events, seed, progress)
}

/// Compares another program in the same way as [`compare`].
///
/// # Errors
/// Returns a [`SwiftError`] if the program lacks a table or register.
pub fn compare_with(
    mut program: SwiftProgram,
    events: u64,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Comparison, SwiftError> {
    let mut random = RandomEvents::new(seed);
    let mut seen = Comparison::default();
    let mut connection_id = 0;
    while seen.events < events {
        progress(seen.events);
        let parameters = random.parameters();
        program.set_parameters(&parameters)?;
        connection_id = (connection_id + 1) % CONNECTIONS;
        program.open(connection_id)?;
        let mut engine = EngineState::default();
        let mut last: Option<Outcome> = None;
        for _ in 0..HISTORY.min(events - seen.events) {
            let event = random.event(connection_id, &parameters, last.as_ref());
            let (mut expected, mut found) = (Outcome::default(), Outcome::default());
            swift(&event, &mut engine, &parameters, &mut expected);
            program.update(&event, &mut found);
            let plb = program.plb(connection_id)?;
            if expected != found || engine.plb != plb {
                seen.differences += 1;
                seen.first_difference.get_or_insert_with(|| {
                    format!(
                        "{event:?}\n{:?}\nexpected {expected:?} {:?}\nfound {found:?} {plb:?}",
                        parameters.parameters(),
                        engine.plb
                    )
                });
            }
            seen.count(&event, &expected, parameters.parameters());
            last = Some(expected);
        }
    }
    progress(seen.events);
    Ok(seen)
}

impl Comparison {
    fn count(&mut self, event: &Event, outcome: &Outcome, parameters: &Parameters) {
        self.events += 1;
        self.by_type[usize::from(event.event_type.0 & 3)] += 1;
        self.fcwnd_rose += u64::from(outcome.fcwnd > event.fcwnd);
        self.fcwnd_fell += u64::from(outcome.fcwnd < event.fcwnd);
        let most = parameters.max_fabric_multiplicative_decrease_factor.complement().of(event.fcwnd.0);
        let is_between = u64::from(outcome.fcwnd.0) > most && outcome.fcwnd.0 + 1 < event.fcwnd.0;
        let was_legal = event.fcwnd <= parameters.max_fcwnd;
        let proportional = event.event_type <= EventType::NACK && is_between && was_legal;
        self.fcwnd_fell_in_proportion += u64::from(proportional);
        self.ncwnd_rose += u64::from(outcome.ncwnd > event.ncwnd);
        self.ncwnd_fell += u64::from(outcome.ncwnd < event.ncwnd);
        self.paced += u64::from(outcome.inter_packet_gap.0 > 0);
        self.rerouted += u64::from(outcome.randomize_path);
    }

    /// Returns true if every part of Swift was used often enough for the comparison to be meaningful.
    pub fn is_thorough(&self) -> bool {
        let least = self.events / 100;
        let parts = [
            self.fcwnd_rose,
            self.fcwnd_fell,
            self.fcwnd_fell_in_proportion,
            self.ncwnd_rose,
            self.ncwnd_fell,
            self.paced,
        ];
        let types = self.by_type.iter().all(|count| *count > least);
        types && parts.iter().all(|count| *count > least) && self.rerouted > self.events / 1000
    }
}
