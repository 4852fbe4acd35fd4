//! The layout that the deciding program and its test share.

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::entry::Entry;
use transport_common::congestion::event::Event;
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::result::Outcome;

/// Number of cases in a batch; a power of two.
pub(crate) const CASES: usize = 1024;

/// One event and its result.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// The event's entry.
    pub(crate) event: Entry,
    /// The result's entry.
    pub(crate) result: Entry,
    /// State of the algorithm, before and after.
    pub(crate) engine: EngineState,
    /// An [`AlgorithmId`](transport_common::congestion::algorithm::AlgorithmId).
    pub(crate) algorithm: u32,
    /// Repairs of the result, see `Faults`.
    pub(crate) faults: u32,
    /// The event, decoded.
    pub(crate) decoded: Event,
    /// The result before it is encoded.
    pub(crate) outcome: Outcome,
    /// Padding of the last 8 bytes.
    pub(crate) reserved: u32,
}

/// A batch of cases under one set of parameters.
#[repr(C)]
pub(crate) struct Batch {
    /// Parameters of all cases.
    pub(crate) prepared: Prepared,
    /// Time at which retransmit events are handled.
    pub(crate) now: u32,
    /// The next case.
    pub(crate) next: u32,
    /// The cases.
    pub(crate) cases: [Case; CASES],
}

const _: () = assert!(size_of::<Case>().is_multiple_of(8) && size_of::<Batch>().is_multiple_of(8));
