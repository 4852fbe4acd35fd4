//! Tests data centres through their public interface.

mod cards;
mod comparison;
mod flows;
mod patterns;

use fabric_model::{Span, Time, Topology};

use super::{DataCentre, FlowPlan, Message, Plan};

/// Bytes of a frame with a full segment of default size, over IPv4.
const FRAME: u64 = 14 + 20 + 8 + 16 + 28 + 28 + SEGMENT;
/// Default user data of a packet.
const SEGMENT: u64 = 3264;
/// Bytes of a BACK over IPv4.
const BACK: u64 = 14 + 20 + 8 + 16 + 32;

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

/// Returns a plan with hosts at one switch and the links that `fabric` describes.
fn star(hosts: u16, fabric: &str) -> Plan {
    Plan::new(Topology::star(hosts), fabric.parse().expect("valid"))
}

/// Returns a flow with one message at time 0.
fn write(source: u16, destination: u16, bytes: u64) -> FlowPlan {
    FlowPlan::new(source, destination, vec![Message { at: Time::ZERO, bytes }])
}

fn build(plan: Plan) -> DataCentre {
    DataCentre::new(plan).expect("the ports exist")
}

/// Runs all flows to their end, and 2 ms more so that the fabric becomes idle.
fn complete(plan: Plan) -> DataCentre {
    let mut data_centre = build(plan);
    assert!(data_centre.run_to_completion(micros(1_000_000)), "not complete");
    data_centre.run_until(data_centre.now() + Span::from_millis(2));
    data_centre
}
