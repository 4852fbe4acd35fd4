//! The name of a [`Placement`] in JSON.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use transport_common::congestion::settings::Placement;

/// Writes the name.
pub(crate) fn serialize<S: Serializer>(placement: &Placement, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(placement.name())
}

/// Reads a name.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Placement, D::Error> {
    named(&String::deserialize(deserializer)?).map_err(Error::custom)
}

/// Returns the placement with this name.
///
/// # Errors
/// A text that has the names.
pub(crate) fn named(name: &str) -> Result<Placement, String> {
    Placement::from_name(name)
        .ok_or_else(|| format!("\"{name}\" is not a placement: write constant, kernel or user"))
}

/// The same for a placement that may be absent.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Error, Placement, Serializer, named};

    /// Writes the name, or null.
    pub(crate) fn serialize<S: Serializer>(
        placement: &Option<Placement>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match placement {
            Some(placement) => serializer.serialize_some(placement.name()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a name, or null.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Placement>, D::Error> {
        let name = Option::<String>::deserialize(deserializer)?;
        name.map(|name| named(&name)).transpose().map_err(Error::custom)
    }
}
