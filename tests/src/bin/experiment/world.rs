//! The worlds in which experiments run, and what an experiment describes of a run in either.

use std::ffi::CStr;

use anyhow::Result;
use datacentre::{FIRST_ENTROPY_PORT, HostModel, Message, SlowUlp};
use fabric_model::{Egress, FabricConfig, Impairments, Rate, Span, Time, Topology, Trunk};
use lab_report::World as Kind;
use tiercel::Tuning;

use crate::run::Run;

/// A world in which experiments run: virtual time, or real packets between hosts in network namespaces.
pub(crate) trait World {
    /// Returns the world's name in reports.
    fn kind(&self) -> Kind;

    /// Runs what is described, from the start to the end. `what` names the run for people.
    ///
    /// # Errors
    /// If it cannot be set up.
    fn run(&mut self, what: &str, description: Description) -> Result<Run>;
}

/// A run: hosts, links and flows, what happens and when, and what is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Hosts and switches.
    pub(crate) topology: Topology,
    /// The links out of switches.
    pub(crate) fabric: FabricConfig,
    /// The rate of simulated hosts' cards. Live hosts send as fast as they can.
    pub(crate) host_rate: Rate,
    /// The rate of the data of each flow, with headers; none for data without end. A simulated host has a card of this
    /// rate, a live one begins WRITEs at this rate.
    pub(crate) demand: Option<Rate>,
    /// A host whose ULP takes data slowly, by its port.
    pub(crate) slow_ulp: Option<(u16, SlowUlp)>,
    pub(crate) sender: Sender,
    pub(crate) flows: Vec<Flow>,
    /// Source ports that are tried for each flow, to find one that leads over the requested trunk.
    pub(crate) draws: usize,
    /// Time between two samples.
    pub(crate) sample_every: Span,
    /// The links whose queues are sampled. The first is the bottleneck.
    pub(crate) watch: Vec<Egress>,
    /// Whether the paths of the flows and the bytes over the watched links are sampled too.
    pub(crate) observe: bool,
    /// Times at which all counters are read, in order. They are read at the start and at the end in any case.
    pub(crate) marks: Vec<Time>,
    /// What happens to links, in order.
    pub(crate) changes: Vec<Change>,
    pub(crate) end: End,
}

/// Propagation delay of every simulated cable, each way.
pub(crate) const CABLE: Span = Span::from_micros(1);

impl Description {
    /// Returns the card of a simulated host.
    pub(crate) fn card(&self) -> HostModel {
        let line_rate = self.demand.unwrap_or(self.host_rate);
        HostModel { line_rate, cable: CABLE, ..HostModel::default() }
    }
}

/// What sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Connections of the datapath.
    Falcon,
    /// The kernel's TCP with this congestion control. Only live hosts have it.
    Tcp(&'static CStr),
}

/// Data from one host to another.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    /// Written one after the other. A message of `u64::MAX` bytes lasts until the end of the run.
    pub(crate) messages: Vec<Message>,
    /// Source port of a simulated flow. A live connection has that of its CID.
    pub(crate) entropy: u16,
    /// The trunk over which the flow begins; any for none.
    pub(crate) begins_on: Option<Trunk>,
    pub(crate) tuning: Tuning,
}

impl Flow {
    /// Creates a flow with one message.
    pub(crate) fn new([source, destination]: [u16; 2], message: Message, tuning: Tuning) -> Self {
        let (messages, entropy) = (vec![message], FIRST_ENTROPY_PORT);
        Self { source, destination, messages, entropy, begins_on: None, tuning }
    }

    /// Creates a flow that writes from `start` on without end.
    pub(crate) fn endless(ends: [u16; 2], start: Time, tuning: Tuning) -> Self {
        Self::new(ends, Message { at: start, bytes: u64::MAX }, tuning)
    }
}

/// What happens to a link.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) link: Egress,
    /// How it behaves from then on; none if it is cut.
    pub(crate) impairments: Option<Impairments>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// At this time.
    At(Time),
    /// When all messages are complete, on virtual time at the latest at this time.
    Complete(Time),
}
