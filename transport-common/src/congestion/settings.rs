//! Where the events of a connection are handled, by which algorithm and with which parameters.

use core::fmt;

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

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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

/// The settings of a connection: those in force, and those that the node has requested. They belong to the connection and
/// are behind its lock, where no application can write. All zero bytes keep windows and timeout constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CurrentSettings {
    /// The settings in force.
    pub in_force: Settings,
    /// The settings that were requested last.
    pub requested: Settings,
    /// 1: what was requested is not in force yet.
    pub pending: u32,
    /// Always 0.
    pub reserved: u32,
}

impl CurrentSettings {
    /// Returns the settings of a connection that begins with these.
    pub const fn new(settings: Settings) -> Self {
        Self { in_force: settings, requested: settings, pending: 0, reserved: 0 }
    }

    /// Requests other settings. They take the place of earlier ones that are not in force yet.
    #[inline(always)]
    pub fn request(&mut self, settings: &Settings) {
        self.requested = *settings;
        self.pending = 1;
    }

    /// Returns whether settings were requested that are not in force yet.
    #[inline(always)]
    pub const fn is_pending(&self) -> bool {
        self.pending != 0
    }

    /// Puts what was requested into force. The caller has to tell
    /// [`Congestion::apply_settings`](super::control::Congestion::apply_settings).
    #[inline(always)]
    pub fn take(&mut self) {
        self.in_force = self.requested;
        self.pending = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was requested is in force once it was taken, and not before; the last request counts.
    #[test]
    fn the_last_request_is_taken() {
        let mut settings = CurrentSettings::new(Settings::CONSTANT);
        assert_eq!((settings.in_force, settings.is_pending()), (Settings::CONSTANT, false));
        let user = Settings { placement: Placement::User as u32, ..Settings::SWIFT };
        for request in [Settings::SWIFT, user] {
            settings.request(&request);
            assert_eq!((settings.in_force, settings.is_pending()), (Settings::CONSTANT, true));
        }
        settings.take();
        assert_eq!(settings, CurrentSettings::new(user));
    }
}
