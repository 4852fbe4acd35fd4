//! Which module of a crate imports which, read from its sources. It is for tests that hold a crate to its layering:
//!
//! ```
//! use std::path::Path;
//!
//! let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
//! let graph = source_check::modules(&root).unwrap();
//! let circles = graph.circles();
//! assert!(circles.is_empty(), "{}", source_check::lines(&circles));
//! let wrong = graph.out_of_order(&["tree", "names", "graph", "reader", "crate"]);
//! assert!(wrong.is_empty(), "{}", source_check::lines(&wrong));
//! ```
//!
//! What counts as an import of module `b` by module `a`:
//! - A `use`, or any other path in the code of `a` (a type, a call, a pattern, the inside of a macro call), that names
//!   something that `b` defines. Paths through `crate`, `self`, `super`, imported names and globs are followed.
//! - A re-export is followed to the module that defines the thing: whoever names `wire::Header` imports `wire::header`
//!   if that is where `Header` is defined, and not the module that passes it on. A module that re-exports what its own
//!   children define does not thereby import them.
//! - Not code under `#[cfg(test)]` and `#[test]`, not attributes, not links in comments.
//!
//! A method call names no module, so it is no import. An inherent `impl` in another module than the type's own hides
//! what its callers depend on; [`Graph::scattered_impls`] lists these.

mod graph;
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
/// A file that cannot be read, that is not Rust, or that a `mod` declares and that is not there.
pub fn modules(root: &Path) -> Result<Graph, Error> {
    let tree = Tree::read(root)?;
    let names = Names::of(&tree);
    Ok(reader::read(&tree, &names))
}

/// What was found, one a line, for the message of an assertion.
pub fn lines<T: Display>(found: &[T]) -> String {
    found.iter().map(|one| format!("\n{one}")).collect()
}
