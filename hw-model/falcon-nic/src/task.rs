//! The kind of a run.

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A received frame. It runs `datapath::receive`.
    Receive,
    /// A turn: one service of the engine. It runs `datapath::engine`, and `datapath::redeliver` if the engine asks
    /// for it.
    Turn {
        /// True if the turn polls the timing wheel.
        look_at_wheel: bool,
    },
}
