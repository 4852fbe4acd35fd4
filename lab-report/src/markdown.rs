//! Writes the numbers and the promises of a report as a page in Markdown.

use crate::html::{bound, columns, measured};
use crate::plot::number;
use crate::result::{Experiment, Report};

/// Returns a page with the tables of all experiments: the measured numbers of each run, and the promises with their bounds.
pub(crate) fn page(report: &Report) -> String {
    let mut page = "# Results of the experiments\n".to_owned();
    for experiment in &report.experiments {
        page += &format!("\n## {}: {}\n\n", experiment.name, experiment.title);
        page += &runs(experiment);
        page += &promises(experiment);
    }
    page
}

fn table(header: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); header.len()];
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    line(header) + &line(&rule) + &rows + "\n"
}

fn runs(experiment: &Experiment) -> String {
    let columns = columns(experiment);
    let named = |(name, unit): &(&str, &str)| match *unit {
        "" => (*name).to_owned(),
        unit => format!("{name}, {unit}"),
    };
    let header: Vec<String> = ["run".to_owned()].into_iter().chain(columns.iter().map(named)).collect();
    let rows = experiment.cases.iter().map(|case| {
        let values = columns.iter().map(|(name, _)| case.value(name).map_or(String::new(), number));
        [case.name.clone()].into_iter().chain(values).collect()
    });
    table(&header, rows)
}

fn promises(experiment: &Experiment) -> String {
    let rows = experiment.verdicts.iter().map(|verdict| {
        let kept = if verdict.holds { "kept" } else { "**not kept**" };
        vec![verdict.name.clone(), measured(verdict), bound(verdict.bound, verdict.unit), kept.to_owned()]
    });
    let page = table(&["promise", "measured", "bound", ""].map(str::to_owned), rows);
    // One empty line ends the file.
    page.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, Case, Verdict, World};

    #[test]
    fn each_run_and_each_promise_is_a_row() {
        let mut experiment = Experiment::new(World::Simulation, "loss", "Loss", "", 1);
        experiment.cases = vec![Case::new("1 %").with("goodput", 99.5, "%"), Case::new("2 %")];
        experiment.verdicts = vec![
            Verdict::new("goodput at 1 % | 2 %", 99.5, "%", Bound::AtLeast(90.0)),
            Verdict::claim("all arrive", false),
        ];
        let page = page(&Report::new(vec![experiment]));
        let expected = "# Results of the experiments\n\n## loss: Loss\n\n| run | goodput, % |\n| --- | --- |\n| 1 % | 99.5 |\n\
                        | 2 % |  |\n\n| promise | measured | bound |  |\n| --- | --- | --- | --- |\n\
                        | goodput at 1 % \\| 2 % | 99.5 % | at least 90 % | kept |\n| all arrive | no |  | **not kept** |\n";
        assert_eq!(page, expected);
    }
}
