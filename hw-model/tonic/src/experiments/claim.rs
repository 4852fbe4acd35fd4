//! The claims about an experiment.

use serde::{Deserialize, Serialize};

/// A claim about the results of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim in words.
    pub claim: String,
    /// True if it holds.
    pub holds: bool,
}

impl Claim {
    pub(super) fn new(claim: impl Into<String>, holds: bool) -> Self {
        Self { claim: claim.into(), holds }
    }
}

/// A function that is called with the progress of a long experiment: the steps done, and all steps.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);
