//! The results of an experiment, as they are written in JSON. Names do not change, but new names may be added.
//!
//! The types do not depend on the source of the numbers: simulated and live runs report in the same way.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figure::Figure;

/// Version of the JSON report.
const VERSION: u32 = 1;

/// The environment of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Virtual time: `hw-model`'s data centre.
    Simulation,
    /// Real packets between hosts in network namespaces.
    Live,
    /// The hardware model's clock.
    Cycles,
}

/// A report of experiments.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the report. It is raised if a name is removed or changes its meaning.
    pub version: u32,
    /// Experiments in the order in which they were made.
    pub experiments: Vec<Experiment>,
}

impl Report {
    /// Makes a report of these experiments.
    pub fn new(experiments: Vec<Experiment>) -> Self {
        Self { version: VERSION, experiments }
    }

    /// Returns whether all promises were kept.
    pub fn holds(&self) -> bool {
        self.experiments.iter().flat_map(|experiment| &experiment.verdicts).all(|verdict| verdict.holds)
    }
}

/// One experiment.
#[derive(Debug, Serialize)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Description of the experiment, in a sentence or two.
    pub description: String,
    /// Environment of the experiment.
    pub world: World,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Name of the congestion control algorithm, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Settings by name, as text.
    pub settings: BTreeMap<&'static str, String>,
    /// Measured numbers, one case per run or group of runs.
    pub cases: Vec<Case>,
    /// Promises, and whether they were kept.
    pub verdicts: Vec<Verdict>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Details beyond the tables, in a form that depends on the experiment.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
}

impl Experiment {
    /// Makes an experiment in hardware cycles, without settings and numbers.
    pub fn in_cycles(name: &'static str, title: &'static str, description: &str, seed: u64) -> Self {
        Self::new(World::Cycles, name, title, description, seed)
    }

    /// Makes an experiment without settings and numbers.
    pub fn new(
        world: World,
        name: &'static str,
        title: &'static str,
        description: impl Into<String>,
        seed: u64,
    ) -> Self {
        Self {
            name,
            title,
            description: description.into(),
            world,
            seed,
            congestion_control: None,
            settings: BTreeMap::new(),
            cases: vec![],
            verdicts: vec![],
            figures: vec![],
            details: serde_json::Value::Null,
        }
    }
}

/// The measured numbers of one run.
#[derive(Debug, Serialize)]
pub struct Case {
    /// Name: the difference from the other runs.
    pub name: String,
    /// Numbers in the order in which they are shown.
    pub values: Vec<Value>,
}

/// A measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// Name of the column.
    pub name: &'static str,
    /// The number. `None` if there was nothing to measure.
    pub value: Option<f64>,
    /// Unit. Empty for a count or a ratio.
    pub unit: &'static str,
}

impl Case {
    /// Makes a run without numbers.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: vec![] }
    }

    /// Adds a number.
    pub fn with(mut self, name: &'static str, value: impl Into<Option<f64>>, unit: &'static str) -> Self {
        self.values.push(Value { name, value: value.into().filter(|value| value.is_finite()), unit });
        self
    }

    /// Returns the number with this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name)?.value
    }
}

/// The bound of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The number must be at least this.
    AtLeast(f64),
    /// The number must be at most this.
    AtMost(f64),
    /// There is no number: a statement must be true.
    Holds,
}

/// A promise, and whether it was kept.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Text of the promise.
    pub name: String,
    /// The measured number. `None` if there was nothing to measure. Then the promise is not kept.
    pub value: Option<f64>,
    /// Unit of the number.
    pub unit: &'static str,
    /// Bound of the number.
    pub bound: Bound,
    /// Whether the promise was kept.
    pub holds: bool,
}

impl Verdict {
    /// Makes a promise about a number.
    pub fn new(
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: &'static str,
        bound: Bound,
    ) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        let holds = value.is_some_and(|value| match bound {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
            Bound::Holds => value == 1.0,
        });
        Self { name: name.into(), value, unit, bound, holds }
    }

    /// Makes a promise about a statement.
    pub fn claim(name: impl Into<String>, holds: bool) -> Self {
        Self::new(name, f64::from(u8::from(holds)), "", Bound::Holds)
    }

    /// Makes a promise about a number of a case.
    pub fn of(case: &Case, name: &'static str, bound: Bound) -> Self {
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
        assert!(Verdict::claim("so", true).holds && !Verdict::claim("so", false).holds);
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
