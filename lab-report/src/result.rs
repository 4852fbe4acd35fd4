//! What an experiment showed, as it is written in JSON. Names do not change; new ones may be added.
//!
//! Nothing here knows where the numbers come from: simulated and live runs report the same way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;

use crate::figure::Figure;
use crate::html;
use crate::plot::{self, DrawError};

/// Of the JSON report.
const VERSION: u32 = 1;

/// Where an experiment took place.
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

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Raised when a name goes or changes its meaning.
    pub version: u32,
    /// In the order in which they were made.
    pub experiments: Vec<Experiment>,
}

impl Report {
    /// Of these.
    pub fn new(experiments: Vec<Experiment>) -> Self {
        Self { version: VERSION, experiments }
    }

    /// Writes the page `report.html` and every figure as `EXPERIMENT-FIGURE.svg` into a directory, which is made if it
    /// is not there. Answers with the page's path.
    ///
    /// # Errors
    /// If a file cannot be written, or a figure not be drawn.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| WriteError::File { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        for experiment in &self.experiments {
            for figure in &experiment.figures {
                let path = directory.join(format!("{}-{}.svg", experiment.name, figure.name));
                fs::write(&path, plot::svg(figure)?).map_err(failed(&path))?;
            }
        }
        let page = directory.join("report.html");
        fs::write(&page, html::page(self)?).map_err(failed(&page))?;
        Ok(page)
    }

    /// Whether all that is promised held.
    pub fn holds(&self) -> bool {
        self.experiments.iter().flat_map(|experiment| &experiment.verdicts).all(|verdict| verdict.holds)
    }
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A figure.
    #[error(transparent)]
    Draw(#[from] DrawError),
}

/// One experiment.
#[derive(Debug, Serialize)]
pub struct Experiment {
    /// By which it is asked for.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// What was done, in a sentence or two.
    pub description: String,
    /// Where.
    pub world: World,
    /// Of everything random in it.
    pub seed: u64,
    /// Name of the congestion control algorithm, where one is at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// What was set, by name, as people read it.
    pub settings: BTreeMap<&'static str, String>,
    /// What was measured, one run or group of runs each.
    pub cases: Vec<Case>,
    /// What is promised of it.
    pub verdicts: Vec<Verdict>,
    /// What it looks like.
    pub figures: Vec<Figure>,
    /// More than tables show, in a form of the experiment's own.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
}

impl Experiment {
    /// One in cycles of hardware, without settings and numbers yet.
    pub fn in_cycles(name: &'static str, title: &'static str, description: &str, seed: u64) -> Self {
        Self {
            name,
            title,
            description: description.to_owned(),
            world: World::Cycles,
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

/// What was measured in one run.
#[derive(Debug, Serialize)]
pub struct Case {
    /// What the run had that the others had not.
    pub name: String,
    /// In the order in which they are shown.
    pub values: Vec<Value>,
}

/// A number.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// Of the column.
    pub name: &'static str,
    /// None if there was nothing to measure.
    pub value: Option<f64>,
    /// Empty for a count or a ratio.
    pub unit: &'static str,
}

impl Case {
    /// A run without numbers yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: vec![] }
    }

    /// Adds a number.
    pub fn with(mut self, name: &'static str, value: impl Into<Option<f64>>, unit: &'static str) -> Self {
        self.values.push(Value { name, value: value.into().filter(|value| value.is_finite()), unit });
        self
    }

    /// The number of that name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name)?.value
    }
}

/// What a number has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// No number: a statement that is true.
    Holds,
}

/// A promise, and whether it was kept.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The promise in words.
    pub name: String,
    /// None if there was nothing to measure: then the promise is not kept.
    pub value: Option<f64>,
    /// Of the number.
    pub unit: &'static str,
    /// What the number has to be.
    pub bound: Bound,
    /// It is.
    pub holds: bool,
}

impl Verdict {
    /// A promise about a number.
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

    /// A statement, and whether it is true.
    pub fn claim(name: impl Into<String>, holds: bool) -> Self {
        Self::new(name, f64::from(u8::from(holds)), "", Bound::Holds)
    }

    /// A promise about a number of a case.
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
