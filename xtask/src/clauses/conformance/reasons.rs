//! The file with the reasons why requirements have no test.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Deserialize;

/// The sections that are no part of the goal.
pub(super) const LEFT_OUT: [&str; 3] = ["6.5", "8.2", "10"];

/// The section whose requirements about cryptography are no part of the goal.
pub(super) const CRYPTOGRAPHY: &str = "9";

/// The reasons, by section or by id.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasons {
    /// Of each section of [`LEFT_OUT`].
    #[serde(default)]
    pub(super) sections: BTreeMap<String, String>,
    /// Of requirements of [`CRYPTOGRAPHY`] that belong to encryption. They do not count.
    #[serde(default)]
    pub(super) cryptography: BTreeMap<String, String>,
    /// Of all other requirements without a test. They count as not shown.
    #[serde(default)]
    pub(super) clauses: BTreeMap<String, String>,
}

impl Reasons {
    /// Reads the file.
    ///
    /// # Errors
    /// If it has another form, names an id twice, or leaves a reason empty.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let reasons: Self = toml::from_str(text)?;
        let all = [&reasons.sections, &reasons.cryptography, &reasons.clauses];
        if let Some((id, _)) = all.into_iter().flatten().find(|(_, reason)| reason.trim().is_empty()) {
            bail!("the reason of {id} is empty");
        }
        if let Some(id) = reasons.cryptography.keys().find(|id| reasons.clauses.contains_key(*id)) {
            bail!("{id} has two reasons: remove one");
        }
        Ok(reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_form_is_refused() {
        for text in [
            "[clauses]\n\"F-11-1\" = \"\"\n",
            "[clauses]\n\"F-11-1\" = \"a\"\n\"F-11-1\" = \"b\"\n",
            "[clauses]\n\"F-9-1\" = \"a\"\n[cryptography]\n\"F-9-1\" = \"b\"\n",
            "[other]\n\"F-11-1\" = \"a\"\n",
        ] {
            assert!(Reasons::parse(text).is_err(), "{text}");
        }
        let reasons = Reasons::parse("[clauses]\n\"F-11-1\" = \"a\"\n").unwrap();
        assert_eq!(reasons.clauses["F-11-1"], "a");
    }
}
