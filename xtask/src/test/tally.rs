//! The numbers that test programs print.

use std::ops::AddAssign;

/// The numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Ignored or filtered out.
    pub(super) skipped: usize,
}

impl Tally {
    /// Reads the last line of a test program:
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            counts.split("; ").find_map(|count| count.strip_suffix(what)?.trim_end().parse::<usize>().ok())
        };
        let skipped = count("ignored")? + count("filtered out")?;
        Some(Self { passed: count("passed")?, failed: count("failed")?, skipped })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_a_test_program_says() {
        let line = "test result: FAILED. 12 passed; 3 failed; 4 ignored; 0 measured; 5 filtered out; finished in 0.10s";
        assert_eq!(Tally::parse(line), Some(Tally { passed: 12, failed: 3, skipped: 9 }));
        let ok =
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        assert_eq!(Tally::parse(ok), Some(Tally { passed: 1, failed: 0, skipped: 0 }));
    }

    #[test]
    fn counts_no_other_line() {
        for line in ["running 3 tests", "test a::b ... ok", "test result: ", "test result: ok. 1 passed"] {
            assert_eq!(Tally::parse(line), None, "{line}");
        }
    }
}
