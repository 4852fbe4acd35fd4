//! The counts, and what is wrong with them.

use serde::Serialize;

use super::reasons::{CRYPTOGRAPHY, LEFT_OUT, Reasons};
use crate::clauses::{
    citations::Citations,
    inventory::{Id, Inventory, Level},
};

/// The share of the goal's must rows that a test has to show, percent.
const GOAL_PERCENT: usize = 97;

/// What the command found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The must rows of the goal.
    pub(super) goal: Goal,
    /// The sections in the order of the specification; those that do not count, and then cryptography, last.
    pub(super) sections: Vec<Section>,
    /// The requirements without a test that need a reason, in the order of the specification.
    pub(super) untested: Vec<Untested>,
    /// What has to be corrected.
    pub(super) problems: Vec<String>,
}

/// The must rows of the sections that count.
#[derive(Debug, Serialize)]
pub(super) struct Goal {
    pub(super) rows: usize,
    pub(super) tested: usize,
    /// The smallest share that is enough, percent.
    pub(super) needed_percent: usize,
}

impl Goal {
    /// Returns the share in thousandths, rounded down.
    pub(super) fn permille(&self) -> usize {
        (self.tested * 1000).checked_div(self.rows).unwrap_or(1000)
    }

    fn is_reached(&self) -> bool {
        self.tested * 100 >= self.rows * self.needed_percent
    }
}

/// The counts of a section, or of the requirements about cryptography.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    pub(super) title: String,
    /// The name of its page, in the directory of the specification.
    pub(super) page: String,
    /// Why its rows are no part of the goal, if they are not.
    pub(super) left_out: Option<String>,
    pub(super) must: Count,
    pub(super) should: Count,
    pub(super) may: Count,
}

/// How many rows there are of a level, each in one of the three groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    /// A test cites it.
    pub(super) tested: usize,
    /// Only code cites it.
    pub(super) code_only: usize,
    /// Neither cites it.
    pub(super) neither: usize,
}

impl Count {
    /// Returns how many rows there are.
    pub(super) fn rows(self) -> usize {
        self.tested + self.code_only + self.neither
    }
}

/// A requirement without a test.
#[derive(Debug, Serialize)]
pub(super) struct Untested {
    pub(super) id: String,
    pub(super) level: Level,
    pub(super) page: String,
    /// Whether code cites it.
    pub(super) in_code: bool,
    /// Whether it belongs to cryptography, and so does not count.
    pub(super) cryptography: bool,
    /// `None` if the file has none, which is a problem.
    pub(super) reason: Option<String>,
}

impl Report {
    /// Counts the requirements and checks the reasons.
    pub(super) fn new(inventory: &Inventory, citations: &Citations<'_>, reasons: &Reasons) -> Self {
        let mut report = Self {
            goal: Goal { rows: 0, tested: 0, needed_percent: GOAL_PERCENT },
            sections: vec![],
            untested: vec![],
            problems: wrong(inventory, citations, reasons),
        };
        for (id, definition) in inventory.all() {
            let Some(level) = definition.level.filter(|level| *level != Level::Fact) else { continue };
            let text = id.text();
            let section = LEFT_OUT.into_iter().find(|section| is_in(id, section));
            let cryptography = reasons.cryptography.contains_key(&text);
            let (title, left_out) = match section {
                _ if cryptography => (
                    format!("{CRYPTOGRAPHY}, cryptography"),
                    Some("belongs to encryption; each row has its reason below".to_owned()),
                ),
                Some(section) => (definition.heading.clone(), reasons.sections.get(section).cloned()),
                None => (definition.heading.clone(), None),
            };
            let counts = section.is_none() && !cryptography;
            let tested = citations.in_tests(id);
            if counts && level == Level::Must {
                report.goal.rows += 1;
                report.goal.tested += usize::from(tested);
            }
            report.section(title, &definition.page, left_out).count(level, tested, citations.in_code(id));
            if section.is_none() && !tested {
                let reason = reasons.clauses.get(&text).or_else(|| reasons.cryptography.get(&text)).cloned();
                let (page, in_code) = (definition.page.clone(), citations.in_code(id));
                report.untested.push(Untested { id: text, level, page, in_code, cryptography, reason });
            }
        }
        report.sections.sort_by_key(|section| section.left_out.is_some());
        report.judge();
        report
    }

