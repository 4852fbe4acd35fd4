//! Where the events of a connection are handled, by which algorithm and with which parameters.

use super::algorithm::AlgorithmId;
use super::parameters::Prepared;
use bytemuck::{Pod, Zeroable};

/// The place where a connection's events are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Placement {
    /// Nowhere: windows and timeout stay as they are.
    #[default]
    Constant = 0,
    /// In the datapath, in the step that raises the event.
    Kernel = 1,
    /// In a rate update engine in user space, through the queues (10.6).
    User = 2,
}

impl Placement {
    /// All placements; the discriminant is the index.
    pub const ALL: [Self; 3] = [Self::Constant, Self::Kernel, Self::User];

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Kernel => "kernel",
            Self::User => "user",
        }
    }

    /// Returns the placement with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }
}

/// Settings of a connection's congestion control. They can be set before or during traffic. All zero bytes keep
/// windows and timeout constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Settings {
    /// A [`Placement`]; an unknown one counts as constant.
    pub placement: u32,
    /// An [`AlgorithmId`]; an unknown one counts as Swift.
    pub algorithm: u32,
    /// Event queue, 0 to 3 (F-10.6.2.1-11).
    pub event_queue: u32,
    /// Always 0.
    pub reserved: u32,
    /// Parameters of the algorithms.
    pub prepared: Prepared,
}

impl Settings {
    /// Swift in the datapath, with the defaults of D-78.
    pub const SWIFT: Self = Self {
        placement: Placement::Kernel as u32,
        algorithm: AlgorithmId::Swift as u32,
        event_queue: 0,
        reserved: 0,
        prepared: Prepared::DEFAULT,
    };
    /// Constant windows.
    pub const CONSTANT: Self = Self { placement: Placement::Constant as u32, ..Self::SWIFT };

    /// Returns the chosen algorithm.
    #[inline(always)]
    pub const fn algorithm(&self) -> AlgorithmId {
        match AlgorithmId::from_index(self.algorithm) {
            Some(algorithm) => algorithm,
            None => AlgorithmId::Swift,
        }
    }
}
