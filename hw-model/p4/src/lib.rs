//! A compiler and interpreter for a subset of P4-16. The subset has what a transport's logic needs: a fixed amount
//! of work on a packet and a connection record.
//!
//! # Source
//!
//! The source is the P4-16 language specification ("the standard" in this crate). Any P4-16 front end should
//! accept the programs of the subset. If a program uses P4-16 outside of the subset, the error says what to write
//! instead.
//!
//! # Where to start
//!
//! - [`Program::compile`] reads a source, checks its types and widths, inlines all actions and controls, and
//!   compiles the result. Each [`Error`] has a line, a column and an [`ErrorKind`].
//! - [`Machine`] runs a program. [`Program::field`] returns the [`FieldId`] of an input or output by its name.
//! - [`Program::report`] returns the hardware cost, a [`Report`]: operations, depth, stages and memory.
//! - [`limits`] has the limits on the size of a program. No source makes the compiler or the machine panic.
//!
//! # Units
//!
//! One [`Machine::run`] is one pass of a packet through the entry control. It has no cycles. The [`Report`]
//! estimates hardware in operations, pipeline stages and bits.
//!
//! # Experiments
//!
//! The crate `swift_p4` has a program for this subset, and its experiments: `tiercel model experiment p4-swift
//! p4-cost`. `docs/model/swift-p4.md` describes the results.
//!
//! # Example
//!
//! ```
//! use p4_subset::{Machine, Program};
//!
//! let source = "
//!     control Block(in bit<8> a, in bit<8> b, out bit<8> y);
//!     package Engine(Block block);
//!     control Sum(in bit<8> a, in bit<8> b, out bit<8> y) {
//!         apply { y = a |+| b; }
//!     }
//!     Engine(Sum()) main;
//! ";
//! let program = Program::compile(source)?;
//! assert_eq!(program.report().total, 1, "one saturating addition");
//! let [a, b, y] = ["a", "b", "y"].map(|name| program.field(name).expect("a parameter"));
//! let mut machine = Machine::new(program);
//! machine.set(a, 200);
//! machine.set(b, 100);
//! machine.run();
//! assert_eq!(machine.get(y), 255);
//! # Ok::<(), p4_subset::Error>(())
//! ```
//!
//! # The subset
//!
//! | in | out |
//! |---|---|
//! | `bit<W>`, `int<W>`, `bool`, headers, structs, constants, typedefs | enumerations, tuples, stacks, unions, `varbit` |
//! | all operators on numbers but two, slices, concatenation, saturation, casts | division and remainder |
//! | controls within controls, actions, `if` | loops, recursion, functions, `return`, `exit`, `switch` |
//! | tables with exact, ternary, lpm and range matches, const entries or not | action profiles, selectors |
//! | `register<T>` as in v1model, declared in the source | other externs, parsers, the preprocessor |

mod bytecode;
mod check;
mod cost;
mod error;
mod ir;
mod lexer;
pub mod limits;
mod lookup;
mod machine;
mod parser;
mod syntax;

#[cfg(test)]
mod tests;

pub use cost::{Link, MULTIPLIER_BITS_A_STAGE, Multiplier, Operation, RegisterCost, Report, TableCost};
pub use error::{Error, ErrorKind, MatchFault};
pub use ir::{Match, MatchKind};
pub use machine::{ChangeError, FieldId, Machine, Port, Program};
