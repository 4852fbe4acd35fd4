//! Writes the numbers and the promises of a report as a page in Markdown.

use crate::result::Report;
use crate::rows::{Rows, promises, runs};

/// Returns a page with the tables of all experiments: the measured numbers of each run, and the promises with their bounds.
pub(crate) fn page(report: &Report) -> String {
    let mut page = "# Results of the experiments\n".to_owned();
    for experiment in &report.experiments {
        page += &format!("\n## {}: {}\n\n", experiment.name, experiment.title);
        page += &table(runs(experiment, "run", |name, unit| format!("{name}, {unit}")));
        page += "\n";
        page += &table(promises(experiment, "**not kept**"));
    }
    page
}

fn table(Rows { header, rows }: Rows) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); header.len()];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(&header) + &line(&rule) + &rows
}
