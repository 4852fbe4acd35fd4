//! The trait of a congestion control algorithm, its state, and the choice among those built in.

use super::event::{Event, EventType};
use super::parameters::Prepared;
use super::result::Outcome;
use super::{dcqcn, fixed, newreno, plb, swift};

pub use super::state::EngineState;

/// A congestion control algorithm: a pure function of an event, the connection's state and the parameters.
///
/// The state of a connection has two parts:
/// - The event carries the values of the last result: both windows, markers, direction, smoothed delay and RTT,
///   two opaque bits. They survive a change of algorithm, and every algorithm keeps their meaning.
/// - [`EngineState`] holds the rest. It has separate space for each built-in algorithm, and five words for others.
///
/// The contract:
/// - The same input gives the same result and state on every machine. No clock, no randomness, no floats: the time
///   is [`Event::now`].
/// - The algorithm writes all fields of the result. [`Outcome::carry_over`] is the result that changes nothing.
///   [`super::window`] has the parts that most algorithms share.
/// - Every input, also one that makes no sense, gives a result without a panic. A new state is all zero bytes.
/// - The result is legal, see [`Outcome::sanitize`]. The datapath repairs and counts illegal values.
///
/// Code that also runs in the kernel is limited to what BPF can do: no loops without a constant bound, no signed
/// division, no 128-bit arithmetic.
pub trait Algorithm {
    /// Returns the name for people, as in `--cc NAME`.
    fn name(&self) -> &'static str;

    /// Handles `event`: reads and updates `engine`, and overwrites all of `outcome`. The caller has stamped the
    /// event ([`Event::stamp`]).
    fn update(&self, event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome);
}

/// The built-in algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AlgorithmId {
    /// [`swift`] with PLB.
    #[default]
    Swift = 0,
    /// [`dcqcn`].
    Dcqcn = 1,
    /// [`newreno`].
    NewReno = 2,
    /// [`fixed`].
    Fixed = 3,
}

impl AlgorithmId {
    /// All algorithms; the discriminant is the index.
    pub const ALL: [Self; 4] = [Self::Swift, Self::Dcqcn, Self::NewReno, Self::Fixed];

    /// Returns the algorithm with this discriminant, as a map stores it.
    #[inline(always)]
    pub const fn from_index(index: u32) -> Option<Self> {
        match index {
            0 => Some(Self::Swift),
            1 => Some(Self::Dcqcn),
            2 => Some(Self::NewReno),
            3 => Some(Self::Fixed),
            _ => None,
        }
    }

    /// Returns the algorithm with this name, as in `--cc NAME`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.name() == name)
    }

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swift => "swift",
            Self::Dcqcn => "dcqcn",
            Self::NewReno => "newreno",
            Self::Fixed => "fixed",
        }
    }

    /// Returns the number of this algorithm as the owner of a state.
    const fn owner(self) -> u32 {
        self as u32 + 1
    }
}

impl Algorithm for AlgorithmId {
    fn name(&self) -> &'static str {
        (*self).name()
    }

    /// Runs the chosen algorithm, and the rule that a timeout changes the path, which all of them share. First discards the state of another algorithm. So an algorithm that is chosen
    /// again while traffic flows starts from the windows of the event, not from its old state.
    #[inline(always)]
    fn update(&self, event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
        engine.pass_to(self.owner());
        match self {
            Self::Swift => swift::swift(event, engine, parameters, outcome),
            Self::Dcqcn => dcqcn::dcqcn(event, engine, parameters, outcome),
            Self::NewReno => newreno::newreno(event, engine, parameters, outcome),
            Self::Fixed => fixed::fixed(event, parameters, outcome),
        }
        if event.event_type == EventType::RETRANSMIT {
            let timeout = outcome.retransmit_timeout;
            outcome.randomize_path |=
                plb::retransmitted(&mut engine.plb, event, parameters.parameters(), timeout) as u8;
        }
    }
}
