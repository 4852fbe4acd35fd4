//! What a frame is for.

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It came off the line: `datapath::receive`.
    Receive,
    /// A turn of the engine: `datapath::engine`, and `datapath::redeliver` if that comes of it.
    Turn {
        /// Whether it looks at the timing wheel.
        look_at_wheel: bool,
    },
}
