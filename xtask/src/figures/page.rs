//! The page of the experiments. No command draws the pictures of real packets again, so each has the date and the commit of
//! its run beside it. A number that the page takes from the tables of the simulated experiments links to its table, and the
//! table has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{LIVE, PICTURES, RESULTS, files, read};
use crate::links::slug;

/// The page.
const PAGE: &str = "docs/experiments.md";
/// The runs of the pictures of real packets, by the names of the pictures.
const RUNS: &str = "docs/experiments/live.json";

/// The run of a picture of real packets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// When it was, as 2026-11-22.
    date: String,
    /// The commit with which the picture came.
    commit: String,
    /// SHA-256 of the picture.
    sha256: String,
}

/// Checks the page in `root`.
///
/// # Errors
/// Names each picture whose run is not known or not beside it, and each number that its table does not have.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = |file: &str| {
        let bytes = read(&root.join(file))?;
        String::from_utf8(bytes).with_context(|| format!("{file} is not UTF-8"))
    };
    let (page, tables) = (text(PAGE)?, text(&format!("{PICTURES}/{RESULTS}"))?);
    let mut wrong = pictures_without_run(root, &page)?;
    wrong.extend(numbers_without_table(&page, &tables));
    if !wrong.is_empty() {
        bail!("{PAGE} shows what it does not prove:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Returns what is wrong with the pictures of real packets.
fn pictures_without_run(root: &Path, page: &str) -> Result<Vec<String>> {
    let runs: BTreeMap<String, Run> = serde_json::from_slice(&read(&root.join(RUNS))?)
        .with_context(|| format!("{RUNS} is not what it should be"))?;
    let (mut wrong, mut known) = (vec![], BTreeSet::new());
    for path in files(&root.join(PICTURES))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".svg") || !name.contains(LIVE) {
            continue;
        }
        let Some(Run { date, commit, sha256 }) = runs.get(&name) else {
            wrong.push(format!(
                "{name} has no entry in {RUNS}: write the date, the commit and the SHA-256 of it"
            ));
            continue;
        };
        if !is_date(date) || !is_commit(commit) {
            wrong.push(format!("{RUNS}, {name}: write a date such as 2026-11-22, and a hash of a commit"));
        }
        if *sha256 != hex::encode(Sha256::digest(read(&path)?)) {
            wrong.push(format!("{name} is not the picture of {date}: write its run into {RUNS}"));
        }
        let beside = format!("(experiments/{name})\n\nRun of {date}, commit {commit}.\n");
        if !page.contains(&beside) {
            wrong.push(format!("the page lacks, below {name}: Run of {date}, commit {commit}."));
        }
        known.insert(name);
    }
    let gone = runs.keys().filter(|name| !known.contains(*name));
    wrong.extend(gone.map(|name| format!("{RUNS} has {name}, and there is no such picture")));
    Ok(wrong)
}

/// Returns whether a text is a date: four, two and two digits.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.iter().map(|part| part.len()).eq([4_usize, 2, 2]) && parts.iter().all(digits)
}

fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the numbers that the page links to a table which does not have them.
fn numbers_without_table(page: &str, tables: &str) -> Vec<String> {
    let parts: Vec<&str> = page.split(&format!("](experiments/{RESULTS}#")).collect();
    let links = parts.windows(2).map(|two| {
        let text = two[0].rsplit('[').next().unwrap_or_default();
        let heading = two[1].split(')').next().unwrap_or_default();
        (text.split_whitespace().next().unwrap_or_default(), heading)
    });
    let numbers = links.filter(|(number, _)| number.starts_with(|first: char| first.is_ascii_digit()));
    numbers
        .filter(|(number, heading)| !numbers_below(tables, heading).contains(&number.replace(',', "")))
        .map(|(number, heading)| format!("{number} is in no table of {RESULTS} below #{heading}"))
        .collect()
}

/// Returns the numbers in the tables below a heading, without the first column.
fn numbers_below(tables: &str, heading: &str) -> BTreeSet<String> {
    let sections = tables.split("\n## ").skip(1);
    let section = sections.filter(|section| slug(section.lines().next().unwrap_or_default()) == heading);
    let rows = section.flat_map(str::lines).filter(|line| line.starts_with('|'));
    let cells = rows.flat_map(|row| row.split('|').skip(2));
    cells.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TABLES: &str = "# Results\n\n## incast: Incast\n\n| run | queue drops, % |\n| --- | --- |\n| 500 to 1 | 8.32 |\n\
                          \n## idle: Resumption\n\n| run | took, ms |\n| --- | --- |\n| message 1 | 1234 |\n";

    #[test]
    fn a_number_that_its_table_does_not_have_is_named() {
        let page = |number: &str| {
            format!("Of all packets [{number}](experiments/results.md#incast-incast) are lost.")
        };
        assert_eq!(numbers_without_table(&page("8.32 %"), TABLES), [""; 0]);
        assert_eq!(numbers_without_table(&page("All numbers"), TABLES), [""; 0], "no number");
        for wrong in ["8.3 %", "500", "1,234"] {
            let found = numbers_without_table(&page(wrong), TABLES);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].contains("is in no table of results.md below #incast-incast"), "{found:?}");
        }
        let other = "It took [1,234\nms](experiments/results.md#idle-resumption).";
        assert_eq!(numbers_without_table(other, TABLES), [""; 0]);
        assert_eq!(numbers_without_table("[8.32](experiments/results.md#nowhere)", TABLES).len(), 1);
    }

    #[test]
    fn a_picture_of_real_packets_has_its_run_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join(PICTURES)).unwrap();
        let write = |file: &str, text: &str| fs::write(root.join(file), text).unwrap();
        let said = || check(root).map_or_else(|error| format!("{error:#}"), |()| String::new());
        write("docs/experiments/results.md", TABLES);
        write("docs/experiments/a-live-b.svg", "<svg/>");
        write("docs/experiments/simulated.svg", "<svg/>");
        let page = "![B](experiments/a-live-b.svg)\n\nRun of 2026-11-22, commit 4200626.\n";
        write(PAGE, page);
        let sha256 = hex::encode(Sha256::digest("<svg/>"));
        let runs = |name: &str, date: &str| {
            let run = Run { date: date.to_owned(), commit: "4200626".to_owned(), sha256: sha256.clone() };
            write(RUNS, &serde_json::to_string(&BTreeMap::from([(name, run)])).unwrap());
        };
        runs("a-live-b.svg", "2026-11-22");
        assert_eq!(said(), "");
        write("docs/experiments/a-live-b.svg", "<svg>another</svg>");
        assert!(said().contains("a-live-b.svg is not the picture of 2026-11-22"), "{}", said());
        write("docs/experiments/a-live-b.svg", "<svg/>");
        runs("a-live-b.svg", "2026-11-23");
        assert!(
            said().contains("lacks, below a-live-b.svg: Run of 2026-11-23, commit 4200626."),
            "{}",
            said()
        );
        runs("a-live-b.svg", "22 November");
        assert!(said().contains("write a date such as"), "{}", said());
        runs("another-live-b.svg", "2026-11-22");
        let both = said();
        assert!(both.contains("a-live-b.svg has no entry") && both.contains("no such picture"), "{both}");
    }

    /// The page of this checkout is checked by the lint, and says so here if the lint was not run.
    #[test]
    fn the_page_of_the_experiments_is_that_of_its_runs() {
        check(crate::shell::workspace()).unwrap();
    }
}
