//! The comparison of the model with the data.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use clocked::Cycle;
use serde::{Deserialize, Serialize};

use crate::{FlowId, IncomingRecord, Protocol, SegmentAddress, Tonic, TonicOutput};

use super::data::{Data, DataError, Latency, RateRun, Selective, Trace};
use super::run::{Events, Setup, run};
use super::user_logic::{PublishedNewReno, Replay};

/// The first difference between model and data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The list that was compared.
    pub of: String,
    /// The number of equal rows before the difference.
    pub equal_rows: usize,
    /// The next row of the model, if there is one.
    pub model: Option<String>,
    /// The next row of the data, if there is one.
    pub data: Option<String>,
}

/// Compares two lists row by row.
fn difference<T: PartialEq + Debug>(of: &str, model: &[T], data: &[T]) -> Option<Difference> {
    let equal_rows = model.iter().zip(data).take_while(|(model, data)| model == data).count();
    let row = |list: &[T]| list.get(equal_rows).map(|row| format!("{row:?}"));
    let (model, data) = (row(model), row(data));
    (model.is_some() || data.is_some()).then(|| Difference { of: of.to_owned(), equal_rows, model, data })
}

/// The comparison of latencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyComparison {
    /// The cycles between two events, in the model and in the data.
    pub cycles: BTreeMap<String, (u64, u64)>,
    /// The first event that differs.
    pub difference: Option<Difference>,
}

/// The comparison of the rates of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateComparison {
    /// The number of flows.
    pub flows: u16,
    /// N.
    pub n: u8,
    /// The length of the run in cycles.
    pub cycles: u64,
    /// The segments by flow, in the model and in the data.
    pub segments: BTreeMap<u16, (u64, u64)>,
    /// True if every transmission is equal in cycle, flow and segment.
    pub digest_equal: bool,
}

/// The user logic in the model's run of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserLogic {
    /// The recorded decisions.
    Recorded,
    /// The hardware's user logic, written from its description.
    Published,
}

/// The comparison of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceComparison {
    /// The name of the trace.
    pub name: String,
    /// The user logic in the model's run.
    pub user_logic: UserLogic,
    /// The number of transmissions in the data.
    pub transmissions: usize,
    /// The number of rows of the programmable stage in the data.
    pub user_rows: usize,
    /// True if every transmission is equal in cycle, flow and segment.
    pub digest_equal: bool,
    /// The first row of generated segments, transmitted segments, user logic or timeouts that differs.
    pub difference: Option<Difference>,
}

/// The whole comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The latencies of a single segment.
    pub latency: LatencyComparison,
    /// The runs without loss.
    pub rates: Vec<RateComparison>,
    /// The traces.
    pub traces: Vec<TraceComparison>,
}

impl Comparison {
    /// Returns true if nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        let pair = |(model, data): &(u64, u64)| model == data;
        self.latency.difference.is_none()
            && self.latency.cycles.values().all(pair)
            && self.rates.iter().all(|run| run.digest_equal && run.segments.values().all(pair))
            && self.traces.iter().all(|trace| trace.digest_equal && trace.difference.is_none())
    }
}

/// Compares the model with measured data.
///
/// # Errors
/// Returns an error if the data has parameters that describe no possible hardware.
pub fn compare(data: &Data) -> Result<Comparison, DataError> {
    let mut rates = Vec::new();
    for of in &data.rates.runs {
        rates.push(compare_rates(of, &data.rates.one_flow_first_transmit_cycles)?);
    }
    let traces = compare_traces(&data.traces)?;
    Ok(Comparison { latency: compare_latency(&data.latency)?, rates, traces })
}

/// Compares traces. Each is compared with the recorded decisions. A trace of the hardware's NewReno is also
/// compared with that NewReno.
///
/// # Errors
/// Returns an error if a trace has parameters that describe no possible hardware.
pub fn compare_traces(traces: &[Trace]) -> Result<Vec<TraceComparison>, DataError> {
    let mut compared = Vec::new();
    for trace in traces {
        compared.push(compare_recorded(trace)?);
        if trace.protocol == PublishedNewReno::NAME {
            compared.push(compare_published(trace)?);
        }
    }
    Ok(compared)
}

