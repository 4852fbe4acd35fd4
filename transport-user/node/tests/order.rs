//! The order of the modules: each uses only modules above it in the table of `docs/architecture.md`. A module that is not in
//! the table fails the test as well.

use std::fs;
use std::path::Path;

use source_check::Disorder;

/// The section of the page with the table.
const SECTION: &str = "The node";

#[test]
fn modules_use_only_what_stands_above_them() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page =
        fs::read_to_string(crate_root.join("../../docs/architecture.md")).expect("the page can be read");
    let mut order = source_check::listed(&page, SECTION);
    assert!(!order.is_empty(), "no table below \"{SECTION}\"");
    order.push("crate");
    let graph = source_check::modules(&crate_root.join("src/lib.rs")).expect("the sources can be read");
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
}

/// The parts of the connection manager have an order as well, in the documentation of their module.
#[test]
fn parts_of_the_connection_manager_use_only_what_stands_above_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let manager =
        fs::read_to_string(source.join("connection_manager/mod.rs")).expect("the module can be read");
    let comment = |line: &str| line.strip_prefix("//!").map(|line| format!("{}\n", line.trim_start()));
    let page: String = manager.lines().filter_map(comment).collect();
    let parts = source_check::listed(&page, "Layers");
    let mut order: Vec<String> = parts.iter().map(|part| format!("connection_manager::{part}")).collect();
    order.push("connection_manager".to_owned());
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    let graph = source_check::modules(&source.join("lib.rs")).expect("the sources can be read");
    let mut found = graph.out_of_order(&order);
    // A part without an entry counts as the manager itself, which stands last.
    found.retain(|disorder| !matches!(disorder, Disorder::Unlisted(_)));
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
    let is_part =
        |module: &&str| module.starts_with("connection_manager::") && module.matches("::").count() == 1;
    let missing: Vec<_> = graph.modules().filter(is_part).filter(|module| !order.contains(module)).collect();
    assert!(missing.is_empty(), "not in the table of layers: {missing:?}");
}
