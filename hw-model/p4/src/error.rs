//! What can be wrong with a program: where, what, and what to do about it.

use super::limits::{MAX_DEPTH, MAX_INTEGER_BITS, MAX_NAME_BYTES, MAX_SOURCE_BYTES, MAX_WIDTH};

/// A place in a source: bytes from its beginning.
pub(super) type At = u32;

/// A program that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct Error {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// What is wrong there.
    pub kind: ErrorKind,
}

impl Error {
    pub(super) fn new(source: &str, fault: Fault) -> Self {
        let at = source.floor_char_boundary(fault.at as usize);
        let before = source.get(..at).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
            kind: *fault.kind,
        }
    }
}

/// An error before its line and column are counted.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: At,
    pub(super) kind: Box<ErrorKind>,
}

pub(super) type Result<T> = core::result::Result<T, Fault>;

/// Fails at a place.
pub(super) fn fail<T>(at: At, kind: ErrorKind) -> Result<T> {
    Err(Fault { at, kind: Box::new(kind) })
}

/// What is wrong. The text of each tells what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The source itself is too long.
    #[error("the source has more than {MAX_SOURCE_BYTES} bytes: split the program")]
    SourceTooLarge,
    /// A character that starts nothing.
    #[error(
        "`{0}` starts no word, number or operator: remove it, or close the comment or text it belongs to"
    )]
    Character(char),
    /// `#include` and its kind.
    #[error(
        "there is no preprocessor here: give the source after it has run, with what it includes declared in it"
    )]
    Directive,
    /// A malformed or too large number.
    #[error(
        "`{0}` is not a number: write 10, 0x1F, 0b101, or with a type 8w10 or 8s10; at most \
         {MAX_INTEGER_BITS} bits, {MAX_WIDTH} with a type"
    )]
    Number(String),
    /// A very long name.
    #[error("the name has more than {MAX_NAME_BYTES} bytes: shorten it")]
    LongName,
    /// Another word or operator should stand here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// P4, but not of this subset.
    #[error("{what} is no part of this subset: {instead}")]
    Excluded {
        /// The construct.
        what: &'static str,
        /// What to write in its place.
        instead: &'static str,
    },
    /// Nested too deeply.
    #[error("nested or chained more than {MAX_DEPTH} deep: give parts of it a name in variables")]
    TooDeep,
    /// The program would become too large.
    #[error("more than {limit} {what}: make the program smaller")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
    /// A name nobody declared above.
    #[error("`{0}` is not declared: declare it above this line")]
    Unknown(String),
    /// A name of a type that has no such member.
    #[error("{0} has no field `{1}`: see its declaration")]
    NoField(String, String),
    /// A name twice in one scope.
    #[error("`{0}` is declared already: rename one of the two")]
    Redeclared(String),
    /// A name of something else.
    #[error("`{name}` is not {what}: use the name of one")]
    NotA {
        /// The name.
        name: String,
        /// What would be right here.
        what: &'static str,
    },
    /// A type that does not fit.
    #[error(
        "expected {expected}, found {found}: cast it, as in `({expected})(...)`, or change the declaration"
    )]
    Mismatch {
        /// The right type.
        expected: String,
        /// The type found.
        found: String,
    },
    /// An operator that does not work on a type.
    #[error("`{operator}` does not work on {found}: it needs {needs}")]
    Operand {
        /// The operator.
        operator: &'static str,
        /// The type found.
        found: String,
        /// What it works on.
        needs: &'static str,
    },
    /// A cast that P4 does not have.
    #[error("{from} cannot be cast to {to}: cast in two steps, first the width and then the sign")]
    Cast {
        /// Type of the value.
        from: String,
        /// Type asked for.
        to: String,
    },
    /// A width of 0 or one too large.
    #[error("{0} is not a width: use 1 to {MAX_WIDTH} bits")]
    Width(i128),
    /// A number that a type cannot hold.
    #[error("{value} does not fit {ty}: use a wider type or a smaller number")]
    DoesNotFit {
        /// The number.
        value: String,
        /// The type.
        ty: String,
    },
    /// A calculation of numbers without a width went too far.
    #[error("the result needs more than {MAX_INTEGER_BITS} bits: give the numbers a type, as in 64w1")]
    IntegerOverflow,
    /// A value that must be known when the program is compiled.
    #[error("this must be known when the program is compiled: use numbers and constants")]
    NotConstant,
    /// Bounds of a slice.
    #[error("[{high}:{low}] is no slice of {ty}: the upper bit comes first, and bits count from 0")]
    Slice {
        /// Upper bit.
        high: i128,
        /// Lower bit.
        low: i128,
        /// What is sliced.
        ty: String,
    },
    /// The number of arguments.
    #[error("`{name}` takes {expected} arguments, found {found}")]
    Arguments {
        /// What was called.
        name: String,
        /// How many it takes.
        expected: usize,
        /// How many it was given.
        found: usize,
    },
    /// Something that cannot be assigned.
    #[error(
        "{0} cannot be written: only variables, `out` and `inout` parameters, their fields and slices can"
    )]
    NotWritable(String),
    /// A variable without a value.
    #[error("`{0}` may have no value here: assign it on every way to this line")]
    Unset(String),
    /// An `out` parameter without a value.
    #[error("the `out` parameter `{0}` may have no value at the end: assign it on every way through")]
    OutUnset(String),
    /// A table or control applied more than once.
    #[error("`{0}` is applied twice: a packet passes it once, declare a second instance")]
    AppliedTwice(String),
    /// A property that a table lacks.
    #[error("the table has no `{0}`: add it")]
    Missing(&'static str),
    /// A property given twice, or of no meaning.
    #[error(
        "`{0}` is no property of a table, or stands there twice: use key, actions, size, default_action, entries once"
    )]
    Property(String),
    /// An action that the table does not list.
    #[error("`{0}` is not among the table's actions: list it under `actions`")]
    NotListed(String),
    /// An action of a table with parameters that have a direction.
    #[error(
        "`{0}` has parameters with a direction, which a table's entries cannot give: leave `in`, `out`, `inout` away"
    )]
    Directed(String),
    /// A match that its kind does not have.
    #[error("{0}")]
    Match(#[from] MatchFault),
    /// An extern of another shape.
    #[error(
        "only one extern is known: register<T>, with register(bit<32> size), \
         read(out T result, in bit<32> index) and write(in bit<32> index, in T value)"
    )]
    Extern,
    /// A control that the package does not take.
    #[error("the parameters of `{0}` are not those of the package's control type: make them equal")]
    ControlType(String),
    /// Nothing to run.
    #[error("nothing is to be run: end with a package's instance, as in `Engine(MyControl()) main;`")]
    NoMain,
}

/// What is wrong with an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchFault {
    /// A mask or range in a field with exact match.
    #[error("an exact match is one value: use `ternary` or `range` for more")]
    Exact,
    /// A mask that is no prefix, or a range, in a field with longest prefix match.
    #[error("a prefix is a value, or a value &&& a mask of leading ones")]
    Prefix,
    /// A range in a field with ternary match.
    #[error("a ternary match is a value, a value &&& a mask, or `_`")]
    Ternary,
    /// A mask in a field with range match, or a range that ends before it begins.
    #[error("a range is a value, low..high with low first, or `_`")]
    Range,
    /// The same match a second time.
    #[error("an entry above matches the same: remove one")]
    Duplicate,
    /// More entries than the table has room for.
    #[error("the table is full: raise its `size`")]
    Full,
    /// More than one longest prefix.
    #[error("a table matches one longest prefix: use `ternary` or `exact` for the other fields")]
    TwoPrefixes,
    /// A number with more bits than the field.
    #[error("the field of the key has fewer bits than this: use a smaller number")]
    Width,
    /// Another number of matches than the table has keys.
    #[error("give one match for each field of the key")]
    Count,
}