/// The hardware's NewReno in the runs that give no other parameters.
const fn new_reno(window: u32) -> PublishedNewReno {
    PublishedNewReno { window, ssthresh: 60, rto: 1_000_000 }
}

fn compare_latency(latency: &Latency) -> Result<LatencyComparison, DataError> {
    let last = latency.events.iter().map(|event| event.0).max().unwrap_or(0);
    let setup = Setup {
        name: "latency".to_owned(),
        flows: 1,
        n: 16,
        max_flows: 1024,
        ack_delay: 30,
        cycles: last + 1,
        loss: Vec::new(),
        selective: Selective::None,
    };
    let events: Events<()> = run(&setup, new_reno(1), |_| 0, |_, _| None)?;
    let mut model = Vec::new();
    for (now, output, _) in &events.cycles {
        model.extend(named(*now, output));
    }
    let mut data = latency.events.clone();
    data.sort();
    model.sort();

    let nth =
        |name: &str, n: usize| model.iter().filter(|event| event.1 == name).nth(n).map_or(0, |event| event.0);
    let between = |from: &str, (to, n): (&str, usize)| nth(to, n).saturating_sub(nth(from, 0));
    let cycles = latency.differences.iter().map(|(name, data)| {
        let model = match name.as_str() {
            "ack_at_pin_to_programmable_stage" => between("ack_at_pin", ("ack_programmable_stage", 0)),
            "ack_at_pin_to_next_generate" => between("ack_at_pin", ("generate", 1)),
            name => name.split_once("_to_").map_or(0, |(from, to)| between(from, (to, 0))),
        };
        (name.clone(), (model, *data))
    });
    Ok(LatencyComparison { cycles: cycles.collect(), difference: difference("event", &model, &data) })
}

/// Returns the events of a cycle with the names used in the data.
fn named(now: Cycle, output: &TonicOutput) -> Vec<(u64, String, u16, Option<u32>)> {
    let acked = output.incoming.map(|record| record.packet.flow);
    let flow = |name: &str, flow: Option<FlowId>| flow.map(|flow| (now.0, name.to_owned(), flow.0, None));
    let segment = |name: &str, address: Option<SegmentAddress>| {
        address.map(|address| (now.0, name.to_owned(), address.flow.0, Some(address.segment.0)))
    };
    let events = [
        flow("select", output.select),
        flow("decrement", output.decrement),
        flow("credit_select", output.credit_select),
        flow("ack_programmable_stage", acked),
        segment("generate", output.generate),
        segment("credit_enqueue", output.credit_enqueue),
        segment("credit_transmit", output.credit_transmit),
        segment("transmit", output.transmit),
        // Two registers and the fixed stage are between the pins and the programmable stage.
        acked.map(|flow| (now.0 - 3, "ack_at_pin".to_owned(), flow.0, None)),
    ];
    events.into_iter().flatten().collect()
}

fn compare_rates(of: &RateRun, first_of_one: &[u64]) -> Result<RateComparison, DataError> {
    let setup = Setup {
        name: format!("rates of {} flows", of.flows),
        flows: of.flows,
        n: of.n,
        max_flows: 1024,
        ack_delay: of.ack_delay,
        cycles: of.cycles,
        loss: Vec::new(),
        selective: Selective::None,
    };
    let events: Events<()> = run(&setup, new_reno(of.window), |_| 0, |_, _| None)?;
    let rows = events.rows(|output| output.transmit);
    let count = |flow: u16| rows.iter().filter(|row| row.1 == flow).count() as u64;
    let segments = of.segments.iter().map(|(flow, data)| (*flow, (count(*flow), *data))).collect();
    let first = rows.iter().map(|row| &row.0).take(first_of_one.len());
    let first_equal = of.flows != 1 || first.eq(first_of_one);
    Ok(RateComparison {
        flows: of.flows,
        n: of.n,
        cycles: of.cycles,
        segments,
        digest_equal: events.digest() == of.digest && first_equal,
    })
}

impl Trace {
    fn setup(&self) -> Setup {
        Setup {
            name: format!("trace {}", self.name),
            flows: self.flows,
            n: self.n,
            max_flows: self.max_flows,
            ack_delay: self.ack_delay,
            cycles: self.cycles,
            loss: self.loss.clone(),
            selective: self.selective,
        }
    }

