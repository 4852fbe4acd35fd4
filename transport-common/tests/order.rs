//! The order of the modules: each uses only modules above it. The list is the one in `docs/architecture.md`. A
//! module that is not in the list fails the test as well.

use std::path::Path;

/// From top to bottom.
const ORDER: [&str; 21] = [
    "verifier",
    "shared",
    "units",
    "ids",
    "bitmap",
    "limits",
    "counters",
    "hardware_clock",
    "timing_wheel",
    "wire",
    "packet_delivery",
    "transaction",
    "resources",
    "ulp",
    "congestion",
    "security",
    "queues",
    "connection",
    "datapath",
    "tape",
    "crate",
];

#[test]
fn modules_use_only_what_stands_above_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let graph = source_check::modules(&root).expect("the sources can be read");
    let circles = graph.circles();
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
    let found = graph.out_of_order(&ORDER);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
}
