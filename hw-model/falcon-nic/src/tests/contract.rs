//! Tests that the card and the frame on a shared host fulfil the contract of every platform.

use std::cell::RefCell;
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use host_nic::contract::{self, Fixture};
use host_nic::{FrameAtHand, HostNic};
use transport_common::units::Picoseconds;

use crate::backend::{LiveFrame, SharedCard};
use crate::card::Card;
use crate::request::Request;

const SECOND: Picoseconds = Picoseconds(1_000_000_000_000);

struct Host(Rc<RefCell<HostNic>>);

impl Host {
    fn new() -> Self {
        Self(Rc::new(RefCell::new(contract::node())))
    }
}

impl Fixture for Host {
    type Platform<'a> = LiveFrame;

    fn with(&mut self, frame: FrameAtHand) -> LiveFrame {
        SharedCard::backend(Rc::clone(&self.0), frame)
    }

    fn arrange(&mut self, change: impl FnOnce(&mut HostNic)) {
        change(&mut self.0.borrow_mut());
    }

    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R {
        at(&mut self.0.borrow_mut())
    }
}

struct InCycles<'y>(Host, &'y Yielder<Picoseconds, Request>);

impl<'y> Fixture for InCycles<'y> {
    type Platform<'a>
        = Card<'y, LiveFrame>
    where
        Self: 'a;

    fn with(&mut self, frame: FrameAtHand) -> Card<'y, LiveFrame> {
        Card::new(self.0.with(frame), self.1, false)
    }

    fn arrange(&mut self, change: impl FnOnce(&mut HostNic)) {
        self.0.arrange(change);
    }

    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R {
        self.0.look(at)
    }
}

#[test]
fn a_frame_on_a_shared_host_keeps_the_contract() {
    contract::check(&mut Host::new());
}

#[test]
fn the_card_in_cycles_keeps_the_contract() {
    let mut run = Coroutine::new(|blocks, _| contract::check(&mut InCycles(Host::new(), blocks)));
    let mut waits = 0;
    // Every block serves its request at once here. Other tests check the cycles.
    while let CoroutineResult::Yield(_) = run.resume(SECOND) {
        waits += 1;
    }
    assert!(waits > 0, "the card sends requests to its blocks");
}
