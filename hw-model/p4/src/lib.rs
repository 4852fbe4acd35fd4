//! P4-16, as much of it as a transport's logic takes: a fixed amount of work on a packet and a connection record.
//!
//! [`Program::compile`] reads a source, checks it by the standard's rules of types and widths, puts actions and controls
//! in place of their calls and compiles the result; a [`Machine`] runs it. [`Program::report`] says what it costs in
//! hardware. What the subset leaves out of the standard is refused with what to write instead; what it takes is meant to
//! be taken by any P4-16 front end as well.
//!
//! | in | out |
//! |---|---|
//! | `bit<W>`, `int<W>`, `bool`, headers, structs, constants, typedefs | enumerations, tuples, stacks, unions, `varbit` |
//! | all operators on numbers but two, slices, concatenation, saturation, casts | division and remainder |
//! | controls within controls, actions, `if` | loops, recursion, functions, `return`, `exit`, `switch` |
//! | tables with exact, ternary, lpm and range matches, const entries or not | action profiles, selectors |
//! | `register<T>` as in v1model, declared in the source | other externs, parsers, the preprocessor |
//!
//! A program's size is bounded by [`limits`]; no source makes the compiler or the machine panic.

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
