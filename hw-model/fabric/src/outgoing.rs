//! A frame on its way out of a switch.

use super::header::Class;
use super::port::Port;
use super::time::Time;

/// An impairable frame's name, of which all decisions about it are a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) ingress: u16,
    pub(super) ordinal: u64,
    pub(super) copy: u8,
    /// The burst chain is in its bad state at this frame.
    pub(super) in_burst: bool,
}

/// When a frame stands at a switch, and from where to where it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) time: Time,
    pub(super) ingress: Port,
    pub(super) destination: Port,
}

/// A frame, or one copy of it, that is to leave by a link.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) way: Way,
    pub(super) frame: Vec<u8>,
    pub(super) class: Class,
    /// `None` if it is not to be impaired.
    pub(super) name: Option<Name>,
}

impl Outgoing {
    pub(super) fn bytes(&self) -> u64 {
        self.frame.len() as u64
    }
}
