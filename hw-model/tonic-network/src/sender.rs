//! What a host's sending side does, and what is written down about it.

use fabric_model::Time;
use tonic_model::ControlPacket;

use super::uplink::Uplink;

/// The sending side of a host: a Tonic, or one of the reference senders.
pub trait Sender {
    /// When it may do something without a packet; `None`: never.
    fn next_event(&self) -> Option<Time>;

    /// A control packet has arrived. [`Self::run`] was called up to `now`.
    fn receive(&mut self, now: Time, packet: ControlPacket, uplink: &mut Uplink);

    /// Does all that is due before `end`.
    fn run(&mut self, end: Time, uplink: &mut Uplink);

    /// What was written down.
    fn log(&self) -> &SenderLog;

    /// Cycles computed; 0 for a sender without a clock.
    fn cycles(&self) -> u64;
}

/// What a sender took for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Three duplicate acknowledgments.
    FastRetransmit,
    /// The retransmission timer.
    Timeout,
}

/// A loss episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Loss {
    /// When, picoseconds.
    pub picoseconds: u64,
    /// How it was noticed.
    pub kind: LossKind,
    /// The first segment not acknowledged.
    pub segment: u32,
    /// The slow start threshold from now on, segments.
    pub ssthresh: u64,
}

/// What is written down of one flow, and the sums of all.
#[derive(Clone, Debug, Default)]
pub struct SenderLog {
    /// The flow of which everything is written down.
    pub watched: Option<u16>,
    /// Its congestion window in segments, whenever it changed.
    pub windows: Vec<(Time, f64)>,
    /// Its rate in bits a second, whenever it changed.
    pub rates: Vec<(Time, f64)>,
    /// Its transmissions: when, which segment, whether it was sent before.
    pub transmissions: Vec<(Time, u32, bool)>,
    /// Its loss episodes.
    pub losses: Vec<Loss>,
    /// Segments sent, of all flows.
    pub transmitted: u64,
    /// Retransmissions, by flow.
    pub retransmissions: Vec<u64>,
    /// Timeouts of all flows.
    pub timeouts: u64,
    /// Congestion notifications received, by flow.
    pub notifications: Vec<u64>,
    /// When those of the watched flow arrived.
    pub notified: Vec<Time>,
}

impl SenderLog {
    /// For so many flows.
    pub(super) fn new(flows: usize, watched: Option<u16>) -> Self {
        Self { watched, retransmissions: vec![0; flows], notifications: vec![0; flows], ..Self::default() }
    }

    pub(super) fn watches(&self, flow: u16) -> bool {
        self.watched == Some(flow)
    }

    pub(super) fn transmission(&mut self, time: Time, flow: u16, segment: u32, again: bool) {
        self.transmitted += 1;
        self.retransmissions[usize::from(flow)] += u64::from(again);
        if self.watches(flow) {
            self.transmissions.push((time, segment, again));
        }
    }

    pub(super) fn notification(&mut self, time: Time, flow: u16) {
        if let Some(count) = self.notifications.get_mut(usize::from(flow)) {
            *count += 1;
            if self.watches(flow) {
                self.notified.push(time);
            }
        }
    }

    /// Of the watched flow.
    pub(super) fn window(&mut self, time: Time, segments: f64) {
        if self.windows.last().is_none_or(|(_, last)| *last != segments) {
            self.windows.push((time, segments));
        }
    }

    /// Of the watched flow.
    pub(super) fn rate(&mut self, time: Time, bits_per_second: f64) {
        if self.rates.last().is_none_or(|(_, last)| *last != bits_per_second) {
            self.rates.push((time, bits_per_second));
        }
    }
}
