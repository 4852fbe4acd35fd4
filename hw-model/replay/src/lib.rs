//! Replay of a trace: the same functions make every decision of the real datapath again, and the replay compares
//! them.
//!
//! # What it does
//!
//! `tiercel trace` records each run of the XDP programs: the calls to its platform and their answers. The replay
//! runs the same code ([`transport_common::datapath`]) on the recorded answers ([`Replayed`]). It starts with the
//! connections as the trace has them at its start. The calls, counters, writes and sent headers must be equal to
//! those in the trace, and so must a digest of the context after each step. Whenever the trace contains a whole
//! connection, the replay compares all of it. The first difference ends the replay ([`Divergence`]).
//!
//! After that, [`InCycles`] serves the same runs in the blocks of the card ([`falcon_nic`]).
//!
//! # Where to start
//!
//! - [`TraceReader`] reads a trace file, [`Chunk`] by chunk. The format is [`transport_common::tape`].
//! - [`Decisions::replay`] replays and compares all decisions, and returns a [`Summary`].
//! - [`InCycles::replay`] runs the events in the blocks of the card, and returns a [`Course`].
//! - [`report()`] does both for a [`Request`], and adds runs at other rates.
//!
//! # Units
//!
//! An event is one run of the datapath: a received frame, or one service (turn) of the engine. A step is one
//! access of a run to its connection under the lock. [`InCycles`] counts clock cycles, whose length is the
//! `period` of [`falcon_nic::Parameters`], by default 1 ns.
//!
//! # Command line
//!
//! `tiercel trace --out run.trace` takes a trace of a running node. `tiercel model replay run.trace --clock 1GHz
//! --rate 200Gbps` replays it. `docs/model/replay.md` describes the format, the comparison and the results.
//!
//! # Example
//!
//! ```no_run
//! use std::fs::File;
//! use std::io::BufReader;
//!
//! use trace_replay::{Decisions, TraceReader};
//!
//! let mut reader = TraceReader::new(BufReader::new(File::open("run.trace")?))?;
//! let summary = Decisions::replay(&mut reader, |_| {})?;
//! println!("{} events without a difference", summary.events);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connections;
mod cycles;
mod decisions;
mod divergence;
#[doc(hidden)]
pub mod fuzz;
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
