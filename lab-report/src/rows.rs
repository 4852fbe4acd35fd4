//! The tables of an experiment as text, for all forms of the report.

use std::iter::once;

use crate::plot::number;
use crate::result::{Bound, Experiment, Value, Verdict};

/// A table as text.
pub(crate) struct Rows {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns the numbers of all runs. The column of their names is called `first`; `named` adds a unit to a name.
pub(crate) fn runs(experiment: &Experiment, first: &str, named: fn(&str, &str) -> String) -> Rows {
    let columns = columns(experiment);
    let names = columns.iter().map(|(name, unit)| match *unit {
        "" => (*name).to_owned(),
        unit => named(name, unit),
    });
    let rows = experiment.cases.iter().map(|case| {
        let values = columns.iter().map(|(name, _)| case.value(name).map_or(String::new(), number));
        once(case.name.clone()).chain(values).collect()
    });
    Rows { header: once(first.to_owned()).chain(names).collect(), rows: rows.collect() }
}

/// Returns the promises with their bounds. `not_kept` marks one that was not kept.
pub(crate) fn promises(experiment: &Experiment, not_kept: &str) -> Rows {
    let rows = experiment.verdicts.iter().map(|verdict| {
        let kept = if verdict.holds { "kept" } else { not_kept };
        vec![verdict.name.clone(), measured(verdict), bound(verdict.bound, verdict.unit), kept.to_owned()]
    });
    Rows { header: ["promise", "measured", "bound", ""].map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// Returns a number with its unit.
fn quantity(value: Option<f64>, unit: &str) -> String {
    let space = if unit.is_empty() { "" } else { " " };
    value.map_or("none".to_owned(), |value| format!("{}{space}{unit}", number(value)))
}

/// Returns the measured value of a promise.
pub(crate) fn measured(verdict: &Verdict) -> String {
    match verdict.bound {
        Bound::Holds if verdict.holds => "yes".to_owned(),
        Bound::Holds => "no".to_owned(),
        _ => quantity(verdict.value, verdict.unit),
    }
}

/// Returns the text of a bound.
pub(crate) fn bound(bound: Bound, unit: &str) -> String {
    match bound {
        Bound::AtLeast(value) => format!("at least {}", quantity(Some(value), unit)),
        Bound::AtMost(value) => format!("at most {}", quantity(Some(value), unit)),
        Bound::Holds => String::new(),
    }
}

/// Returns the names and units of all values, in the order of their first appearance.
fn columns(experiment: &Experiment) -> Vec<(&'static str, &'static str)> {
    let mut columns = vec![];
    for Value { name, unit, .. } in experiment.cases.iter().flat_map(|case| &case.values) {
        if !columns.contains(&(*name, *unit)) {
            columns.push((*name, *unit));
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use crate::{Bound, Case, Experiment, Report, Verdict, World, markdown, show};

    #[test]
    fn each_run_and_each_promise_is_a_row() {
        let mut experiment = Experiment::new(World::Simulation, "loss", "Loss", "", 1);
        experiment.cases = vec![Case::new("1 %").with("goodput", 99.5, "%"), Case::new("2 %")];
        experiment.verdicts = vec![
            Verdict::new("goodput at 1 % | 2 %", 99.5, "%", Bound::AtLeast(90.0)),
            Verdict::claim("all arrive", false),
        ];
        let report = Report::new(vec![experiment]);
        let expected = "# Results of the experiments\n\n## loss: Loss\n\n| run | goodput, % |\n| --- | --- |\n| 1 % | 99.5 |\n\
                        | 2 % |  |\n\n| promise | measured | bound |  |\n| --- | --- | --- | --- |\n\
                        | goodput at 1 % \\| 2 % | 99.5 % | at least 90 % | kept |\n| all arrive | no |  | **not kept** |\n";
        assert_eq!(markdown::page(&report), expected);
        let expected = "loss: Loss (seed 1) case goodput (%) 1 % 99.5 2 % promise measured bound \
                        goodput at 1 % | 2 % 99.5 % at least 90 % kept all arrive no NOT KEPT";
        assert_eq!(show(&report).split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }
}
