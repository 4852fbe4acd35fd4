//! What a node says of itself: the types of its reports, which the node fills and the control socket carries.

mod connection_manager;
mod datapath;
mod rate_update;
mod receive_timestamps;
mod telemetry;
mod trace;

pub use connection_manager::{Event, ManagerStatistics, Reconnecting, RegionAdvertisement, SessionInfo};
pub use datapath::{AttachMode, EngineMode, EngineState, EngineStatus, Transmit};
pub use rate_update::{AdmissionInfo, EventQueueInfo, FailedAlgorithm, RateUpdateState, RateUpdateStatus};
pub use receive_timestamps::{CardClock, ReceiveTimestamps, StampedPackets, TimestampSource};
pub use telemetry::{NodeStats, Pools};
pub use trace::TraceReport;

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use serde::Serialize;

    use super::*;
    use crate::congestion::Placement;
    use crate::control::FailureKind;
    use crate::control::answer::{ReceiveState, TraceEnd, TraceState};
    use crate::{ConnectionState, InitiatorState, TargetState, TargetWait, TransactionKind, Ulp};

    /// Returns whether each value is shown as in JSON.
    fn is_shown_as_in_json<T: Display + Serialize>(values: &[T]) -> bool {
        values.iter().all(|value| serde_json::to_value(value).expect("plain data") == value.to_string())
    }

    #[test]
    fn people_and_programs_read_the_same_names() {
        assert!(is_shown_as_in_json(&[AttachMode::Native, AttachMode::Generic]));
        assert!(is_shown_as_in_json(&[Transmit::XdpRedirect, Transmit::Stack]));
        assert!(is_shown_as_in_json(&[EngineMode::Busy, EngineMode::Sleeping]));
        assert!(is_shown_as_in_json(&[EngineState::Running, EngineState::Sleeping, EngineState::Stopped]));
        assert!(is_shown_as_in_json(&[RateUpdateState::Off, RateUpdateState::Stalled]));
        assert!(is_shown_as_in_json(&[TimestampSource::Hardware, TimestampSource::Software]));
        assert!(is_shown_as_in_json(&[TraceState::Starting, TraceState::Writing]));
        assert!(is_shown_as_in_json(&[TraceEnd::Limit, TraceEnd::Request]));
        assert!(is_shown_as_in_json(&[ReceiveState::Posted, ReceiveState::Failed]));
        assert!(is_shown_as_in_json(&[FailureKind::Invalid, FailureKind::Node]));
        assert!(is_shown_as_in_json(&[ConnectionState::Open, ConnectionState::Closing]));
        assert!(is_shown_as_in_json(&[TransactionKind::Push, TransactionKind::Pull]));
        assert!(is_shown_as_in_json(&[InitiatorState::PushReqUlpRx, InitiatorState::PullDataUlpTx]));
        assert!(is_shown_as_in_json(&[TargetState::PushDataRx]) && is_shown_as_in_json(&[TargetWait::Order]));
        assert!(is_shown_as_in_json(&[Ulp::Rdma, Ulp::Block]));
        let failed = EngineState::Failed("no memory".to_owned());
        assert_eq!(failed.to_string(), "failed: no memory");
        assert_eq!(Placement::ALL.map(|place| place.to_string()), ["constant", "kernel", "user"]);
    }
}
