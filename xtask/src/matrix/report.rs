//! The results of the runs. They are stored as JSON, and shown as a page and on the terminal.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{nic::Nic, scenario::Scenario, verifier::MOST_INSTRUCTIONS};

/// The result of one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Works,
    /// The kernel is too old, and it was refused as it must be.
    Refused,
    Fails,
    /// The kernel fails, and would fail with any other XDP program.
    KernelFails,
    /// An earlier step failed, so it was not run.
    NotRun,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Refused => "refused, rightly",
            Self::Fails => "**fails**",
            Self::KernelFails => "the kernel fails",
            Self::NotRun => "not run",
        }
    }
}

/// The result of one scenario on one kernel and card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The series, such as 6.12.
    pub(crate) kernel: String,
    /// The release, such as `6.12.117+deb13-amd64`.
    pub(crate) release: String,
    pub(crate) nic: Nic,
    pub(crate) scenario: Scenario,
    pub(crate) outcome: Outcome,
    /// What was observed, or what went wrong.
    pub(crate) note: String,
    pub(crate) seconds: u64,
    /// Day of the run in UTC, such as 2026-11-23.
    pub(crate) date: String,
    /// Short commit of the run, with a `+` if the sources had changed since. If the program was not built from
    /// these sources, it is the program's file.
    pub(crate) commit: String,
    /// How the guests' CPUs were provided.
    pub(crate) accelerator: String,
}

/// Verified instructions of each program on one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verified {
    pub(crate) kernel: String,
    pub(crate) release: String,
    pub(crate) date: String,
    pub(crate) programs: BTreeMap<String, u32>,
}

/// All results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) cells: Vec<Cell>,
    pub(crate) verified: Vec<Verified>,
}

