//! Writes the report as text for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::result::{Experiment, Report};
use crate::rows::{Rows, promises, runs};

/// Returns the whole report as text.
pub fn show(report: &Report) -> String {
    report.experiments.iter().map(experiment).collect()
}

fn experiment(experiment: &Experiment) -> String {
    let control = experiment.congestion_control.as_ref();
    let control = control.map_or(String::new(), |algorithm| format!("congestion control {algorithm}, "));
    let title = format!("\n{}: {} ({control}seed {})\n", experiment.name, experiment.title, experiment.seed);
    title + &indent(&cases(experiment)) + &indent(&table(promises(experiment, "NOT KEPT")))
}

fn indent(body: &str) -> String {
    body.lines().map(|line| format!("  {line}\n")).collect()
}

/// Returns a table as text. The first column is aligned to the left, all others to the right.
fn table(Rows { header, rows }: Rows) -> String {
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
    table(runs(experiment, "case", |name, unit| format!("{name} ({unit})")))
}
