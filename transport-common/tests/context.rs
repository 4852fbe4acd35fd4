//! Size of the connection context, section by section, and its zero value.

#[path = "packet_delivery/harness/mod.rs"]
mod harness;

use transport_common::congestion::control::Congestion;
use transport_common::congestion::settings::CurrentSettings;
use transport_common::connection::{
    Cold, Connection, Endpoint, Service, Snapshot, State, Statistics, Tables,
};
use transport_common::packet_delivery::{AckState, ReceiveWindow, TransmitWindow, Tuning, TxPacket};
use transport_common::resources::Occupancy;
use transport_common::security::{PeerClock, Security, Tunnel};
use transport_common::transaction::{Initiator, Response, Target, TargetRequest, Transaction};
use transport_common::ulp::{Answer, Responder};
use transport_common::units::Deadline;

/// Sections of the context and their sizes in bytes, by sublayer. `cargo test --test context -- --nocapture`
/// prints them.
fn sections() -> Vec<(&'static str, &'static str, usize)> {
    vec![
        ("identity", "state, generation", 2 * size_of::<u32>()),
        ("identity", "endpoint", size_of::<Endpoint>()),
        ("security", "security", size_of::<Security>()),
        ("packet delivery", "transmit windows", 2 * size_of::<TransmitWindow>()),
        ("packet delivery", "receive windows", 2 * size_of::<ReceiveWindow>()),
        ("packet delivery", "acknowledgement state", size_of::<AckState>()),
        ("packet delivery", "retransmission timer", size_of::<Deadline>()),
        ("packet delivery", "tuning", size_of::<Tuning>()),
        ("transaction", "initiator", size_of::<Initiator>()),
        ("transaction", "target", size_of::<Target>()),
        ("ulp", "responder", size_of::<Responder>()),
        ("congestion", "congestion", size_of::<Congestion>()),
        ("engine", "service", size_of::<Service>()),
    ]
}

/// What is rarely used, beside the context.
fn cold() -> Vec<(&'static str, &'static str, usize)> {
    vec![
        ("security", "tunnel", size_of::<Tunnel>()),
        ("security", "peer's clock", size_of::<PeerClock>()),
        ("resources", "occupancy", size_of::<Occupancy>()),
    ]
}

fn tables(entry: &Snapshot) -> Vec<(&'static str, usize, usize)> {
    let t = &entry.tables;
    vec![
        ("packets", size_of::<TxPacket>(), t.delivery.packets.as_flattened().len()),
        ("rack", size_of_val(&t.delivery.rack), 1),
        ("nack", size_of_val(&t.delivery.nack), 1),
        ("transactions", size_of::<Transaction>(), t.transactions.len()),
        ("requests", size_of::<TargetRequest>(), t.requests.len()),
        ("responses", size_of::<Response<Answer>>(), t.responses.len()),
        ("statistics", size_of::<Statistics>(), 1),
        ("steps recorded", size_of::<u64>(), 1),
    ]
}

#[test]
fn sections_fill_a_context_of_at_most_a_kilobyte() {
    println!("{:<16} {:<22} {:>6}", "sublayer", "section", "bytes");
    for (sublayer, section, bytes) in sections() {
        println!("{sublayer:<16} {section:<22} {bytes:>6}");
    }
    println!("{:<16} {:<22} {:>6}", "", "Connection", size_of::<Connection>());
    let sum: usize = sections().iter().map(|s| s.2).sum();
    // There are no gaps: a larger context means that a section is missing above.
    assert_eq!(sum, size_of::<Connection>());
    assert!(size_of::<Connection>() <= 1024);
    for (sublayer, section, bytes) in cold() {
        println!("{sublayer:<16} {section:<22} {bytes:>6}");
    }
    println!("{:<16} {:<22} {:>6}", "", "Cold", size_of::<Cold>());
    assert_eq!(cold().iter().map(|s| s.2).sum::<usize>(), size_of::<Cold>());
}

#[test]
fn tables_fill_the_entry_without_padding() {
    let entry = harness::closed_entry();
    println!("{:<20} {:>6} {:>6} {:>7}", "table", "bytes", "count", "sum");
    let mut sum = 0;
    for (table, bytes, count) in tables(&entry) {
        println!("{table:<20} {bytes:>6} {count:>6} {:>7}", bytes * count);
        sum += bytes * count;
    }
    println!("{:<20} {:>21}", "Tables", size_of::<Tables>());
    println!("{:<20} {:>21}", "Snapshot", size_of::<Snapshot>());
    assert_eq!(sum, size_of::<Tables>());
    let state = size_of::<Connection>() + size_of::<Cold>();
    let parts = state + size_of::<CurrentSettings>() + size_of::<Tables>();
    assert_eq!(size_of::<Snapshot>(), parts);
    // A map value together with its lock must be far smaller than the allocator's largest object.
    assert!(size_of::<Snapshot>() <= 32 << 10);
}

#[test]
fn zero_bytes_are_a_closed_connection() {
    let zeroed = harness::closed_entry();
    assert!(*zeroed == harness::default_entry());
    assert_eq!(zeroed.connection.state, State::Closed);
    assert_eq!(zeroed.connection.flow.security.rx_spi.0, 0, "and it accepts no packet (F-9.2.2.3-8)");
}
