//! The limits on the size of a program. Within them, a source compiles in bounded time and memory.
//!
//! A program that exceeds a limit fails with an [`ErrorKind`](crate::ErrorKind) that names it.

/// Maximum bytes of a source.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Maximum bits of a number with a type.
pub const MAX_WIDTH: u32 = 128;
/// Maximum bits of a number without a type.
pub const MAX_INTEGER_BITS: u32 = 127;
/// Maximum levels of nesting, and maximum parts of a chain of operators.
pub const MAX_DEPTH: u32 = 100;
/// Maximum levels of checking: nesting and calls within calls together.
pub const MAX_CALL_DEPTH: u32 = 300;
/// Maximum levels of structs within structs.
pub const MAX_STRUCT_DEPTH: usize = 8;
/// Maximum bytes of a name.
pub const MAX_NAME_BYTES: usize = 64;
/// Maximum number of tables, and of registers.
pub const MAX_TABLES: usize = 1 << 10;
/// Maximum number of values that exist at the same time: variables, intermediate results and constants.
pub const MAX_SLOTS: usize = 1 << 16;
/// Maximum steps of the compiled program, and of compiling it.
pub const MAX_STEPS: usize = 1 << 19;
/// Maximum entries of a table.
pub const MAX_ENTRIES: usize = 1 << 16;
/// Maximum entries of all tables together.
pub const MAX_ALL_ENTRIES: usize = 1 << 18;
/// Maximum cells of all registers together.
pub const MAX_CELLS: usize = 1 << 22;
