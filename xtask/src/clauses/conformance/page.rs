//! The generated page, and the same for a terminal.

use std::fmt::{self, Write};

use super::report::{Count, Report, Untested};

const INTRODUCTION: &str = "\
# Conformance

<!-- Written by `cargo xtask conformance`. Do not edit. -->

How many of the [requirements of rev 0.9](spec/README.md) a test shows. `cargo xtask conformance` counts the ids that
the tests cite; `cargo xtask lint` fails when this page is out of date, or when a requirement has neither a test nor a
reason. A test cites a requirement only if it fails when the requirement is broken. [Coverage](spec/coverage.md) names
the tests.
";

const LEVELS: &str = "\
A row is a `must`, a `should` or a `may`; facts demand nothing and are not counted. *test*: a test cites it. *code*:
code cites it, and no test. *none*: neither does.
";

/// Returns the text of the page.
pub(super) fn page(report: &Report) -> String {
    let mut page = INTRODUCTION.to_owned();
    // Writing into a String cannot fail.
    let _ = tables(&mut page, report);
    let _ = reasons(&mut page, report);
    page
}

fn tables(page: &mut String, report: &Report) -> fmt::Result {
    writeln!(page, "\n## Sections\n\n{LEVELS}\n{}\n", wrapped_goal(report))?;
    let header = "| section | must | test | code | none | should | test | code | none | may | test | code | none |\n\
                  | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
    writeln!(page, "{header}")?;
    let mut left_out = vec![];
    for section in &report.sections {
        let link = format!("[{}](spec/{})", section.title, section.page);
        let counts = [section.must, section.should, section.may].map(cells).concat().join(" | ");
        let row = format!("| {link} | {counts} |");
        match &section.left_out {
            None => writeln!(page, "{row}")?,
            Some(reason) => left_out.push((row, link, reason)),
        }
    }
    writeln!(page, "\n## Not part of the goal\n\n{header}")?;
    for (row, ..) in &left_out {
        writeln!(page, "{row}")?;
    }
    writeln!(page)?;
    for (_, link, reason) in &left_out {
        writeln!(page, "- {link}: {reason}")?;
    }
    Ok(())
}

fn wrapped_goal(report: &Report) -> String {
    format!("**{}**", goal(report))
}

/// Returns a sentence about the share.
fn goal(report: &Report) -> String {
    let goal = &report.goal;
    let permille = goal.permille();
    format!(
        "Tests show {} of {} must rows of these sections: {}.{} %. At least {} % are needed.",
        goal.tested,
        goal.rows,
        permille / 10,
        permille % 10,
        goal.needed_percent
    )
}

/// Returns the cells of a level; they are empty if the section has no row of it.
fn cells(count: Count) -> [String; 4] {
    if count.rows() == 0 {
        return Default::default();
    }
    [count.rows(), count.tested, count.code_only, count.neither].map(|number| number.to_string())
}

fn reasons(page: &mut String, report: &Report) -> fmt::Result {
    let (cryptography, counted): (Vec<_>, Vec<_>) = report.untested.iter().partition(|row| row.cryptography);
    for (heading, rows) in
        [("Without a test", counted), ("Without a test: cryptography of section 9", cryptography)]
    {
        writeln!(
            page,
            "\n## {heading}\n\n| row | level | cited by code | reason |\n| --- | --- | --- | --- |"
        )?;
        for row in rows {
            let Untested { id, page: of, in_code, .. } = row;
            let (level, reason) = (level(row), row.reason.as_deref().unwrap_or_default());
            let code = if *in_code { "yes" } else { "no" };
            writeln!(page, "| [{id}](spec/{of}#{id}) | {level} | {code} | {reason} |")?;
        }
    }
    Ok(())
}

fn level(row: &Untested) -> String {
    format!("{:?}", row.level).to_lowercase()
}

/// Returns the same for a terminal.
pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    let _ = plain(&mut text, report);
    text
}

/// The longest title that is shown whole.
const TITLE: usize = 44;

fn plain(text: &mut String, report: &Report) -> fmt::Result {
    write!(text, "{:TITLE$}", "section")?;
    for level in ["must", "should", "may"] {
        write!(text, " {level:>7} test code none")?;
    }
    writeln!(text)?;
    for section in &report.sections {
        let mark = if section.left_out.is_some() { "(" } else { "" };
        let title: String = format!("{mark}{}", section.title).chars().take(TITLE).collect();
        write!(text, "{title:TITLE$}")?;
        for count in [section.must, section.should, section.may] {
            let [rows, test, code, none] = cells(count);
            write!(text, " {rows:>7} {test:>4} {code:>4} {none:>4}")?;
        }
        writeln!(text)?;
    }
    writeln!(text, "\nSections with a ( are no part of the goal:")?;
    for section in &report.sections {
        if let Some(reason) = &section.left_out {
            writeln!(text, "  {}: {reason}", section.title)?;
        }
    }
    writeln!(text, "\nWithout a test:")?;
    for row in &report.untested {
        let reason = row.reason.as_deref().unwrap_or("NO REASON");
        writeln!(text, "  {:14} {:6} {reason}", row.id, level(row))?;
    }
    writeln!(text, "\n{}", goal(report))
}
