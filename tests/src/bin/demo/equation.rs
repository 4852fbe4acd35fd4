//! Sums that must agree. Each summand has a name and an independent source.

use serde::Serialize;

/// A summand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) value: u64,
}

/// Two sums of independent counts that must be the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Equation {
    /// What it shows.
    pub(crate) what: String,
    pub(crate) left: Vec<Term>,
    pub(crate) right: Vec<Term>,
}

impl Equation {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), left: Vec::new(), right: Vec::new() }
    }

    /// Adds to the left side.
    #[must_use]
    pub(crate) fn left(mut self, name: impl Into<String>, value: u64) -> Self {
        self.left.push(Term { name: name.into(), value });
        self
    }

    /// Adds to the right side.
    #[must_use]
    pub(crate) fn right(mut self, name: impl Into<String>, value: u64) -> Self {
        self.right.push(Term { name: name.into(), value });
        self
    }

    /// Adds a rare summand to the right side, unless it is 0.
    #[must_use]
    pub(crate) fn right_if_any(self, name: impl Into<String>, value: u64) -> Self {
        if value == 0 { self } else { self.right(name, value) }
    }

    /// Returns left minus right: 0 if the equation holds.
    pub(crate) fn difference(&self) -> i128 {
        let sum = |terms: &[Term]| terms.iter().map(|term| i128::from(term.value)).sum::<i128>();
        sum(&self.left) - sum(&self.right)
    }

    pub(crate) fn holds(&self) -> bool {
        self.difference() == 0
    }
}

impl std::fmt::Display for Equation {
    /// `10 lost + 2 found = 12 looked for`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = |terms: &[Term]| {
            let terms: Vec<_> = terms.iter().map(|term| format!("{} {}", term.value, term.name)).collect();
            if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
        };
        let sign = if self.holds() { "=" } else { "≠" };
        write!(f, "{} {sign} {}", side(&self.left), side(&self.right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_summed_and_written_out() {
        let equation =
            Equation::new("lost and found").left("lost", 10).left("found", 2).right("looked for", 12);
        assert!(equation.holds());
        assert_eq!(equation.to_string(), "10 lost + 2 found = 12 looked for");
        let equation = equation.right_if_any("stolen", 0).right_if_any("hidden", 1);
        assert_eq!((equation.holds(), equation.difference()), (false, -1));
        assert_eq!(equation.to_string(), "10 lost + 2 found ≠ 12 looked for + 1 hidden");
        assert_eq!(Equation::new("nothing").to_string(), "0 = 0");
    }
}
