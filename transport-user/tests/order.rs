//! The order of the modules: each uses only modules above it in the table of `docs/architecture.md`. So the library
//! does not know the node. A module that is not in the table fails the test as well.

use std::fs;
use std::path::Path;

/// The heading of the section with the table, and the first cell of the table's head.
const SECTION: &str = "\n## Library and node\n";
const HEAD: &str = "module";

/// The only module whose parts import one another in circles. `source-check/tests/workspace.rs` counts them.
const UNTIDY: &str = "connection_manager";

/// Returns the modules in the first column of the table, from top to bottom.
fn order(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once(SECTION).expect("the page has the section");
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut cells = rows.map(|row| row.split('|').nth(1).unwrap_or_default().trim());
    assert_eq!(cells.next(), Some(HEAD), "the first table of the section lists the modules");
    // Every second part of a cell is between backticks. The line below the head has none.
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn modules_use_only_what_stands_above_them() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_root.join("../docs/architecture.md")).expect("the page can be read");
    let mut order = order(&page);
    order.push("crate");
    let place = |name| order.iter().position(|module| *module == name);
    assert!(place("library") < place("node"), "the library stands above the node: {order:?}");
    let graph = source_check::modules(&crate_root.join("src/lib.rs")).expect("the sources can be read");
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
    let mut circles = graph.circles();
    circles.retain(|circle| circle.modules.iter().any(|module| !module.starts_with(UNTIDY)));
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
}
