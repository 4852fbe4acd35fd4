//! The settings of congestion control: the algorithm, its placement and its parameters.
//!
//! A connection starts with [`CongestionControl::default`], which is Swift in the kernel (D-78). It can be changed
//! while traffic flows: [`Connection::set_congestion`](crate::Connection::set_congestion). A custom algorithm
//! implements [`Algorithm`]. It is registered by its name ([`Algorithms`], or later
//! `Node::register_algorithm`), and runs in the node's rate update engine in user space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transport_common::congestion::settings::Settings;
use transport_common::limits;

pub use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
pub use transport_common::congestion::event::{Direction, Event, EventType, RetransmitReason};
pub use transport_common::congestion::nic_time::{DelayCode, DelaySelect};
pub use transport_common::congestion::parameters::{OutOfRange, Prepared};
pub use transport_common::congestion::result::Outcome;
pub use transport_common::congestion::settings::Placement;
pub use transport_common::congestion::window;

pub(crate) mod algorithms;
mod change;
mod parameters;
pub(crate) mod placement;
mod quantity;

pub use algorithms::Algorithms;
pub use algorithms::SharedAlgorithm;
pub use change::CongestionChange;
pub use parameters::PROFILES;
pub use parameters::{CongestionParameters, DcqcnParameters};

use crate::common::error::Error;

/// An algorithm of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmChoice {
    /// A built-in algorithm. It gives the same results in the kernel and in user space.
    BuiltIn(AlgorithmId),
    /// A custom algorithm that was registered with the node under this name. It runs in user space only.
    Custom(&'static str),
}

impl AlgorithmChoice {
    /// Returns the name of the algorithm.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn(id) => id.name(),
            Self::Custom(name) => name,
        }
    }
}

/// Congestion control of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionControl {
    /// The algorithm.
    pub algorithm: AlgorithmChoice,
    /// Where the algorithm runs. With [`Placement::Constant`] no algorithm runs, and the windows and the timeout
    /// stay as they are.
    pub placement: Placement,
    /// Event queue of the connection, 0 to 3 (F-10.6.2.1-11). Used with placement in user space only.
    pub event_queue: u32,
    /// Parameters of the algorithm.
    pub parameters: CongestionParameters,
}

impl CongestionControl {
    /// Swift in the kernel, with the defaults of D-78.
    pub const SWIFT: Self = Self {
        algorithm: AlgorithmChoice::BuiltIn(AlgorithmId::Swift),
        placement: Placement::Kernel,
        event_queue: 0,
        parameters: CongestionParameters::DEFAULT,
    };
    /// Swift in the kernel, with the profile [`AUTO`](CongestionParameters::AUTO).
    pub const AUTO: Self = Self { parameters: CongestionParameters::AUTO, ..Self::SWIFT };
    /// Windows and timeout stay what the connection starts with.
    pub const CONSTANT: Self = Self { placement: Placement::Constant, ..Self::SWIFT };

    /// Selects another algorithm. A custom algorithm runs in user space only, so the placement becomes user space.
    pub fn choose(&mut self, algorithm: AlgorithmChoice) {
        self.algorithm = algorithm;
        if let AlgorithmChoice::Custom(_) = algorithm {
            self.placement = Placement::User;
        }
    }

    /// Converts to the settings of the datapath.
    ///
    /// # Errors
    /// The first value out of its range, or an algorithm that cannot run where it is placed.
    pub fn settings(&self) -> Result<Settings, Error> {
        let algorithm = match (self.algorithm, self.placement) {
            (AlgorithmChoice::BuiltIn(id), _) => id,
            // The datapath does not run a custom algorithm, so it gets any built-in one.
            (AlgorithmChoice::Custom(_), Placement::User) => AlgorithmId::Swift,
            (AlgorithmChoice::Custom(name), _) => return Err(Error::AlgorithmPlacement { name }),
        };
        if !limits::EVENT_QUEUE.contains(self.event_queue.into()) {
            return Err(OutOfRange { name: "event_queue", range: limits::EVENT_QUEUE.text }.into());
        }
        Ok(Settings {
            placement: self.placement as u32,
            algorithm: algorithm as u32,
            event_queue: self.event_queue,
            reserved: 0,
            prepared: self.parameters.prepare()?,
        })
    }
}

impl Default for CongestionControl {
    fn default() -> Self {
        Self::AUTO
    }
}

/// Information about the congestion control of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CongestionInfo {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Where the algorithm runs.
    #[serde(with = "placement")]
    pub placement: Placement,
    /// Event queue, 0 to 3.
    pub event_queue: u32,
    /// Why the algorithm has failed, if it has: it panicked. The windows keep the values of its last result until
    /// another algorithm is set.
    pub failure: Option<String>,
    /// Parameters by name, written as in the node file.
    pub parameters: BTreeMap<String, Value>,
}

impl CongestionInfo {
    pub(crate) fn new(control: &CongestionControl, failure: Option<String>) -> Self {
        Self {
            algorithm: control.algorithm.name().to_owned(),
            placement: control.placement,
            event_queue: control.event_queue,
            failure,
            parameters: control.parameters.values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_cores() {
        assert_eq!(CongestionControl::default(), CongestionControl::AUTO);
        assert_eq!(CongestionControl::SWIFT.settings().expect("legal"), Settings::SWIFT);
        assert_eq!(CongestionControl::CONSTANT.settings().expect("legal"), Settings::CONSTANT);
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let own =
            CongestionControl { algorithm: AlgorithmChoice::Custom("mine"), ..CongestionControl::SWIFT };
        assert!(matches!(own.settings(), Err(Error::AlgorithmPlacement { name: "mine" })));
        let queue = CongestionControl { event_queue: 4, ..CongestionControl::SWIFT };
        assert!(matches!(queue.settings(), Err(Error::CongestionParameter(e)) if e.name == "event_queue"));
        let user = CongestionControl { placement: Placement::User, ..own };
        assert_eq!(user.settings().expect("legal").placement, Placement::User as u32);
    }
}