    /// Returns the cycle and the flow of each timeout.
    fn timeout_cycles(&self) -> Vec<(u64, u64)> {
        self.timeout.iter().map(|row| (row[0], row[1])).collect()
    }

    /// Compares the events of a run with the trace. `model` holds the model's `user` rows. The first `columns`
    /// columns of each `user` row are compared.
    fn compared<S>(
        &self,
        user_logic: UserLogic,
        events: &Events<S>,
        model: &[Vec<u64>],
        columns: usize,
    ) -> TraceComparison {
        let transmit: Vec<_> = self.transmit.iter().map(|row| (row.0, row.1, row.2, row.3)).collect();
        let timeout = |(now, output, _): &(Cycle, TonicOutput, _)| Some((now.0, output.timeout?.0.into()));
        let timeouts: Vec<(u64, u64)> = events.cycles.iter().filter_map(timeout).collect();
        let user: Vec<_> = self.user.iter().map(|row| row[..columns.min(row.len())].to_vec()).collect();
        let found = difference("generate", &events.rows(|output| output.generate), &self.generate)
            .or_else(|| difference("transmit", &events.rows(|output| output.transmit), &transmit))
            .or_else(|| difference("user", model, &user))
            .or_else(|| difference("timeout", &timeouts, &self.timeout_cycles()));
        TraceComparison {
            name: self.name.clone(),
            user_logic,
            transmissions: self.transmit.len(),
            user_rows: self.user.len(),
            digest_equal: events.digest() == self.summary.digest,
            difference: found,
        }
    }
}

/// Returns the inputs and outputs of the programmable stage in the form of the data. There, only segments of the
/// cumulative acknowledgment count as newly acknowledged.
fn user_row(now: Cycle, record: &IncomingRecord) -> Vec<u64> {
    let newly_acked = record.newly_acked - u32::from(record.newly_selective);
    let record = IncomingRecord { newly_acked, ..*record };
    [now.0].into_iter().chain(record.fields()).collect()
}

/// Compares the core alone: the data gives the decision for the k-th acknowledgment of a flow.
fn compare_recorded(trace: &Trace) -> Result<TraceComparison, DataError> {
    let mut decisions: BTreeMap<u64, VecDeque<u32>> = BTreeMap::new();
    for row in &trace.user {
        let decision = Replay::encode(row[7] != 0, row[8] != 0, row[9] as u32);
        decisions.entry(row[1]).or_default().push_back(decision);
    }
    // Acknowledgments of the last cycles have no row, because they are not processed within the run.
    let next = |flow: u16| decisions.get_mut(&flow.into()).and_then(VecDeque::pop_front).unwrap_or_default();
    let protocol = Replay { window: trace.initial_window, rto: trace.rto };
    let events: Events<()> = run(&trace.setup(), protocol, next, |_, _| None)?;
    let row = |(now, output, _): &(Cycle, TonicOutput, _)| Some(user_row(*now, output.incoming.as_ref()?));
    let model: Vec<_> = events.cycles.iter().filter_map(row).collect();
    Ok(trace.compared(UserLogic::Recorded, &events, &model, 10))
}

/// Compares the user logic too: every row of the programmable stage, including its state.
fn compare_published(trace: &Trace) -> Result<TraceComparison, DataError> {
    let protocol =
        PublishedNewReno { window: trace.initial_window, ssthresh: trace.initial_ssthresh, rto: trace.rto };
    let state = |tonic: &Tonic<PublishedNewReno>, flow| {
        let state = tonic.status(flow)?.user;
        // The fifth value, the hardware's flag for a timeout, stays 0: the data has no timeout with this user
        // logic.
        Some(vec![
            state.cwnd.0,
            state.dup_acks.0,
            state.ssthresh.0,
            state.increase_counter.0,
            0,
            state.recover.0,
            state.in_recovery.0,
            state.prev_highest_ack.0,
        ])
    };
    let events = run(&trace.setup(), protocol, |_| 0, state)?;
    let row = |(now, output, state): &(Cycle, TonicOutput, Option<Vec<u64>>)| {
        let mut row = user_row(*now, output.incoming.as_ref()?);
        row.extend(state.iter().flatten());
        Some(row)
    };
    let model: Vec<_> = events.cycles.iter().filter_map(row).collect();
    Ok(trace.compared(UserLogic::Published, &events, &model, usize::MAX))
}