impl Results {
    /// Reads the results of earlier runs. Returns no results if there is no file.
    ///
    /// # Errors
    /// If the file is not a file of results.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        match fs::read(file) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", file.display()))
            }
            Err(_) => Ok(Self::default()),
        }
    }

    /// Replaces older results by new ones.
    pub(crate) fn merge(&mut self, new: &Self) {
        self.cells.retain(|old| !new.cells.iter().any(|cell| cell.key() == old.key()));
        self.cells.extend(new.cells.iter().cloned());
        self.cells.sort_by_key(|cell| (series(&cell.kernel), cell.nic, cell.scenario));
        for row in new.verified.iter().filter(|row| !row.programs.is_empty()) {
            match self.verified.iter_mut().find(|old| old.kernel == row.kernel && old.release == row.release)
            {
                Some(old) => {
                    old.date.clone_from(&row.date);
                    old.programs.extend(row.programs.clone());
                }
                None => {
                    self.verified.retain(|old| old.kernel != row.kernel);
                    self.verified.push(row.clone());
                }
            }
        }
        self.verified.sort_by_key(|row| series(&row.kernel));
    }

    /// Returns a sentence for each result that is not as it must be.
    pub(crate) fn faults(&self) -> Vec<String> {
        let bad = |cell: &&Cell| matches!(cell.outcome, Outcome::Fails);
        let cells = self.cells.iter().filter(bad).map(|cell| {
            format!("Linux {}, {}, {}: {}", cell.kernel, cell.nic.title(), cell.scenario.title(), cell.note)
        });
        let costly = self.verified.iter().flat_map(|row| {
            let over = row.programs.iter().filter(|(_, count)| **count > MOST_INSTRUCTIONS);
            over.map(|(name, count)| {
                format!("Linux {}: the verifier walks {count} instructions of {name}, more than {MOST_INSTRUCTIONS}", row.kernel)
            })
        });
        cells.chain(costly).collect()
    }

    /// Returns the results as JSON.
    ///
    /// # Errors
    /// No error is known.
    pub(crate) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns the page.
    pub(crate) fn page(&self) -> String {
        let mut page = String::from(HEAD);
        self.table(&mut page);
        page += "\n## Verified instructions\n\n";
        let _ = writeln!(
            page,
            "What the kernel's verifier walks for each program. It gives up at a million; more than {MOST_INSTRUCTIONS} \
             count as a failure here.\n"
        );
        self.verifier_table(&mut page);
        self.seen(&mut page);
        page
    }

    /// Writes what was observed, once for all guests on which it was the same.
    fn seen(&self, page: &mut String) {
        let run = || self.cells.iter().filter(|cell| cell.outcome != Outcome::NotRun);
        let accelerators: BTreeSet<&str> = run().map(|cell| &*cell.accelerator).collect();
        let accelerators: Vec<&str> = accelerators.into_iter().collect();
        *page += "\n## What was seen\n\n";
        let _ = writeln!(page, "The guests' CPUs were {}.", accelerators.join(", "));
        let scenarios: BTreeSet<Scenario> = run().map(|cell| cell.scenario).collect();
        for scenario in scenarios {
            let mut rows: Vec<(Outcome, &str, Vec<&Cell>)> = vec![];
            for cell in run().filter(|cell| cell.scenario == scenario) {
                let same =
                    |row: &&mut (Outcome, &str, Vec<&Cell>)| row.0 == cell.outcome && row.1 == cell.note;
                match rows.iter_mut().find(same) {
                    Some(row) => row.2.push(cell),
                    None => rows.push((cell.outcome, &cell.note, vec![cell])),
                }
            }
            let _ = writeln!(page, "\n**{}**\n", scenario.title());
            let everywhere = rows.len() == 1;
            for (outcome, note, cells) in rows {
                let guests = if everywhere { "all guests".to_owned() } else { guests(&cells) };
                let _ = writeln!(page, "- {guests}: {}. {}", outcome.word(), escaped(note));
            }
        }
    }

    fn table(&self, page: &mut String) {
        let scenarios: BTreeSet<Scenario> = self.cells.iter().map(|cell| cell.scenario).collect();
        let titles: Vec<&str> = scenarios.iter().map(|scenario| scenario.title()).collect();
        let _ = writeln!(page, "| kernel | card | {} | date | commit |", titles.join(" | "));
        let _ = writeln!(page, "| --- | --- |{} --- | --- |", " --- |".repeat(scenarios.len()));
        let mut rows: Vec<(&str, Nic)> = self.cells.iter().map(Cell::row).collect();
        rows.dedup();
        for row in rows {
            let of_row: Vec<&Cell> = self.cells.iter().filter(|cell| cell.row() == row).collect();
            let word = |scenario: &Scenario| {
                let cell = of_row.iter().find(|cell| cell.scenario == *scenario);
                cell.map_or("", |cell| cell.outcome.word())
            };
            let words: Vec<&str> = scenarios.iter().map(word).collect();
            let all = |get: fn(&Cell) -> &str| {
                let set: BTreeSet<&str> = of_row.iter().map(|cell| get(cell)).collect();
                set.into_iter().collect::<Vec<_>>().join(", ")
            };
            let (date, commit) = (all(|cell| &cell.date), all(|cell| &cell.commit));
            let _ = writeln!(
                page,
                "| {} | {} | {} | {date} | {commit} |",
                row.0,
                row.1.title(),
                words.join(" | ")
            );
        }
    }

    fn verifier_table(&self, page: &mut String) {
        let programs: BTreeSet<&String> = self.verified.iter().flat_map(|row| row.programs.keys()).collect();
        let names: Vec<String> = programs.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(page, "| kernel | {} | date |", names.join(" | "));
        let _ = writeln!(page, "| --- |{} --- |", " ---: |".repeat(names.len()));
        for row in &self.verified {
            let count = |name: &&String| row.programs.get(*name).map_or(String::new(), ToString::to_string);
            let counts: Vec<String> = programs.iter().map(count).collect();
            let _ = writeln!(page, "| {} | {} | {} |", row.release, counts.join(" | "), row.date);
        }
    }
}

impl Cell {
    fn row(&self) -> (&str, Nic) {
        (&self.kernel, self.nic)
    }

    fn key(&self) -> (&str, Nic, Scenario) {
        (&self.kernel, self.nic, self.scenario)
    }
}

/// The beginning of the page.
const HEAD: &str = "\
# Platforms

<!-- Written by `cargo xtask matrix` from docs/platforms.json. Changes by hand are lost. -->

`cargo xtask matrix` boots two guests in QEMU with a kernel of Debian's and a network card, and tries on them what people
do with Tiercel. This page is written by it; a row tells when it was run last, and at which commit. Guests are as fast as
their emulation, so nothing here tells of speed.

";

/// Returns the cards of the cells, each with its kernels.
fn guests(cells: &[&Cell]) -> String {
    let mut kernels: BTreeMap<Nic, Vec<&str>> = BTreeMap::new();
    for cell in cells {
        kernels.entry(cell.nic).or_default().push(&cell.kernel);
    }
    let cards = kernels.iter().map(|(nic, kernels)| format!("{} ({})", nic.title(), kernels.join(", ")));
    cards.collect::<Vec<_>>().join("; ")
}

