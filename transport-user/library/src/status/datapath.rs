//! How the programs are attached, how frames leave, and the engine thread.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Attach mode of the wire program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AttachMode {
    /// In the driver. This is the fast mode.
    #[default]
    Native,
    /// In the network stack. This mode works with every driver and is slower.
    Generic,
}

/// How frames of the engine leave.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Transmit {
    /// XDP redirects them to the driver. This is fast.
    #[default]
    XdpRedirect,
    /// They pass through the kernel's stack, because the driver accepts none from XDP. This is slower.
    Stack,
}

/// Whether the engine keeps a CPU busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum EngineMode {
    /// The engine never sleeps. This has the lowest latency, and uses one CPU fully.
    Busy,
    /// The engine sleeps while there is nothing to send. A doorbell wakes it.
    #[default]
    Sleeping,
}

/// The state of the engine thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// The thread is in a live run.
    Running,
    /// The thread waits for its doorbell.
    Sleeping,
    /// The thread was stopped.
    #[default]
    Stopped,
    /// The thread cannot go on, for this reason. The node must be brought down and up again.
    Failed(String),
}

impl fmt::Display for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.pad("running"),
            Self::Sleeping => f.pad("sleeping"),
            Self::Stopped => f.pad("stopped"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// The status of the engine thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineStatus {
    /// Busy or sleeping.
    pub mode: EngineMode,
    /// The CPU to which the thread is bound, if any.
    pub cpu: Option<usize>,
    /// Frames that the kernel passes to the engine at a time now.
    pub batch: u32,
    /// State of the thread.
    pub state: EngineState,
    /// Frames that the kernel passed to the engine in total.
    pub frames: u64,
    /// Frames since the engine last had work.
    pub idle_frames: u64,
    /// Number of times that the wire program woke the engine.
    pub wakeups: u64,
}
