//! Chooses values of a new connection from the round trip time that is measured at set-up. These are the values
//! that the datapath does not compute from its own measurements ([`transport_common::congestion::path`]).

use std::time::Duration;

use super::open::Tuning;
use crate::congestion::CongestionParameters;

/// The round trip time for which D-78's window growth of one packet per round trip is right. On a longer path the
/// window grows faster per round trip, so that the growth per second stays the same.
const REFERENCE_ROUND_TRIP: Duration = Duration::from_millis(1);
/// Largest growth of the windows, in packets per round trip.
const MOST_GROWTH: f64 = 8.0;
/// From this round trip time on, the window of 128 packets limits fast paths. Then more packets request an ACK
/// (D-81). The reason: the packets that one ACK covers leave the window together, and they occupy it until the ACK
/// arrives.
const LONG_ROUND_TRIP: Duration = Duration::from_micros(40);
const LONG_ACK_REQUEST_PERCENT: u8 = 25;
/// The first retransmission timeout as a multiple of the round trip time, within the bounds below. The path's
/// jitter is not known yet. A timeout that is too long costs less than one that is too short. The shortest is enough for
/// the first 32 packets over a line of 10 Mb/s, on which each takes 2.8 ms ([`transport_common::congestion::path`]).
const FIRST_TIMEOUT: u32 = 4;
const SHORTEST_FIRST_TIMEOUT: Duration = Duration::from_millis(100);
const LONGEST_FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long timeouts continue before a Resync (D-46), and the smallest number of them.
const PERSISTENCE: Duration = Duration::from_secs(1);
const FEWEST_ATTEMPTS: u32 = 10;

impl Tuning {
    /// Returns the tuning of a connection whose path has this round trip time. A value that the user chose stays.
    /// That is a value that differs from the default. If the target or the timeout does not adapt to the path, the
    /// values that belong to it stay too.
    #[must_use]
    pub fn for_round_trip(mut self, round_trip: Duration) -> Self {
        let default = CongestionParameters::DEFAULT;
        if self.congestion.parameters.adaptive_target
            && round_trip >= LONG_ROUND_TRIP
            && self.ack_request_percent == Self::DEFAULT.ack_request_percent
        {
            self.ack_request_percent = LONG_ACK_REQUEST_PERCENT;
        }
        let parameters = &mut self.congestion.parameters;
        if parameters.adaptive_target {
            let growth =
                (round_trip.as_secs_f64() / REFERENCE_ROUND_TRIP.as_secs_f64()).clamp(1.0, MOST_GROWTH);
            if parameters.fabric_additive_increment == default.fabric_additive_increment {
                parameters.fabric_additive_increment = growth.round();
            }
            if parameters.nic_additive_increment == default.nic_additive_increment {
                parameters.nic_additive_increment = growth.round() as u32;
            }
        }
        if parameters.adaptive_timeout {
            let timeout = (round_trip * FIRST_TIMEOUT).clamp(SHORTEST_FIRST_TIMEOUT, LONGEST_FIRST_TIMEOUT);
            if self.rto == Self::DEFAULT.rto {
                self.rto = timeout.max(parameters.min_rto);
            }
            if self.max_retransmit_attempts == Self::DEFAULT.max_retransmit_attempts {
                let longest = (round_trip * 5 / 4).max(parameters.min_rto).max(Duration::from_micros(1));
                let attempts = (PERSISTENCE.as_nanos() / longest.as_nanos()) as u32;
                self.max_retransmit_attempts =
                    attempts.clamp(FEWEST_ATTEMPTS, Self::DEFAULT.max_retransmit_attempts);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionControl;

    fn auto() -> Tuning {
        Tuning { congestion: CongestionControl::AUTO, ..Tuning::DEFAULT }
    }

    #[test]
    fn a_short_path_keeps_the_defaults_but_for_the_first_timeout() {
        let tuning = auto().for_round_trip(Duration::from_micros(30));
        assert_eq!(tuning, Tuning { rto: Duration::from_millis(100), ..auto() });
    }

    #[test]
    fn a_long_path_grows_faster_and_waits_longer() {
        let tuning = auto().for_round_trip(Duration::from_millis(100));
        let parameters = tuning.congestion.parameters;
        assert_eq!(tuning.ack_request_percent, 25);
        assert_eq!((parameters.fabric_additive_increment, parameters.nic_additive_increment), (8.0, 8));
        assert_eq!((tuning.rto, tuning.max_retransmit_attempts), (Duration::from_millis(400), 10));
        assert!(tuning.congestion.settings().is_ok());
        let tuning = auto().for_round_trip(Duration::from_secs(10));
        assert_eq!(tuning.rto, Duration::from_secs(1));
    }

    #[test]
    fn what_was_chosen_stays() {
        let mut chosen = auto();
        chosen.rto = Duration::from_millis(3);
        chosen.max_retransmit_attempts = 7;
        chosen.ack_request_percent = 50;
        chosen.congestion.parameters.fabric_additive_increment = 2.0;
        chosen.congestion.parameters.nic_additive_increment = 3;
        assert_eq!(chosen.for_round_trip(Duration::from_millis(100)), chosen);
        let datacenter = Tuning { congestion: CongestionControl::SWIFT, ..Tuning::DEFAULT };
        assert_eq!(datacenter.for_round_trip(Duration::from_millis(100)), datacenter);
    }
}
