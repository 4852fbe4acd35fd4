//! The settings of section 6.2 of the paper: hosts with many flows each, all to one receiving host.

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
/// Bytes of a segment, frames' headers included.
pub const SEGMENT: u32 = 1_000;
/// The switch's buffer.
pub const BUFFER: ByteCount = ByteCount(5_500_000);
/// Segments in a TCP window at most: Tonic's bitmaps of 128 bits.
pub const TCP_WINDOW: u16 = 128;
/// The first window: RFC 5681, 3.1, for segments of at most 1095 bytes.
const INITIAL_WINDOW: u16 = 4;
/// How long an acknowledgment is delayed: Linux's least.
pub const ACK_DELAY: Span = Span::from_millis(40);
/// Segments in RoCE's window at most: Tonic's bitmaps of 256 bits.
const ROCE_WINDOW: u16 = 256;
/// N of DCQCN's notification point.
const NOTIFICATION_INTERVAL: Span = Span::from_micros(50);
/// RoCE's retransmission timeout, milliseconds.
const ROCE_TIMEOUT: u64 = 1;

/// Flow control on dynamic thresholds: section 4 of the DCQCN paper, with 22.4 KB of headroom a port, and two frames of
/// hysteresis. One priority is in use, so that beta = 8 over 8 priorities is an alpha of 1.
pub fn dynamic_flow_control(ports: u16) -> FlowControl {
    let headroom = ByteCount(22_400 * u64::from(ports));
    let threshold = PauseThreshold::Dynamic { buffer: BUFFER, headroom, alpha: Alpha::default() };
    FlowControl { threshold, hysteresis: ByteCount(2 * u64::from(SEGMENT)) }
}

/// Whose senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// A Tonic in each host.
    Tonic,
    /// The reference senders.
    Reference,
}

impl Senders {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tonic, Self::Reference];

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tonic => "Tonic",
            Self::Reference => "reference",
        }
    }
}

/// Hosts that send to one more host.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Hosts that send.
    pub hosts: u16,
    /// Flows of each.
    pub flows: u16,
    /// Of every cable.
    pub rate: Rate,
    /// How far clocks of transmitters are off at most, parts in a million: see [`Cabling::clock_tolerance`].
    pub clock_tolerance: u32,
    /// See [`Cabling::processing`].
    pub processing: Span,
    /// Of light alone; frames take their time on top.
    pub round_trip: Span,
    /// Flows start at random within this time.
    pub spread: Span,
    /// What the receiver's card drops.
    pub drops: DropPattern,
    /// How the switch marks.
    pub red: Option<Red>,
    /// When the switch pauses hosts; `None`: it drops.
    pub flow_control: Option<FlowControl>,
    /// DCQCN's reaction point, under both kinds of senders.
    pub dcqcn: Dcqcn,
    /// N of Tonic: segment addresses of a flow that wait for credit; 16 or more, the output queue has as many places.
    pub outstanding: u8,
    /// The flow of host 0 of which everything is written down.
    pub watched: Option<u16>,
    /// Decides all that is random.
    pub seed: u64,
}

/// What became of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the hosts wrote down.
    pub logs: Vec<SenderLog>,
    /// Segments delivered, by flow, those of host 0 first.
    pub delivered: Vec<u64>,
    /// Frames the switch dropped.
    pub dropped: u64,
    /// Frames the switch marked, and all data frames it saw.
    pub marked: (u64, u64),
    /// How often the switch paused a host.
    pub pauses: u64,
    /// The most bytes that stood in its queue.
    pub queue_peak: u64,
    /// Bytes in the queue towards the receiver, at the end of each step of the run.
    pub queue: Vec<(Time, u64)>,
    /// Cycles computed by all Tonics.
    pub cycles: u64,
    /// Simulated.
    pub time: Span,
}

impl Outcome {
    /// Mean throughput of each flow from `from` on, in Mb/s, headers included; `before` is what was delivered then.
    #[must_use]
    pub fn megabits(&self) -> Vec<f64> {
        let microseconds = self.time.0 as f64 / 1e6;
        self.delivered.iter().map(|count| (count * 8 * u64::from(SEGMENT)) as f64 / microseconds).collect()
    }
}

impl Scenario {
    /// Flows' starts, host by host: the same for both kinds of senders.
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

    /// Segments of a flow that may wait for the cable: with one flow Tonic's output queue is all its own.
    fn places(&self) -> usize {
        usize::from(self.outstanding) * if self.flows == 1 { 2 } else { 1 }
    }

    fn watched(&self, host: u16) -> Option<u16> {
        self.watched.filter(|_| host == 0)
    }

    /// A network of NewReno senders and TCP receivers.
    ///
    /// # Errors
    /// Settings that describe no network, or no Tonic.
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

    /// The card's DCQCN: the reference's parameters in its units.
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

    /// A network of RoCE senders with DCQCN, and their receivers.
    ///
    /// # Errors
    /// Settings that describe no network, or no Tonic.
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

    /// Runs a network for a time, in `steps` steps, told after each.
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
