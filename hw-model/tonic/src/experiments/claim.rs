//! What is claimed of an experiment.

use serde::{Deserialize, Serialize};

/// Something that is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// In words.
    pub claim: String,
    /// It holds.
    pub holds: bool,
}

impl Claim {
    pub(super) fn new(claim: impl Into<String>, holds: bool) -> Self {
        Self { claim: claim.into(), holds }
    }
}

/// How far a long experiment is: steps done, and all of them.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);
