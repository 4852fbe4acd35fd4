//! How large a program may be. A source that keeps to them is compiled in bounded time and memory.

/// Bytes of a source.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Bits of a number with a type.
pub const MAX_WIDTH: u32 = 128;
/// Bits of a number without one.
pub const MAX_INTEGER_BITS: u32 = 127;
/// Levels of nesting, and parts of a chain of operators.
pub const MAX_DEPTH: u32 = 100;
/// Levels of checking: nesting, and calls within calls, together.
pub const MAX_CALL_DEPTH: u32 = 300;
/// Structs within structs.
pub const MAX_STRUCT_DEPTH: usize = 8;
/// Bytes of a name.
pub const MAX_NAME_BYTES: usize = 64;
/// Tables, and registers.
pub const MAX_TABLES: usize = 1 << 10;
/// Values that exist at once: variables, intermediate results, constants.
pub const MAX_SLOTS: usize = 1 << 16;
/// Steps of the compiled program, and of compiling it.
pub const MAX_STEPS: usize = 1 << 19;
/// Entries of a table.
pub const MAX_ENTRIES: usize = 1 << 16;
/// Entries of all tables.
pub const MAX_ALL_ENTRIES: usize = 1 << 18;
/// Cells of all registers.
pub const MAX_CELLS: usize = 1 << 22;
