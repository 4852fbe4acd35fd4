//! The trait of a congestion control algorithm, its state, and the choice among those built in.

use super::event::Event;
use super::parameters::Prepared;
use super::plb::PlbState;
use super::result::Outcome;
use super::{dcqcn, fixed, newreno, swift};
use bytemuck::{Pod, Zeroable};

/// A congestion control algorithm: a pure function of an event, the connection's state and the parameters.
///
/// What a connection's state is:
/// - the event brings back what the last result said: both windows, markers, direction, smoothed delay and RTT, two
///   opaque bits. It survives a change of algorithm, and every algorithm keeps its meaning.
/// - [`EngineState`] holds the rest, with room of its own for each built-in algorithm and five words for others.
///
/// The contract:
/// - The same input gives the same result and state, on every machine. No clock, no randomness, no floats: the time
///   is [`Event::now`].
/// - All of the result is written. [`Outcome::carry_over`] is the result that changes nothing; [`super::window`] has
///   the parts most algorithms share.
/// - Every input is answered, also one that makes no sense, without a panic. A fresh state is all zero bytes.
/// - The result is legal, see [`Outcome::sanitize`]. The datapath repairs and counts what is not.
///
/// Code that is to run in the kernel as well keeps to what BPF can: no loops without a constant bound, no signed
/// division, no 128-bit arithmetic.
pub trait Algorithm {
    /// Name for people, as in `--cc NAME`.
    fn name(&self) -> &'static str;

    /// Handles `event`: reads and updates `engine`, writes `outcome`, whatever it held before. The event has been
    /// stamped ([`Event::stamp`]).
    fn update(&self, event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome);
}

/// State of a connection that the queues do not carry. All zero bytes are a fresh connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EngineState {
    /// Counters of PLB.
    pub plb: PlbState,
    /// State of [`dcqcn`].
    pub dcqcn: dcqcn::DcqcnState,
    /// State of [`newreno`].
    pub newreno: newreno::NewRenoState,
    /// For an algorithm of one's own.
    pub custom: [u32; 5],
    /// 1 + the [`AlgorithmId`] whose state this is; 0 while fresh.
    owner: u32,
}

const _: () = assert!(size_of::<EngineState>() == 64 && align_of::<EngineState>() == 4);

impl EngineState {
    /// Forgets everything.
    #[inline(always)]
    fn clear(&mut self) {
        crate::verifier::zero(self);
    }
}

/// The algorithms built in.
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

    /// The algorithm of a discriminant, as it stands in a map.
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

    /// The algorithm of a name, as in `--cc NAME`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.name() == name)
    }

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swift => "swift",
            Self::Dcqcn => "dcqcn",
            Self::NewReno => "newreno",
            Self::Fixed => "fixed",
        }
    }

    /// The whole number of this algorithm in [`EngineState`].
    const fn owner(self) -> u32 {
        self as u32 + 1
    }
}

impl Algorithm for AlgorithmId {
    fn name(&self) -> &'static str {
        (*self).name()
    }

    /// Runs the chosen algorithm. State that another one left behind is discarded first: an algorithm that is chosen
    /// again while traffic flows starts from the windows of the event, not from what it knew long ago.
    #[inline(always)]
    fn update(&self, event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
        if engine.owner != self.owner() {
            engine.clear();
            engine.owner = self.owner();
        }
        match self {
            Self::Swift => swift::swift(event, engine, parameters, outcome),
            Self::Dcqcn => dcqcn::dcqcn(event, engine, parameters, outcome),
            Self::NewReno => newreno::newreno(event, engine, parameters, outcome),
            Self::Fixed => fixed::fixed(event, parameters, outcome),
        }
    }
}
