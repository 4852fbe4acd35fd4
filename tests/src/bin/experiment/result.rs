//! What an experiment showed, as it is written in JSON. Names do not change; new ones may be added.
//!
//! Nothing here knows where the numbers come from: simulated and live runs report the same way.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figure::Figure;

/// Of the JSON report.
const VERSION: u32 = 1;

/// Where an experiment took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum World {
    /// Virtual time: `hw-model`'s data centre.
    Simulation,
    /// Real packets between hosts in network namespaces.
    Live,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Raised when a name goes or changes its meaning.
    pub(crate) version: u32,
    pub(crate) experiments: Vec<Experiment>,
}

impl Report {
    pub(crate) fn new(experiments: Vec<Experiment>) -> Self {
        Self { version: VERSION, experiments }
    }

    /// Whether all that is promised held.
    pub(crate) fn holds(&self) -> bool {
        self.experiments.iter().flat_map(|experiment| &experiment.verdicts).all(|verdict| verdict.holds)
    }
}

/// One experiment.
#[derive(Debug, Serialize)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What was done, in a sentence or two.
    pub(crate) description: String,
    pub(crate) world: World,
    pub(crate) seed: u64,
    /// Name of the congestion control algorithm.
    pub(crate) congestion_control: String,
    /// What was set, by name, as people read it.
    pub(crate) settings: BTreeMap<&'static str, String>,
    /// What was measured, one run or group of runs each.
    pub(crate) cases: Vec<Case>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) figures: Vec<Figure>,
}

/// What was measured in one run.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// In the order in which they are shown.
    pub(crate) values: Vec<Value>,
}

/// A number.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Value {
    pub(crate) name: &'static str,
    /// None if there was nothing to measure.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: vec![] }
    }

    /// Adds a number.
    pub(crate) fn with(
        mut self,
        name: &'static str,
        value: impl Into<Option<f64>>,
        unit: &'static str,
    ) -> Self {
        self.values.push(Value { name, value: value.into().filter(|value| value.is_finite()), unit });
        self
    }

    /// The number of that name.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name)?.value
    }
}

/// What a number has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A promise, and whether it was kept.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) name: String,
    /// None if there was nothing to measure: then the promise is not kept.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
    pub(crate) holds: bool,
}

impl Verdict {
    pub(crate) fn new(
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: &'static str,
        bound: Bound,
    ) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        let holds = value.is_some_and(|value| match bound {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        });
        Self { name: name.into(), value, unit, bound, holds }
    }

    /// A promise about a number of a case.
    pub(crate) fn of(case: &Case, name: &'static str, bound: Bound) -> Self {
        let value = case.values.iter().find(|value| value.name == name);
        let unit = value.map_or("", |value| value.unit);
        Self::new(format!("{}: {name}", case.name), value.and_then(|value| value.value), unit, bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_a_number_is_not_kept() {
        let holds = |value, bound| Verdict::new("v", value, "", bound).holds;
        assert!(holds(Some(2.0), Bound::AtLeast(2.0)) && holds(Some(2.0), Bound::AtMost(2.0)));
        assert!(!holds(Some(1.9), Bound::AtLeast(2.0)) && !holds(Some(2.1), Bound::AtMost(2.0)));
        assert!(!holds(None, Bound::AtLeast(0.0)) && !holds(Some(f64::NAN), Bound::AtMost(1.0)));
        let case = Case::new("c").with("x", 3.0, "us");
        let verdict = Verdict::of(&case, "x", Bound::AtMost(4.0));
        assert!(verdict.holds && verdict.name == "c: x" && verdict.unit == "us");
        assert!(!Verdict::of(&case, "y", Bound::AtMost(4.0)).holds);
    }

    #[test]
    fn json_has_its_names() {
        let verdict = Verdict::new("v", 1.0, "us", Bound::AtLeast(0.5));
        let json = serde_json::to_value(&verdict).expect("plain data");
        assert_eq!(json["bound"]["at_least"], 0.5);
        assert_eq!(json["holds"], true);
        assert_eq!(serde_json::to_value(World::Simulation).expect("plain data"), "simulation");
    }
}