    /// Returns the section with a title, and adds it if it is new.
    fn section(&mut self, title: String, page: &str, left_out: Option<String>) -> &mut Section {
        let known = self.sections.iter().position(|it| it.title == title);
        let index = known.unwrap_or_else(|| {
            let (page, count) = (page.to_owned(), Count::default());
            self.sections.push(Section { title, page, left_out, must: count, should: count, may: count });
            self.sections.len() - 1
        });
        &mut self.sections[index]
    }

    /// Adds a problem for each requirement without test and reason, and if tests show too little.
    fn judge(&mut self) {
        for row in self.untested.iter().filter(|row| row.reason.is_none()) {
            self.problems
                .push(format!("{}: no test cites it: write a test, or a reason why there is none", row.id));
        }
        if !self.goal.is_reached() {
            let Goal { rows, tested, needed_percent } = self.goal;
            self.problems
                .push(format!("tests show {tested} of {rows} must rows; {needed_percent} % are needed"));
        }
    }
}

impl Section {
    fn count(&mut self, level: Level, tested: bool, in_code: bool) {
        let count = match level {
            Level::Must => &mut self.must,
            Level::Should => &mut self.should,
            Level::May => &mut self.may,
            Level::Fact => return,
        };
        match (tested, in_code) {
            (true, _) => count.tested += 1,
            (false, true) => count.code_only += 1,
            (false, false) => count.neither += 1,
        }
    }
}

/// Returns what is wrong with the reasons.
fn wrong(inventory: &Inventory, citations: &Citations<'_>, reasons: &Reasons) -> Vec<String> {
    let mut problems = vec![];
    for section in LEFT_OUT.into_iter().filter(|section| !reasons.sections.contains_key(*section)) {
        if inventory.all().any(|(id, _)| is_in(id, section)) {
            problems.push(format!("section {section} is left out without a reason"));
        }
    }
    for section in reasons.sections.keys().filter(|section| !LEFT_OUT.contains(&section.as_str())) {
        problems
            .push(format!("section {section} is part of the goal: give its requirements their own reasons"));
    }
    for text in reasons.cryptography.keys().chain(reasons.clauses.keys()) {
        let Some((id, definition)) = inventory.find(text) else {
            problems.push(format!("{text}: there is no such requirement"));
            continue;
        };
        if matches!(definition.level, None | Some(Level::Fact)) {
            problems.push(format!("{text}: it demands nothing, so it needs no reason"));
        } else if citations.in_tests(id) {
            problems.push(format!("{text}: a test cites it now: remove its reason"));
        } else if LEFT_OUT.into_iter().any(|section| is_in(id, section)) {
            problems.push(format!("{text}: its whole section is left out: remove its reason"));
        } else if reasons.cryptography.contains_key(text) && !is_in(id, CRYPTOGRAPHY) {
            problems
                .push(format!("{text}: only requirements of section {CRYPTOGRAPHY} belong to cryptography"));
        }
    }
    problems
}

