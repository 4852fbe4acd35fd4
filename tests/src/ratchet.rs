//! Costs that are recorded, so that they do not grow unnoticed.

/// What a table of costs counts.
pub struct Column {
    /// The unit, for people.
    pub unit: &'static str,
    /// By how many percent a cost may be above its line, because another compiler release generates other code.
    pub slack: u64,
    /// Whether a cost that is as far below its line is wrong too, until the line is lowered. Not for what depends on the kernel.
    pub both_ways: bool,
}

/// The name of a thing and its costs, one for each column.
pub type Line<'a, const N: usize> = (&'a str, [u64; N]);

/// Compares costs with the recorded lines. Returns what has to be done: cheaper code, or another line.
#[must_use]
pub fn complaints<const N: usize>(
    columns: &[Column; N],
    lines: &[Line<'_, N>],
    costs: &[Line<'_, N>],
) -> Vec<String> {
    let names = |table: &[Line<'_, N>]| table.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    if names(lines) != names(costs) {
        return vec![format!("the lines are of {:?}, the costs of {:?}", names(lines), names(costs))];
    }
    let mut complaints = Vec::new();
    for ((name, was), (_, is)) in lines.iter().zip(costs) {
        for ((column, was), is) in columns.iter().zip(was).zip(is) {
            let (unit, slack) = (column.unit, was * column.slack / 100);
            if *is > was + slack {
                complaints.push(format!("{name}: {is} {unit}, {was} were enough before"));
            } else if column.both_ways && is + slack < *was {
                complaints.push(format!("{name}: {is} {unit}: lower its line of {was}"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::{Column, complaints};

    #[test]
    fn a_cost_beside_its_line_is_told() {
        let mut columns = [
            Column { unit: "steps", slack: 3, both_ways: true },
            Column { unit: "returns", slack: 0, both_ways: true },
        ];
        let lines = [("a", [100, 7]), ("b", [100, 7])];
        assert!(complaints(&columns, &lines, &[("a", [103, 7]), ("b", [97, 7])]).is_empty());
        let told = complaints(&columns, &lines, &[("a", [104, 7]), ("b", [96, 8])]);
        let expected = [
            "a: 104 steps, 100 were enough before",
            "b: 96 steps: lower its line of 100",
            "b: 8 returns, 7 were enough before",
        ];
        assert_eq!(told, expected);
        assert_eq!(complaints(&columns, &lines, &[("a", [100, 7])]).len(), 1, "a line without a cost");
        columns[0].both_ways = false;
        assert!(complaints(&columns, &lines, &[("a", [9, 7]), ("b", [97, 7])]).is_empty());
    }
}
