//! The errors of a program: the place, the problem, and what to do.

use super::limits::{MAX_DEPTH, MAX_INTEGER_BITS, MAX_NAME_BYTES, MAX_SOURCE_BYTES, MAX_WIDTH};

/// A position in a source: bytes from its start.
pub(super) type At = u32;

/// The first error in a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct Error {
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The problem.
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

/// Returns an error at a position.
pub(super) fn fail<T>(at: At, kind: ErrorKind) -> Result<T> {
    Err(Fault { at, kind: Box::new(kind) })
}

/// Returns the arguments of `name`, which takes `N`.
pub(super) fn exactly<'a, T, const N: usize>(arguments: &'a [T], name: &str, at: At) -> Result<&'a [T; N]> {
    let found = arguments.len();
    <&[T; N]>::try_from(arguments)
        .or_else(|_| fail(at, ErrorKind::Arguments { name: name.to_owned(), expected: N, found }))
}

/// The problem. Each message says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The source is too long.
    #[error("the source has more than {MAX_SOURCE_BYTES} bytes: split the program")]
    SourceTooLarge,
    /// A character that starts no token.
    #[error(
        "`{0}` starts no word, number or operator: remove it, or close the comment or text it belongs to"
    )]
    Character(char),
    /// A preprocessor directive such as `#include`.
    #[error(
        "there is no preprocessor here: run it first, so that the source contains everything that it includes"
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
    /// Another word or operator was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// P4-16 that is not in this subset.
    #[error("{what} is not part of this subset: {instead}")]
    Excluded {
        /// The construct.
        what: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// The nesting is too deep.
    #[error("nested or chained more than {MAX_DEPTH} deep: put parts of it into variables")]
    TooDeep,
    /// The program is too large.
    #[error("more than {limit} {what}: make the program smaller")]
    TooLarge {
        /// The things that are too many.
        what: &'static str,
        /// Their maximum number.
        limit: usize,
    },
    /// A name that is not declared above.
    #[error("`{0}` is not declared: declare it above this line")]
    Unknown(String),
    /// A field that the type does not have.
    #[error("{0} has no field `{1}`: see its declaration")]
    NoField(String, String),
    /// A name that is declared twice in one scope.
    #[error("`{0}` is declared already: rename one of the two")]
    Redeclared(String),
    /// A name of the wrong kind.
    #[error("`{name}` is not {what}: use the name of one")]
    NotA {
        /// The name.
        name: String,
        /// The kind that is needed here.
        what: &'static str,
    },
    /// A type that does not fit.
    #[error(
        "expected {expected}, found {found}: cast it, as in `({expected})(...)`, or change the declaration"
    )]
    Mismatch {
        /// The expected type.
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
        /// The types that it works on.
        needs: &'static str,
    },
    /// A cast that P4 does not have.
    #[error("{from} cannot be cast to {to}: cast in two steps, first the width and then the sign")]
    Cast {
        /// The type of the value.
        from: String,
        /// The target type.
        to: String,
    },
    /// A width that is 0 or too large.
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
    /// A calculation of numbers without a width with a result that is too large.
    #[error("the result needs more than {MAX_INTEGER_BITS} bits: give the numbers a type, as in 64w1")]
    IntegerOverflow,
    /// A value that is not known when the program is compiled.
    #[error("this must be known when the program is compiled: use numbers and constants")]
    NotConstant,
    /// Invalid bounds of a slice.
    #[error("[{high}:{low}] is not a slice of {ty}: write the upper bit first, and count bits from 0")]
    Slice {
        /// Upper bit.
        high: i128,
        /// Lower bit.
        low: i128,
        /// The type that is sliced.
        ty: String,
    },
    /// A wrong number of arguments.
    #[error("`{name}` takes {expected} arguments, found {found}")]
    Arguments {
        /// The name that was called.
        name: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        found: usize,
    },
    /// An expression that cannot be assigned.
    #[error(
        "{0} cannot be written: only variables, `out` and `inout` parameters, their fields and slices can"
    )]
    NotWritable(String),
    /// A variable that may have no value.
    #[error("`{0}` may have no value here: assign it on every path to this line")]
    Unset(String),
    /// An `out` parameter that may have no value at the end.
    #[error("the `out` parameter `{0}` may have no value at the end: assign it on every path")]
    OutUnset(String),
    /// A table or control that is applied more than once.
    #[error("`{0}` is applied twice, but a packet passes it only once: declare a second instance")]
    AppliedTwice(String),
    /// A missing property of a table.
    #[error("the table has no `{0}`: add it")]
    Missing(&'static str),
    /// A property that is repeated or unknown.
    #[error(
        "`{0}` is not a property of a table, or is repeated: use key, actions, size, default_action, entries once"
    )]
    Property(String),
    /// An action that the table does not list.
    #[error("`{0}` is not among the table's actions: list it under `actions`")]
    NotListed(String),
    /// An action of a table with parameters that have a direction.
    #[error(
        "`{0}` has parameters with a direction, which a table's entries cannot give: remove `in`, `out`, `inout`"
    )]
    Directed(String),
    /// A match that does not fit the kind of its field.
    #[error("{0}")]
    Match(#[from] MatchFault),
    /// An unknown extern.
    #[error(
        "only one extern is known: register<T>, with register(bit<32> size), \
         read(out T result, in bit<32> index) and write(in bit<32> index, in T value)"
    )]
    Extern,
    /// A control that the package does not accept.
    #[error("the parameters of `{0}` are not those of the package's control type: make them equal")]
    ControlType(String),
    /// A program without `main`.
    #[error("the program has no `main`: end it with a package's instance, as in `Engine(MyControl()) main;`")]
    NoMain,
}

/// The problem with an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchFault {
    /// A mask or range in a field with exact match.
    #[error("an exact match is one value: use `ternary` or `range` for more")]
    Exact,
    /// A mask that is not a prefix, or a range, in a field with longest prefix match.
    #[error("an lpm match is a value, or a value &&& a mask of leading ones")]
    Prefix,
    /// A range in a field with ternary match.
    #[error("a ternary match is a value, a value &&& a mask, or `_`")]
    Ternary,
    /// A mask in a field with range match, or a range that ends before it begins.
    #[error("a range is a value, low..high with low first, or `_`")]
    Range,
    /// A match that an earlier entry has too.
    #[error("an entry above matches the same: remove one")]
    Duplicate,
    /// More entries than the size of the table.
    #[error("the table is full: raise its `size`")]
    Full,
    /// More than one field with longest prefix match.
    #[error("a table can have only one lpm field: use `ternary` or `exact` for the other fields")]
    TwoPrefixes,
    /// A number with more bits than the field.
    #[error("the field of the key has fewer bits than this: use a smaller number")]
    Width,
    /// A wrong number of matches.
    #[error("give one match for each field of the key")]
    Count,
}