/// Returns a series as a number to sort by.
fn series(kernel: &str) -> (u32, u32) {
    let mut numbers = kernel.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Escapes text for Markdown, so that it contains no tag, table or link.
fn escaped(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut safe = String::new();
    for c in one_line.chars() {
        if "<>|*_[]".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(kernel: &str, nic: Nic, scenario: Scenario, outcome: Outcome) -> Cell {
        Cell {
            kernel: kernel.into(),
            release: format!("{kernel}.1-amd64"),
            nic,
            scenario,
            outcome,
            note: "seen | <so>".into(),
            seconds: 2,
            date: "2026-11-23".into(),
            commit: "abc".into(),
            accelerator: "TCG".into(),
        }
    }

    fn results(cells: Vec<Cell>) -> Results {
        let programs = BTreeMap::from([("wire".to_owned(), 7), ("engine".to_owned(), 600_000)]);
        let verified = Verified { kernel: "7.3".into(), release: "7.3.4".into(), date: "d".into(), programs };
        Results { cells, verified: vec![verified] }
    }

    #[test]
    fn the_table_has_a_row_for_each_kernel_and_card() {
        let mut all = Results::default();
        all.merge(&results(vec![
            cell("7.3", Nic::E1000e, Scenario::Cp, Outcome::Fails),
            cell("6.12", Nic::VirtioNet, Scenario::Start, Outcome::Works),
            cell("7.3", Nic::VirtioNet, Scenario::Start, Outcome::Works),
        ]));
        let page = all.page();
        let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(table[0], "| kernel | card | start | cp | date | commit |");
        assert_eq!(table[2], "| 6.12 | virtio_net | works |  | 2026-11-23 | abc |");
        assert_eq!(table[4], "| 7.3 | e1000e, generic |  | **fails** | 2026-11-23 | abc |");
        assert_eq!(table[7], "| 7.3.4 | 600000 | 7 | d |");
        assert!(page.contains("\n**cp**\n\n- all guests: **fails**. seen \\| \\<so\\>\n"), "{page}");
    }

    #[test]
    fn what_is_the_same_on_several_guests_is_written_once() {
        let all = results(vec![
            cell("6.12", Nic::VirtioNet, Scenario::Cp, Outcome::Works),
            cell("7.3", Nic::VirtioNet, Scenario::Cp, Outcome::Works),
            cell("7.3", Nic::E1000e, Scenario::Cp, Outcome::Fails),
        ]);
        let page = all.page();
        assert!(page.contains("- virtio_net (6.12, 7.3): works. seen"), "{page}");
        assert!(page.contains("- e1000e, generic (7.3): **fails**. seen"), "{page}");
    }

    #[test]
    fn the_page_is_that_of_the_results() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = Results::read(&docs.join("platforms.json")).expect("the results can be read").page();
        assert_eq!(fs::read_to_string(docs.join("platforms.md")).expect("the page can be read"), page);
    }

    #[test]
    fn what_is_new_takes_the_place_of_what_is_old() {
        let mut all = results(vec![
            cell("6.12", Nic::VirtioNet, Scenario::Start, Outcome::Fails),
            cell("6.12", Nic::VirtioNet, Scenario::Cp, Outcome::NotRun),
        ]);
        all.merge(&results(vec![cell("6.12", Nic::VirtioNet, Scenario::Start, Outcome::Works)]));
        let outcomes: Vec<Outcome> = all.cells.iter().map(|cell| cell.outcome).collect();
        assert_eq!(outcomes, [Outcome::Works, Outcome::NotRun]);
        assert_eq!(all.verified.len(), 1);
    }

    #[test]
    fn faults_are_failures_and_costly_programs() {
        let faults = results(vec![
            cell("6.1", Nic::VirtioNet, Scenario::Start, Outcome::Refused),
            cell("6.12", Nic::VirtioNet, Scenario::Cp, Outcome::Fails),
        ])
        .faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("Linux 6.12, virtio_net, cp: seen"));
        assert!(faults[1].contains("600000 instructions of engine"));
    }

    #[test]
    fn json_keeps_everything() {
        let all = results(vec![cell("6.1", Nic::E1000e, Scenario::CleanUp, Outcome::Refused)]);
        let read: Results = serde_json::from_str(&all.to_json().unwrap()).unwrap();
        assert_eq!(read, all);
    }
}
