//! The data's form. See `hw-model/tonic/data/README.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{FlowError, ParameterError};

/// A file of measured data.
#[derive(Clone, Debug, Deserialize)]
pub struct Data {
    /// One lone segment.
    pub latency: Latency,
    /// Runs without loss.
    pub rates: Rates,
    /// Runs of which every event is known.
    pub traces: Vec<Trace>,
}

/// One flow with a window of 1.
#[derive(Clone, Debug, Deserialize)]
pub struct Latency {
    /// Cycle, event, flow, segment.
    pub events: Vec<(u64, String, u16, Option<u32>)>,
    /// Cycles between two events.
    pub differences: BTreeMap<String, u64>,
}

/// Runs of which the rates and the order of the segments are known.
#[derive(Clone, Debug, Deserialize)]
pub struct Rates {
    /// The runs.
    pub runs: Vec<RateRun>,
    /// The first transmit cycles of the run with one flow.
    pub one_flow_first_transmit_cycles: Vec<u64>,
}

/// A run without loss.
#[derive(Clone, Debug, Deserialize)]
pub struct RateRun {
    /// Flows, numbered from 1.
    pub flows: u16,
    /// N.
    pub n: u8,
    /// Initial window and congestion window.
    pub window: u32,
    /// Cycles from a segment at the output pins to its acknowledgment at the input pins.
    pub ack_delay: u64,
    /// Length of the run.
    pub cycles: u64,
    /// Segments transmitted, by flow.
    pub segments: BTreeMap<u16, u64>,
    /// SHA-256 of the lines `cycle,flow,segment`.
    pub digest: String,
}

/// A run with all its events.
#[derive(Clone, Debug, Deserialize)]
pub struct Trace {
    /// Its name.
    pub name: String,
    /// The user logic it was made with.
    pub protocol: String,
    /// Flows, numbered from 1.
    pub flows: u16,
    /// N.
    pub n: u8,
    /// Flow ids of the hardware.
    pub max_flows: u16,
    /// Cycles from a segment at the output pins to its acknowledgment at the input pins.
    pub ack_delay: u64,
    /// Length of the run.
    pub cycles: u64,
    /// Initial window.
    pub initial_window: u32,
    /// Initial slow start threshold.
    pub initial_ssthresh: u64,
    /// Length of the retransmission timer, cycles.
    pub rto: u64,
    /// Flow, segment, k: the k-th transmission of the segment is lost.
    pub loss: Vec<(u16, u32, u32)>,
    /// What acknowledgments say selectively.
    #[serde(default)]
    pub selective: Selective,
    /// Cycle, flow, segment, is a retransmission, lost.
    pub transmit: Vec<(u64, u16, u32, u8, u8)>,
    /// Cycle, flow, segment, is a retransmission.
    pub generate: Vec<(u64, u16, u32, u8)>,
    /// The programmable stage, see the data's columns.
    pub user: Vec<Vec<u64>>,
    /// Timeouts: cycle, flow, and more that is not compared.
    pub timeout: Vec<Vec<u64>>,
    /// About the whole run.
    pub summary: Summary,
}

/// What the receiver of a run acknowledges selectively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selective {
    /// Nothing.
    #[default]
    None,
    /// The segment received.
    Received,
    /// The lowest segment not received, which contradicts the cumulative acknowledgment: the hardware ignores it.
    WindowStart,
}

/// About a whole run.
#[derive(Clone, Debug, Deserialize)]
pub struct Summary {
    /// As [`RateRun::digest`].
    pub digest: String,
}

/// Data that cannot be compared with.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Not the form of the data: foreign, or cut off.
    #[error("this is not measured data of Tonic, or it is cut off: {0}")]
    Form(#[from] serde_json::Error),
    /// A row with too few numbers.
    #[error("trace {trace}: a row of `{list}` has {columns} columns, {needed} at least are needed")]
    Columns {
        /// The trace.
        trace: String,
        /// The list the row is in.
        list: &'static str,
        /// Its columns.
        columns: usize,
        /// Those that are needed.
        needed: usize,
    },
    /// Parameters no hardware has.
    #[error("{of}: {error}")]
    Parameters {
        /// The run.
        of: String,
        /// What is wrong.
        error: ParameterError,
    },
    /// More flows than flow ids.
    #[error("{of}: {error}")]
    Flows {
        /// The run.
        of: String,
        /// What is wrong.
        error: FlowError,
    },
}

impl Data {
    /// Reads a file of measured data.
    ///
    /// # Errors
    /// [`DataError::Form`], [`DataError::Columns`].
    pub fn parse(text: &str) -> Result<Self, DataError> {
        let data: Self = serde_json::from_str(text)?;
        data.traces.iter().try_for_each(Trace::check)?;
        Ok(data)
    }
}

impl Trace {
    /// Reads a list of traces.
    ///
    /// # Errors
    /// [`DataError::Form`], [`DataError::Columns`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, DataError> {
        let traces: Vec<Self> = serde_json::from_str(text)?;
        traces.iter().try_for_each(Self::check)?;
        Ok(traces)
    }

    /// Rows have the columns that are compared.
    fn check(&self) -> Result<(), DataError> {
        for (list, rows, needed) in [("user", &self.user, 10), ("timeout", &self.timeout, 2)] {
            if let Some(row) = rows.iter().find(|row| row.len() < needed) {
                let (trace, columns) = (self.name.clone(), row.len());
                return Err(DataError::Columns { trace, list, columns, needed });
            }
        }
        Ok(())
    }
}
