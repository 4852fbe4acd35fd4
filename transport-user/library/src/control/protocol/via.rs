//! How the content of a file crosses.

use serde::{Deserialize, Serialize};
use strum::Display;

/// The operation that carries the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Via {
    /// The source WRITEs into the sink's memory.
    Write,
    /// The sink READs the source's memory.
    Read,
    /// The source SENDs into receives that the sink has posted.
    Send,
}
