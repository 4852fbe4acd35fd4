//! The order of the modules: each uses only modules above it in the table of `docs/architecture.md`. A module that
//! is not in the table fails the test as well.

use std::fs;
use std::path::Path;

/// The heading of the section with the table, and the first cell of the table's head.
const SECTION: &str = "\n## Who owns what\n";
const HEAD: &str = "module";

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
    let graph = source_check::modules(&crate_root.join("src/lib.rs")).expect("the sources can be read");
    let circles = graph.circles();
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
}

/// The functions of `connection` that can reach the whole connection: each of them may break what any part relies on.
/// The others get the parts that they need. Make it fewer, and lower this number.
const WHOLE: usize = 58;

#[test]
fn few_functions_can_reach_the_whole_connection() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let found = source_check::holders(&root, "connection", &["Entry", "Connection"]).expect("the sources");
    assert_eq!(found.len(), WHOLE, "{}", source_check::lines(&found));
}
