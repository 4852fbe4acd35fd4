//! Tests that the card and the frame on a shared host fulfil the contract of every platform.

use std::cell::RefCell;
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use host_nic::contract::{self, Fixture};
use host_nic::{FrameAtHand, HostConfig, HostNic, node_config};
use transport_common::units::Picoseconds;

use crate::backend::LiveFrame;
use crate::card::Card;
use crate::request::Request;

const SECOND: Picoseconds = Picoseconds(1_000_000_000_000);

struct Host(Rc<RefCell<HostNic>>);

impl Host {
    fn new() -> Self {
        let node = node_config([0; 6], [0; 4], [0; 16]);
        let config = HostConfig { cells: contract::CELLS, memory: contract::MEMORY, ..HostConfig::new(node) };
        let mut nic = HostNic::new(config);
        nic.set_time(SECOND);
        Self(Rc::new(RefCell::new(nic)))
    }
}

impl Fixture for Host {
    type Platform<'a> = LiveFrame;

    fn with(&mut self, frame: Vec<u8>) -> LiveFrame {
        let frame = FrameAtHand { bytes: frame, limit: contract::FRAME_LIMIT, arrival: None };
        LiveFrame::new(Rc::clone(&self.0), frame)
    }
}

struct InCycles<'y>(Host, &'y Yielder<Picoseconds, Request>);

impl<'y> Fixture for InCycles<'y> {
    type Platform<'a>
        = Card<'y, LiveFrame>
    where
        Self: 'a;

    fn with(&mut self, frame: Vec<u8>) -> Card<'y, LiveFrame> {
        Card::new(self.0.with(frame), self.1, false)
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
