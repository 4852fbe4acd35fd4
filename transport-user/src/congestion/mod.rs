//! Congestion control of a connection as people set it: who decides, by which algorithm, with which parameters.
//!
//! A connection starts with [`CongestionControl::default`], Swift in the kernel (D-78), and may be given another while
//! traffic flows: [`Connection::set_congestion`](crate::Connection::set_congestion). An algorithm of one's own
//! implements [`Algorithm`], is made known by its name ([`Algorithms`], or
//! [`Node::register_algorithm`](crate::Node::register_algorithm) later) and runs in the rate update engine in user space
//! ([`crate::rate_update`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transport_common::congestion::settings::Settings;
use transport_common::limits;

pub use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
pub use transport_common::congestion::event::Event;
pub use transport_common::congestion::nic_time::DelaySelect;
pub use transport_common::congestion::parameters::{OutOfRange, Prepared};
pub use transport_common::congestion::result::Outcome;
pub use transport_common::congestion::settings::Placement;
pub use transport_common::congestion::window;

pub(crate) mod algorithms;
mod change;
mod parameters;
mod quantity;
mod set_up;

pub use algorithms::Algorithms;
pub(crate) use algorithms::SharedAlgorithm;
pub use change::CongestionChange;
pub(crate) use parameters::PROFILES;
pub use parameters::{CongestionParameters, DcqcnParameters};

use crate::error::Error;

/// Which algorithm decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmChoice {
    /// One of those built in; kernel and user space give the same results.
    BuiltIn(AlgorithmId),
    /// One that was registered with the node under this name; user space only.
    Custom(&'static str),
}

impl AlgorithmChoice {
    /// Name for people.
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
    /// Which algorithm decides.
    pub algorithm: AlgorithmChoice,
    /// Where it runs; [`Placement::Constant`] keeps windows and timeout as they are.
    pub placement: Placement,
    /// Event queue of the connection, 0 to 3 (F-10.6.2.1-11); of use in user space only.
    pub event_queue: u32,
    /// What the algorithm is told.
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

    /// Takes another algorithm. One of one's own runs in user space only, so it is placed there.
    pub(crate) fn choose(&mut self, algorithm: AlgorithmChoice) {
        self.algorithm = algorithm;
        if let AlgorithmChoice::Custom(_) = algorithm {
            self.placement = Placement::User;
        }
    }

    /// What the datapath takes.
    ///
    /// # Errors
    /// The first value out of its range; an algorithm that does not run where it is placed.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let algorithm = match (self.algorithm, self.placement) {
            (AlgorithmChoice::BuiltIn(id), _) => id,
            // The datapath does not run it, and does not have to know it.
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

/// Congestion control of a connection, for people and programs to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CongestionInfo {
    /// Name of the algorithm.
    pub algorithm: String,
    /// "constant", "kernel" or "user".
    pub placement: String,
    /// Event queue, 0 to 3.
    pub event_queue: u32,
    /// Why the algorithm answers no more: it panicked. Windows stay where its last result left them until another is
    /// set.
    pub failure: Option<String>,
    /// Parameters by name, written as in the node file.
    pub parameters: BTreeMap<String, Value>,
}

impl CongestionInfo {
    pub(crate) fn new(control: &CongestionControl, failure: Option<String>) -> Self {
        Self {
            algorithm: control.algorithm.name().to_owned(),
            placement: control.placement.name().to_owned(),
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
