//! The scenarios of section 6.2 of the paper: several hosts with many flows each, which all send to one more host.
//!
//! [`Scenario`] holds the settings. [`Scenario::new_reno`] and [`Scenario::dcqcn`] build a network from them, with
//! the kind of [`Senders`] that the caller chooses. [`Scenario::run`] runs the network and returns an [`Outcome`].

use anyhow::Result;
use fabric_model::{Alpha, ByteCount, FlowControl, Impairments, PauseThreshold, Rate, Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reference_senders::{Dcqcn, NewRenoConfig, Red, TimeoutBounds};
use tonic_model::protocols::{NewReno, RoceDcqcn, Tcp};
use tonic_model::{Frequency, Parameters, Tonic};

use super::drops::DropPattern;
use super::nic::{FlowPlan, TonicNic};
use super::receiving::{Receiving, RoceReceiving, TcpReceiving};
use super::reference::{DcqcnHost, NewRenoHost};
use super::sender::{Sender, SenderLog};
use super::world::{Cabling, TonicNetwork};

/// Tonic's clock, as in the paper.
pub const CLOCK: Frequency = Frequency { hertz: 100_000_000 };
/// The bytes of a segment, including the headers of its frame.
pub const SEGMENT: u32 = 1_000;
/// The buffer of the switch.
pub const BUFFER: ByteCount = ByteCount(5_500_000);
/// The largest TCP window in segments: Tonic's bitmaps have 128 bits.
pub const TCP_WINDOW: u16 = 128;
/// The initial window: RFC 5681, 3.1, for segments of at most 1095 bytes.
const INITIAL_WINDOW: u16 = 4;
/// The delay of an acknowledgment: the shortest one of Linux.
pub const ACK_DELAY: Span = Span::from_millis(40);
/// The largest RoCE window in segments: Tonic's bitmaps have 256 bits.
const ROCE_WINDOW: u16 = 256;
/// N, the interval of DCQCN's notification point.
const NOTIFICATION_INTERVAL: Span = Span::from_micros(50);
/// The retransmission timeout of RoCE, in milliseconds.
const ROCE_TIMEOUT: u64 = 1;

/// Returns flow control with dynamic thresholds: section 4 of the DCQCN paper, with 22.4 KB of headroom per port
/// and two frames of hysteresis. Only one priority is in use, so beta = 8 over 8 priorities is an alpha of 1.
pub fn dynamic_flow_control(ports: u16) -> FlowControl {
    let headroom = ByteCount(22_400 * u64::from(ports));
    let threshold = PauseThreshold::Dynamic { buffer: BUFFER, headroom, alpha: Alpha::default() };
    FlowControl { threshold, hysteresis: ByteCount(2 * u64::from(SEGMENT)) }
}

/// The kind of senders in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// A Tonic in each host.
    Tonic,
    /// The reference senders.
    Reference,
}

impl Senders {
    /// Both kinds.
    pub const BOTH: [Self; 2] = [Self::Tonic, Self::Reference];

    /// Returns the name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tonic => "Tonic",
            Self::Reference => "reference",
        }
    }
}

/// The settings of a run: hosts that send to one more host.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The number of hosts that send.
    pub hosts: u16,
    /// The number of flows per host.
    pub flows: u16,
    /// The rate of every cable.
    pub rate: Rate,
    /// The largest deviation of the transmitters' clocks, in parts per million: see [`Cabling::clock_tolerance`].
    pub clock_tolerance: u32,
    /// The longest time that a receiver's answer takes: see [`Cabling::processing`].
    pub processing: Span,
    /// The round-trip time of the cables alone, without the transmission time of frames.
    pub round_trip: Span,
    /// Flows start at a random time within this span.
    pub spread: Span,
    /// The segments that the receiver's card drops.
    pub drops: DropPattern,
    /// The rule by which the switch marks. `None` if it does not mark.
    pub red: Option<Red>,
    /// The rule by which the switch pauses hosts. `None` if it drops frames instead.
    pub flow_control: Option<FlowControl>,
    /// The parameters of DCQCN's reaction point, for both kinds of senders.
    pub dcqcn: Dcqcn,
    /// N of Tonic: the number of segment addresses of a flow that may wait for credit. Tonic's output queue has as
    /// many entries, but at least 16.
    pub outstanding: u8,
    /// The flow of host 0 whose events are all logged.
    pub watched: Option<u16>,
    /// The seed of all random decisions.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The logs of the hosts.
    pub logs: Vec<SenderLog>,
    /// The number of segments delivered, by flow. The flows of host 0 come first.
    pub delivered: Vec<u64>,
    /// The number of frames that the switch dropped.
    pub dropped: u64,
    /// The number of data frames that the switch marked, and the number that it saw.
    pub marked: (u64, u64),
    /// How often the switch paused a host.
    pub pauses: u64,
    /// The largest number of bytes in the queue towards the receiver.
    pub queue_peak: u64,
    /// The bytes in the queue towards the receiver at the end of each step of the run.
    pub queue: Vec<(Time, u64)>,
    /// The number of cycles computed by all Tonics.
    pub cycles: u64,
    /// The simulated time.
    pub time: Span,
}

