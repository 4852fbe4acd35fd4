//! A frame that leaves a switch.

use super::header::Class;
use super::port::Port;
use super::time::Time;

/// The identity of a frame that can be impaired. All decisions about the frame are a function of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) ingress: u16,
    pub(super) ordinal: u64,
    pub(super) copy: u8,
    /// True if the burst model is in its bad state at this frame.
    pub(super) in_burst: bool,
}

/// The time at which a frame is at a switch, its port of entry and its destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) time: Time,
    pub(super) ingress: Port,
    pub(super) destination: Port,
}

/// A frame, or one copy of it, that leaves by a link.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) way: Way,
    pub(super) frame: Vec<u8>,
    pub(super) class: Class,
    /// `None` if the frame is not impaired.
    pub(super) name: Option<Name>,
}

impl Outgoing {
    pub(super) fn bytes(&self) -> u64 {
        self.frame.len() as u64
    }
}
