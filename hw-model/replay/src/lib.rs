//! Replay of a trace: every decision of the real datapath, made again by the same functions and compared.
//!
//! `tiercel trace` writes down what each run of the XDP programs asked of its platform and what it was told. Here the same
//! code runs on those answers ([`Replayed`]), on connections as the trace says they were at its begin. What it then asks,
//! counts, writes and sends, and a number for each context after each step, have to be what the trace has; whole
//! connections are compared wherever the trace tells one anew. The first difference ends it ([`Divergence`]).

mod connections;
mod cycles;
mod decisions;
mod divergence;
mod platform;
mod player;
mod queues;
mod reader;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub use connections::{Connections, Shared};
pub use cycles::{Course, CyclesError, InCycles};
pub use decisions::{Decisions, Ended, Summary};
pub use divergence::{Difference, Divergence};

pub use platform::{PrefixCursor, Replayed};
pub use queues::ReplayedQueues;
pub use reader::{Chunk, ReadError, TraceReader};
pub use report::{Request, report};
pub use run::RecordedRun;