impl Outcome {
    /// Returns the mean throughput of each flow over the whole run in Mb/s, including headers.
    #[must_use]
    pub fn megabits(&self) -> Vec<f64> {
        let microseconds = self.time.0 as f64 / 1e6;
        self.delivered.iter().map(|count| (count * 8 * u64::from(SEGMENT)) as f64 / microseconds).collect()
    }
}

impl Scenario {
    /// Returns the flows with their starts, by host. They are the same for both kinds of senders.
    fn plans(&self) -> Vec<Vec<FlowPlan>> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let destination = self.hosts;
        let mut plan = |_| {
            let start = Time(random.random_range(0..=self.spread.0));
            FlowPlan { start, destination, segments: None }
        };
        (0..self.hosts).map(|_| (0..self.flows).map(&mut plan).collect()).collect()
    }

    fn network(&self) -> Result<TonicNetwork> {
        let cabling = Cabling {
            rate: self.rate,
            clock_tolerance: self.clock_tolerance,
            processing: self.processing,
            delay: Span(self.round_trip.0 / 4),
            buffer: BUFFER,
            flow_control: self.flow_control,
            red: self.red,
            impairments: Impairments::default(),
            drops: self.drops.clone(),
            seed: self.seed,
        };
        Ok(TonicNetwork::new(self.hosts + 1, &cabling)?)
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            flows: self.flows.max(16),
            outstanding: self.outstanding,
            output_queue: self.outstanding.max(16).into(),
            segment_bytes: SEGMENT,
            burst_bytes: 2 * SEGMENT,
            ..Parameters::default()
        }
    }

    /// Returns how many segments of a flow may wait for the cable. A single flow also has the whole output queue
    /// of Tonic.
    fn places(&self) -> usize {
        usize::from(self.outstanding) * if self.flows == 1 { 2 } else { 1 }
    }

    fn watched(&self, host: u16) -> Option<u16> {
        self.watched.filter(|_| host == 0)
    }

    /// Builds a network of NewReno senders and TCP receivers.
    ///
    /// # Errors
    /// Returns an error if the settings describe no possible network or no possible Tonic.
    pub fn new_reno(&self, senders: Senders) -> Result<TonicNetwork> {
        let tcp = Tcp { initial_window: INITIAL_WINDOW, max_window: TCP_WINDOW, ..Tcp::new(CLOCK) };
        let segment = u64::from(SEGMENT);
        let config = NewRenoConfig {
            segment,
            initial_window: u64::from(INITIAL_WINDOW) * segment,
            receive_window: u64::from(TCP_WINDOW) * segment,
            timeout: TimeoutBounds {
                initial: Span::from_millis(1_000),
                min: Span::from_millis(200),
                max: Span::from_millis(60_000),
            },
        };
        let sender = |host, plans| -> Result<Box<dyn Sender>> {
            Ok(match senders {
                Senders::Tonic => {
                    let tonic = Tonic::<_, 2>::new(NewReno(tcp), &self.parameters())?;
                    let watched = self.watched(host);
                    Box::new(TonicNic::new(host, tonic, CLOCK, SEGMENT as usize, plans, watched))
                }
                Senders::Reference => {
                    let (places, watched) = (self.places(), self.watched(host));
                    Box::new(NewRenoHost::new(host, config, places, plans, watched))
                }
            })
        };
        let receiving = || -> Box<dyn Receiving> {
            Box::new(TcpReceiving::new(self.flows.into(), Some(ACK_DELAY), TCP_WINDOW.into()))
        };
        self.populate(sender, receiving)
    }

    /// Returns the DCQCN of the card: the parameters of the reference in Tonic's units.
    fn card(&self) -> RoceDcqcn {
        let Dcqcn { alpha_timer, increase_timer, increase_bytes, .. } = self.dcqcn;
        let cycles = |span: Span| span.0 / CLOCK.period_ps();
        let rate = |bits: f64| CLOCK.rate(bits as u64) as u32;
        RoceDcqcn {
            window: ROCE_WINDOW,
            rto: CLOCK.cycles(ROCE_TIMEOUT * 1_000_000),
            line_rate: rate(self.dcqcn.line_rate),
            min_rate: rate(self.dcqcn.min_rate),
            additive_increase: rate(self.dcqcn.additive_increase),
            hyper_increase: rate(self.dcqcn.hyper_increase),
            alpha_timer: cycles(alpha_timer),
            increase_timer: cycles(increase_timer),
            increase_segments: (increase_bytes / u64::from(SEGMENT)) as u32,
            fast_recovery: self.dcqcn.fast_recovery as u8,
        }
    }

    /// Builds a network of RoCE senders with DCQCN, and their receivers.
    ///
    /// # Errors
    /// Returns an error if the settings describe no possible network or no possible Tonic.
    pub fn dcqcn(&self, senders: Senders) -> Result<TonicNetwork> {
        let roce = self.card();
        let sender = |host, plans| -> Result<Box<dyn Sender>> {
            Ok(match senders {
                Senders::Tonic => {
                    let tonic = Tonic::<_, 4>::new(roce, &self.parameters())?;
                    let watched = self.watched(host);
                    Box::new(TonicNic::new(host, tonic, CLOCK, SEGMENT as usize, plans, watched))
                }
                Senders::Reference => {
                    let window = (u64::from(ROCE_WINDOW), Span::from_millis(ROCE_TIMEOUT));
                    let watched = self.watched(host);
                    Box::new(DcqcnHost::new(host, self.dcqcn, window, SEGMENT as usize, plans, watched))
                }
            })
        };
        let receiving = || -> Box<dyn Receiving> {
            Box::new(RoceReceiving::new(self.flows.into(), NOTIFICATION_INTERVAL))
        };
        self.populate(sender, receiving)
    }

    fn populate(
        &self,
        sender: impl Fn(u16, Vec<FlowPlan>) -> Result<Box<dyn Sender>>,
        receiving: impl Fn() -> Box<dyn Receiving>,
    ) -> Result<TonicNetwork> {
        let mut network = self.network()?;
        for (host, plans) in (0..).zip(self.plans()) {
            network.set_sender(host, sender(host, plans)?);
            network.set_receiving(self.hosts, host, receiving());
        }
        Ok(network)
    }

    /// Runs a network for `time`, in `steps` equal steps. Calls `step` after each.
    pub fn run(
        &self,
        mut network: TonicNetwork,
        time: Span,
        steps: u64,
        mut step: impl FnMut(&TonicNetwork),
    ) -> Outcome {
        let mut queue = vec![];
        for done in 1..=steps.max(1) {
            network.run(Time((u128::from(time.0) * u128::from(done) / u128::from(steps.max(1))) as u64));
            queue.push((network.now(), network.queued_bytes(self.hosts)));
            step(&network);
        }
        let senders = (0..self.hosts).filter_map(|host| network.sender(host));
        let flows = (0..self.hosts).flat_map(|host| (0..self.flows).map(move |flow| (host, flow)));
        let towards = &network.stats().towards[usize::from(self.hosts)];
        Outcome {
            logs: senders.map(|sender| sender.log().clone()).collect(),
            delivered: flows.map(|(host, flow)| network.delivered(host, self.hosts, flow)).collect(),
            dropped: towards.dropped(),
            marked: network.marked(self.hosts),
            pauses: network.pauses(),
            queue_peak: towards.queue_peak,
            queue,
            cycles: network.cycles(),
            time,
        }
    }
}
