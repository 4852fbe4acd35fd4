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
