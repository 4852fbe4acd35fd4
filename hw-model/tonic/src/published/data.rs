//! The form of the data. See `hw-model/tonic/data/README.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{FlowError, ParameterError};

/// A file of measured data.
#[derive(Clone, Debug, Deserialize)]
pub struct Data {
    /// The latencies of a single segment.
    pub latency: Latency,
    /// The runs without loss.
    pub rates: Rates,
    /// The runs of which every event is known.
    pub traces: Vec<Trace>,
}

/// One flow with a window of 1.
#[derive(Clone, Debug, Deserialize)]
pub struct Latency {
    /// The events: cycle, name, flow, segment.
    pub events: Vec<(u64, String, u16, Option<u32>)>,
    /// The cycles between two events.
    pub differences: BTreeMap<String, u64>,
}

/// Runs of which the rates and the order of the segments are known.
#[derive(Clone, Debug, Deserialize)]
pub struct Rates {
    /// The runs.
    pub runs: Vec<RateRun>,
    /// The first cycles with a transmission in the run with one flow.
    pub one_flow_first_transmit_cycles: Vec<u64>,
}

/// A run without loss.
#[derive(Clone, Debug, Deserialize)]
pub struct RateRun {
    /// The number of flows. Flows are numbered from 1.
    pub flows: u16,
    /// N.
    pub n: u8,
    /// The initial window and congestion window.
    pub window: u32,
    /// The cycles from a segment at the output pins to its acknowledgment at the input pins.
    pub ack_delay: u64,
    /// The length of the run in cycles.
    pub cycles: u64,
    /// The number of segments transmitted, by flow.
    pub segments: BTreeMap<u16, u64>,
    /// SHA-256 of the lines `cycle,flow,segment`.
    pub digest: String,
}

/// A run with all its events.
#[derive(Clone, Debug, Deserialize)]
pub struct Trace {
    /// The name of the trace.
    pub name: String,
    /// The name of the user logic of the run.
    pub protocol: String,
    /// The number of flows. Flows are numbered from 1.
    pub flows: u16,
    /// N.
    pub n: u8,
    /// The number of flow ids of the hardware.
    pub max_flows: u16,
    /// The cycles from a segment at the output pins to its acknowledgment at the input pins.
    pub ack_delay: u64,
    /// The length of the run in cycles.
    pub cycles: u64,
    /// The initial window.
    pub initial_window: u32,
    /// The initial slow start threshold.
    pub initial_ssthresh: u64,
    /// The length of the retransmission timer, in cycles.
    pub rto: u64,
    /// The losses: flow, segment, k. The k-th transmission of the segment is lost.
    pub loss: Vec<(u16, u32, u32)>,
    /// What acknowledgments acknowledge selectively.
    #[serde(default)]
    pub selective: Selective,
    /// The transmissions: cycle, flow, segment, is a retransmission, is lost.
    pub transmit: Vec<(u64, u16, u32, u8, u8)>,
    /// The generated segments: cycle, flow, segment, is a retransmission.
    pub generate: Vec<(u64, u16, u32, u8)>,
    /// The rows of the programmable stage. The data names their columns.
    pub user: Vec<Vec<u64>>,
    /// The timeouts: cycle, flow, and more that is not compared.
    pub timeout: Vec<Vec<u64>>,
    /// The summary of the whole run.
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
    /// The lowest segment not received. This contradicts the cumulative acknowledgment, and the hardware ignores
    /// it.
    WindowStart,
}

/// The summary of a whole run.
#[derive(Clone, Debug, Deserialize)]
pub struct Summary {
    /// The same as [`RateRun::digest`].
    pub digest: String,
}

/// Data with which the model cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The text does not have the form of the data: it is something else, or it is cut off.
    #[error("this is not measured data of Tonic, or it is cut off: {0}")]
    Form(#[from] serde_json::Error),
    /// A row has too few columns.
    #[error("trace {trace}: a row of `{list}` has {columns} columns, at least {needed} are needed")]
    Columns {
        /// The trace.
        trace: String,
        /// The list of the row.
        list: &'static str,
        /// The number of its columns.
        columns: usize,
        /// The number of columns needed.
        needed: usize,
    },
    /// The parameters describe no possible hardware.
    #[error("{of}: {error}")]
    Parameters {
        /// The run.
        of: String,
        /// What is wrong.
        error: ParameterError,
    },
    /// There are more flows than flow ids.
    #[error("{of}: {error}")]
    Flows {
        /// The run.
        of: String,
        /// What is wrong.
        error: FlowError,
    },
}

impl Data {
    /// Parses the text of a file of measured data.
    ///
    /// # Errors
    /// Returns [`DataError::Form`] or [`DataError::Columns`].
    pub fn parse(text: &str) -> Result<Self, DataError> {
        let data: Self = serde_json::from_str(text)?;
        data.traces.iter().try_for_each(Trace::check)?;
        Ok(data)
    }
}

impl Trace {
    /// Parses the text of a list of traces.
    ///
    /// # Errors
    /// Returns [`DataError::Form`] or [`DataError::Columns`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, DataError> {
        let traces: Vec<Self> = serde_json::from_str(text)?;
        traces.iter().try_for_each(Self::check)?;
        Ok(traces)
    }

    /// Checks that the rows have the columns that are compared.
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