fn is_in(id: &Id, section: &str) -> bool {
    let section: Vec<u32> = section.split('.').filter_map(|part| part.parse().ok()).collect();
    id.is_in(&section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clauses::sources::Source;

    const PAGE: &str = "\
## 6.5 Security
| <a id=\"F-6.5-1\"></a>F-6.5-1 | must | Encrypt. |
## 9.1 Transmitter
| <a id=\"F-9.1-1\"></a>F-9.1-1 | must | The gate. |
| <a id=\"F-9.1-2\"></a>F-9.1-2 | must | The base. |
| <a id=\"F-9.1-3\"></a>F-9.1-3 | should | The order. |
| <a id=\"F-9.1-4\"></a>F-9.1-4 | may | A hint. |
| <a id=\"F-9.1-5\"></a>F-9.1-5 | fact | A name. |
| <a id=\"F-9.1-6\"></a>F-9.1-6 | must | The key. |
## 11 Errors
| <a id=\"F-11-1\"></a>F-11-1 | must | The end. |
";

    const REASONS: &str = "\
[sections]
\"6.5\" = \"encryption\"
[cryptography]
\"F-9.1-6\" = \"a key\"
[clauses]
\"F-9.1-2\" = \"hardware\"
\"F-9.1-4\" = \"descriptive\"
";

    /// The report of [`PAGE`] for code and a test with the given citations.
    fn report(code: &str, test: &str, reasons: &str) -> Report {
        let mut inventory = Inventory::default();
        inventory.add("nine.md", PAGE).unwrap();
        let sources = [
            Source::new("core/src/lib.rs".into(), format!("/// {code}\nfn code() {{}}\n")),
            Source::new("core/tests/all.rs".into(), format!("/// {test}\n#[test]\nfn all() {{}}\n")),
            Source::new("docs/page.md".into(), "F-9.1-2".to_owned()),
        ];
        Report::new(&inventory, &Citations::collect(&inventory, &sources), &Reasons::parse(reasons).unwrap())
    }

    fn count(tested: usize, code_only: usize, neither: usize) -> Count {
        Count { tested, code_only, neither }
    }

    /// The problems if the share is left aside.
    fn problems(report: &Report) -> Vec<&String> {
        report.problems.iter().filter(|problem| !problem.contains("must rows")).collect()
    }

    #[test]
    fn each_row_counts_once_under_its_level() {
        let report = report("F-9.1-1, F-9.1-4, F-6.5-1", "F-9.1-1, F-9.1-3, F-11-1", REASONS);
        let [transmitter, errors, security, keys] = &report.sections[..] else {
            panic!("{:?}", report.sections)
        };
        assert_eq!((transmitter.title.as_str(), transmitter.must.rows()), ("9.1 Transmitter", 2));
        assert_eq!(transmitter.must, count(1, 0, 1));
        assert_eq!((transmitter.should, transmitter.may), (count(1, 0, 0), count(0, 1, 0)));
        assert_eq!((errors.must, errors.left_out.as_deref()), (count(1, 0, 0), None));
        assert_eq!((security.must, security.left_out.as_deref()), (count(0, 1, 0), Some("encryption")));
        assert_eq!((keys.title.as_str(), keys.must), ("9, cryptography", count(0, 0, 1)));
        assert!(keys.left_out.is_some());
    }

    #[test]
    fn the_goal_counts_must_rows_that_are_not_left_out() {
        let report = report("F-9.1-2", "F-9.1-1, F-9.1-3, F-11-1", REASONS);
        assert_eq!((report.goal.rows, report.goal.tested, report.goal.permille()), (3, 2, 666));
        assert_eq!(report.problems, ["tests show 2 of 3 must rows; 97 % are needed"]);
        let untested: Vec<_> = report.untested.iter().map(|row| (row.id.as_str(), row.in_code)).collect();
        assert_eq!(untested, [("F-9.1-2", true), ("F-9.1-4", false), ("F-9.1-6", false)]);
    }

    #[test]
    fn the_share_is_enough_from_the_percentage_on() {
        for (tested, rows, enough) in [(97, 100, true), (96, 100, false), (193, 199, false), (194, 200, true)]
        {
            assert_eq!(Goal { rows, tested, needed_percent: 97 }.is_reached(), enough, "{tested} of {rows}");
        }
    }

    #[test]
    fn a_row_without_test_and_reason_is_a_problem_also_if_code_cites_it() {
        let reasons = REASONS.replace("\"F-9.1-2\" = \"hardware\"\n", "");
        let report = report("F-9.1-2", "F-9.1-1, F-9.1-3, F-11-1", &reasons);
        assert_eq!(
            problems(&report),
            ["F-9.1-2: no test cites it: write a test, or a reason why there is none"]
        );
    }

    #[test]
    fn a_reason_that_does_not_hold_is_a_problem() {
        let tests = "F-9.1-1, F-9.1-3, F-11-1";
        let table = [
            ("\"F-9.1-1\" = \"hardware\"", "F-9.1-1: a test cites it now"),
            ("\"F-9.1-9\" = \"hardware\"", "F-9.1-9: there is no such requirement"),
            ("\"F-9.1-1..2\" = \"hardware\"", "F-9.1-1..2: there is no such requirement"),
            ("\"F-9.1-5\" = \"hardware\"", "F-9.1-5: it demands nothing"),
            ("\"F-6.5-1\" = \"hardware\"", "F-6.5-1: its whole section is left out"),
        ];
        for (line, expected) in table {
            let report = report("", tests, &format!("{REASONS}{line}\n"));
            let [problem] = problems(&report)[..] else { panic!("{line}: {:?}", report.problems) };
            assert!(problem.starts_with(expected), "{problem}");
        }
        let reasons = "[sections]\n\"6.5\" = \"e\"\n\"11\" = \"e\"\n[cryptography]\n\"F-11-1\" = \"e\"\n";
        let report = report("", "F-9.1-1..4, F-9.1-6", reasons);
        let starts = ["section 11 is part of the goal", "F-11-1: only requirements of section 9"];
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
        for (problem, start) in report.problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn a_section_is_not_left_out_without_a_reason() {
        let report = report("", "F-9.1-1..4, F-9.1-6, F-11-1", "");
        assert_eq!(report.problems, ["section 6.5 is left out without a reason"]);
    }
}
