//! The sending side of a host, and the log of its events.

use fabric_model::Time;
use tonic_model::ControlPacket;

use super::uplink::Uplink;

/// The sending side of a host: a Tonic, or one of the reference senders.
pub trait Sender {
    /// Returns when the sender may do something without a packet. `None` means never.
    fn next_event(&self) -> Option<Time>;

    /// Handles a control packet that has arrived. The caller has called [`Self::run`] up to `now`.
    fn receive(&mut self, now: Time, packet: ControlPacket, uplink: &mut Uplink);

    /// Does everything that is due before `end`.
    fn run(&mut self, end: Time, uplink: &mut Uplink);

    /// Returns the log.
    fn log(&self) -> &SenderLog;

    /// Returns the number of cycles computed, or 0 for a sender without a clock.
    fn cycles(&self) -> u64 {
        0
    }
}

/// The event by which a sender noticed a loss.
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
    /// The time in picoseconds.
    pub picoseconds: u64,
    /// The event by which the sender noticed the loss.
    pub kind: LossKind,
    /// The first segment not acknowledged.
    pub segment: u32,
    /// The slow start threshold from now on, in segments.
    pub ssthresh: u64,
}

/// The log of a sender: all events of one flow, and sums over all flows.
#[derive(Clone, Debug, Default)]
pub struct SenderLog {
    /// The watched flow. All its events are logged.
    pub watched: Option<u16>,
    /// The changes of the watched flow's congestion window, in segments.
    pub windows: Vec<(Time, f64)>,
    /// The changes of the watched flow's rate, in bits per second.
    pub rates: Vec<(Time, f64)>,
    /// The transmissions of the watched flow: time, segment, and whether it was sent before.
    pub transmissions: Vec<(Time, u32, bool)>,
    /// The loss episodes of the watched flow.
    pub losses: Vec<Loss>,
    /// The number of segments sent, of all flows.
    pub transmitted: u64,
    /// The number of retransmissions, by flow.
    pub retransmissions: Vec<u64>,
    /// The number of timeouts of all flows.
    pub timeouts: u64,
    /// The number of congestion notifications received, by flow.
    pub notifications: Vec<u64>,
    /// The times at which notifications for the watched flow arrived.
    pub notified: Vec<Time>,
}

impl SenderLog {
    /// Creates an empty log for `flows` flows.
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

    /// Logs the congestion window of the watched flow.
    pub(super) fn window(&mut self, time: Time, segments: f64) {
        if self.windows.last().is_none_or(|(_, last)| *last != segments) {
            self.windows.push((time, segments));
        }
    }

    /// Logs the rate of the watched flow.
    pub(super) fn rate(&mut self, time: Time, bits_per_second: f64) {
        if self.rates.last().is_none_or(|(_, last)| *last != bits_per_second) {
            self.rates.push((time, bits_per_second));
        }
    }
}
