//! Writes to stdout.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Prints JSON for programs that already get the exit code of a failure. Returns why it could not be printed, if the
/// reader misses it.
pub(crate) fn print_json_of_failure(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).expect("failures are plain data");
    match written(io::stdout().lock(), format!("{text}\n").as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Writes all bytes, and none of them only into a buffer.
pub(crate) fn written(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
