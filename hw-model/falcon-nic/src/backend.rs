//! The platform behind a run: the live host memory, or a recorded trace.

use std::cell::RefCell;
use std::rc::Rc;

use host_nic::{FrameAtHand, HostNic, HostPlatform, Reach, Remote};
use transport_common::datapath::Platform;
use transport_common::units::Picoseconds;

/// The platform of one run. The card decides the cycles in which its functions are called.
pub trait Backend: Platform + 'static {
    /// Sets the time of the cycle in which the next functions are called, in picoseconds. A backend with recorded
    /// clock readings does not need it.
    fn set_time(&mut self, now: Picoseconds);

    /// Returns the number of steps that the connection of `slot` must have made since the reset of the card before
    /// the run's next step. `None` means that the step can come as soon as the connection is free.
    fn step_after(&self, slot: u32) -> Option<u64> {
        let _ = slot;
        None
    }
}

/// A frame on a card whose memory other runs use too.
pub type LiveFrame = Remote<SharedCard>;

/// The way to a card that several runs share.
///
/// It borrows the memory for one call at a time, and never while the run waits for a block.
#[derive(Clone)]
pub struct SharedCard {
    card: Rc<RefCell<HostNic>>,
    /// The frame.
    pub frame: FrameAtHand,
}

impl SharedCard {
    /// Creates the backend for a frame on a card.
    #[must_use]
    pub const fn backend(card: Rc<RefCell<HostNic>>, frame: FrameAtHand) -> LiveFrame {
        Remote(Self { card, frame })
    }
}

impl Reach for SharedCard {
    fn reach<T>(&mut self, call: impl FnOnce(&mut HostPlatform<'_>) -> T) -> T {
        call(&mut self.card.borrow_mut().platform(&mut self.frame))
    }
}

impl Backend for LiveFrame {
    fn set_time(&mut self, now: Picoseconds) {
        self.0.card.borrow_mut().set_time(now);
    }
}
