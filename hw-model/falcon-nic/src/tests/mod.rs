//! Tests the card in cycles.

mod contract;
mod end_to_end;
mod experiments;
mod mix;
mod receive;
mod same;

use fabric_model::{Fabric, Port};
use host_nic::testbed::mac;
use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};

use super::testbed::{self, Traffic};
use super::*;

/// Returns two cards with `connections` connections between them, on a fabric.
fn pair(parameters: &Parameters, connections: usize, traffic: Traffic, fabric: &str) -> Joined {
    let mut fabric = Fabric::new(2, fabric.parse().expect("a configuration")).expect("two ports");
    let cards = (0..2).map(|side| {
        fabric.learn(mac(side), Port(side as u16));
        let card = FalconNic::new(testbed::host_config(side), parameters.clone()).expect("possible");
        testbed::open(&mut card.host_mut(), side, connections, traffic);
        card
    });
    let cards = cards.collect();
    Joined::new(cards, fabric)
}

/// A region for all operations. It is the first half of a card's memory.
const REGION: Region =
    Region { offset: 0, length: 16 << 20, key: 1, access: AccessFlags::all(), ..Region::FREE };

/// Returns a WRITE of memory at `from` to `to`.
fn write(from: u64, to: u64, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: Verb::WRITE,
        flags: WorkFlags::SIGNALED,
        length,
        local_offset: from,
        remote_address: to,
        rkey: REGION.key,
        ..WorkRequest::default()
    }
}
