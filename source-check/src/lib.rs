//! Reads from the sources of a crate which of its modules imports which. Tests use it to check the layers of a
//! crate:
//!
//! ```
//! use std::path::Path;
//!
//! let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
//! let graph = source_check::modules(&root).unwrap();
//! let circles = graph.circles();
//! assert!(circles.is_empty(), "{}", source_check::lines(&circles));
//! let wrong = graph.out_of_order(&["tree", "names", "graph", "reader", "holders", "crate"]);
//! assert!(wrong.is_empty(), "{}", source_check::lines(&wrong));
//! ```
//!
//! What counts as an import of module `b` by module `a`:
//! - A `use`, or any other path in the code of `a` (a type, a call, a pattern, the inside of a macro call), that names
//!   an item that `b` defines. Paths through `crate`, `self`, `super`, imported names and globs are followed.
//! - A re-export is followed to the module that defines the item. If `Header` is defined in `wire::header`, then code that
//!   names `wire::Header` imports `wire::header`, and not the module with the re-export. A module that re-exports items of
//!   its own children does not import them by that.
//! - Code under `#[cfg(test)]` and `#[test]`, attributes, and links in comments do not count.
//!
//! A method call names no module, so it is not an import. If an inherent `impl` is in another module than its
//! type, the dependencies of its callers are not visible. [`Graph::scattered_impls`] lists these.

mod graph;
mod holders;
mod names;
mod reader;
mod tree;

use std::{fmt::Display, path::Path};

pub use crate::{
    graph::{Circle, Disorder, Graph, Import, ScatteredImpl},
    tree::Error,
};
use crate::{names::Names, tree::Tree};

/// Reads the crate whose root file (`lib.rs` or `main.rs`) is `root`, and every module file that it declares.
///
/// # Errors
///
/// A file cannot be read, is not Rust, or is declared by a `mod` and does not exist.
pub fn modules(root: &Path) -> Result<Graph, Error> {
    let tree = Tree::read(root)?;
    let names = Names::of(&tree);
    Ok(reader::read(&tree, &names))
}

/// Returns the functions of `module` and of its children that can reach a value of one of `types`: they take one or are
/// its method, or the same of a struct of these modules that borrows one. Each is `module::function` or
/// `module::Type::function`. Types are told apart by their last word. A function inside of a macro call counts if the
/// call names one of the types.
///
/// # Errors
///
/// Those of [`modules`].
pub fn holders(root: &Path, module: &str, types: &[&str]) -> Result<Vec<String>, Error> {
    Ok(holders::read(&Tree::read(root)?, module, types))
}

/// Returns the modules that a page lists from top to bottom: the names between backticks in the first column of the first
/// table of a section, whose head is `module`. Returns nothing if there is no such table; then no module is in the order.
pub fn listed<'p>(page: &'p str, section: &str) -> Vec<&'p str> {
    let Some((_, section)) = page.split_once(&format!("\n## {section}\n")) else { return Vec::new() };
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut cells = rows.map(|row| row.split('|').nth(1).unwrap_or_default().trim());
    if cells.next() != Some("module") {
        return Vec::new();
    }
    // Every second part of a cell is between backticks. The line below the head has none.
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Returns the findings, one per line, for the message of an assertion.
pub fn lines<T: Display>(found: &[T]) -> String {
    found.iter().map(|one| format!("\n{one}")).collect()
}
