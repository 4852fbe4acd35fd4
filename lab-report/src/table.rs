//! Writes the report as text for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::html::{bound, columns, measured};
use crate::plot::number;
use crate::result::{Experiment, Report};

/// Returns the whole report as text.
pub fn show(report: &Report) -> String {
    report.experiments.iter().map(experiment).collect()
}

fn experiment(experiment: &Experiment) -> String {
    let control = experiment.congestion_control.as_ref();
    let control = control.map_or(String::new(), |algorithm| format!("congestion control {algorithm}, "));
    let title = format!("\n{}: {} ({control}seed {})\n", experiment.name, experiment.title, experiment.seed);
    title + &indent(&cases(experiment)) + &indent(&verdicts(experiment))
}

fn indent(body: &str) -> String {
    body.lines().map(|line| format!("  {line}\n")).collect()
}

/// Returns a table as text. The first column is aligned to the left, all others to the right.
fn table(header: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn cases(experiment: &Experiment) -> String {
    if experiment.cases.is_empty() {
        return String::new();
    }
    let columns = columns(experiment);
    let named = |(name, unit): &(&str, &str)| match *unit {
        "" => (*name).to_owned(),
        unit => format!("{name} ({unit})"),
    };
    let header = ["case".to_owned()].into_iter().chain(columns.iter().map(named)).collect();
    let rows = experiment.cases.iter().map(|case| {
        let values = columns.iter().map(|(name, _)| case.value(name).map_or(String::new(), number));
        [case.name.clone()].into_iter().chain(values).collect()
    });
    table(header, rows)
}

fn verdicts(experiment: &Experiment) -> String {
    let header = ["promise", "measured", "bound", ""].map(str::to_owned).to_vec();
    let rows = experiment.verdicts.iter().map(|verdict| {
        let kept = if verdict.holds { "kept" } else { "NOT KEPT" };
        vec![verdict.name.clone(), measured(verdict), bound(verdict.bound, verdict.unit), kept.to_owned()]
    });
    table(header, rows)
}
