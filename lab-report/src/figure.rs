//! A figure as data: what is drawn, whoever draws it.

use serde::Serialize;

/// Points of a line that are kept; more than anyone can see.
const MOST_POINTS: usize = 600;

/// How values stand along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal steps are equal differences.
    Linear,
    /// Values must be above 0; others are left out.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How its values stand.
    pub scale: Scale,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// In a colour of its own, named in the legend.
    Main,
    /// One of many of a kind: thin and pale. Only the first of a name stands in the legend.
    Faint,
    /// Something to compare with: dashed.
    Reference,
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Stands in the legend.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// x and y. A point whose y is not a number (null in JSON) interrupts the line.
    pub points: Vec<[f64; 2]>,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Names its file, within the experiment.
    pub name: String,
    /// Stands above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, the last on top.
    pub lines: Vec<Line>,
}

impl Figure {
    /// An empty figure with linear axes.
    pub fn new(name: impl Into<String>, title: impl Into<String>, x: &str, y: &str) -> Self {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear };
        Self { name: name.into(), title: title.into(), x: axis(x), y: axis(y), lines: vec![] }
    }

    /// With logarithmic x.
    pub fn log_x(mut self) -> Self {
        self.x.scale = Scale::Logarithmic;
        self
    }

    /// With logarithmic y.
    pub fn log_y(mut self) -> Self {
        self.y.scale = Scale::Logarithmic;
        self
    }

    /// Adds a line, thinned so that its peaks remain.
    pub fn line(mut self, look: Look, name: impl Into<String>, points: Vec<[f64; 2]>) -> Self {
        self.lines.push(Line { name: name.into(), look, points: thin(points) });
        self
    }

    /// Adds one line for each of many, all of one name.
    pub fn lines(mut self, look: Look, name: &str, lines: impl IntoIterator<Item = Vec<[f64; 2]>>) -> Self {
        for points in lines {
            self = self.line(look, name, points);
        }
        self
    }

    /// Adds a horizontal line across the others.
    pub fn level(self, name: impl Into<String>, y: f64) -> Self {
        let xs = || self.lines.iter().flat_map(|line| &line.points).map(|point| point[0]);
        let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let points = if from <= to { vec![[from, y], [to, y]] } else { vec![] };
        self.line(Look::Reference, name, points)
    }
}

/// At most about [`MOST_POINTS`]: of each group of neighbours the least and the greatest, in their order, and the first
/// interruption.
fn thin(points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let size = points.len().div_ceil(MOST_POINTS / 2);
    let extremes = |group: &[[f64; 2]]| {
        let by_y = |a: &&[f64; 2], b: &&[f64; 2]| a[1].total_cmp(&b[1]);
        let numbers = || group.iter().filter(|point| !point[1].is_nan());
        let gap = group.iter().find(|point| point[1].is_nan());
        let ends = [numbers().min_by(by_y), numbers().max_by(by_y), gap];
        let mut ends: Vec<[f64; 2]> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a[0].total_cmp(&b[0]));
        ends
    };
    points.chunks(size).flat_map(extremes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_and_order() {
        let points: Vec<[f64; 2]> = (0..10_000).map(|n| [f64::from(n), f64::from(n % 100)]).collect();
        let mut peaked = points.clone();
        peaked[5_003][1] = 1e6;
        let thinned = thin(peaked);
        assert!(thinned.len() <= MOST_POINTS);
        assert!(thinned.contains(&[5_003.0, 1e6]) && thinned.is_sorted_by_key(|point| point[0]));
        let mut broken = points.clone();
        broken[7_000][1] = f64::NAN;
        assert_eq!(thin(broken).iter().filter(|point| point[1].is_nan()).count(), 1, "gaps remain");
        let few = points[..MOST_POINTS].to_vec();
        assert_eq!(thin(few.clone()), few);
    }

    #[test]
    fn a_level_spans_the_other_lines() {
        let figure = Figure::new("f", "F", "x", "y")
            .line(Look::Main, "a", vec![[1.0, 5.0], [3.0, 6.0]])
            .line(Look::Main, "b", vec![[2.0, 5.0], [7.0, 6.0]])
            .level("limit", 4.0);
        assert_eq!(figure.lines[2].points, [[1.0, 4.0], [7.0, 4.0]]);
    }
}
