//! A figure as data, independent of how it is drawn.

use serde::Serialize;

/// Largest number of points of a line. More points are not visible.
const MOST_POINTS: usize = 600;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear scale.
    Linear,
    /// Logarithmic scale. Values that are not above 0 are left out.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Label, with the unit.
    pub label: String,
    /// Scale of the axis.
    pub scale: Scale,
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// A line in its own colour, with an entry in the legend.
    Main,
    /// One of many similar lines: thin and pale. The legend has only the first line of each name.
    Faint,
    /// A line for comparison: dashed.
    Reference,
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Style of the line.
    pub look: Look,
    /// Points, x and y. A point whose y is not a number (null in JSON) interrupts the line.
    pub points: Vec<[f64; 2]>,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name within the experiment, used in the name of its file.
    pub name: String,
    /// Title above the figure.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines. The last one is drawn on top.
    pub lines: Vec<Line>,
}

impl Figure {
    /// Makes an empty figure with linear axes.
    pub fn new(name: impl Into<String>, title: impl Into<String>, x: &str, y: &str) -> Self {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear };
        Self { name: name.into(), title: title.into(), x: axis(x), y: axis(y), lines: vec![] }
    }

    /// Makes the x axis logarithmic.
    pub fn log_x(mut self) -> Self {
        self.x.scale = Scale::Logarithmic;
        self
    }

    /// Makes the y axis logarithmic.
    pub fn log_y(mut self) -> Self {
        self.y.scale = Scale::Logarithmic;
        self
    }

    /// Adds a line. Removes points if there are too many, but keeps the peaks.
    pub fn line(mut self, look: Look, name: impl Into<String>, points: Vec<[f64; 2]>) -> Self {
        self.lines.push(Line { name: name.into(), look, points: thin(points) });
        self
    }

    /// Adds several lines with the same name.
    pub fn lines(mut self, look: Look, name: &str, lines: impl IntoIterator<Item = Vec<[f64; 2]>>) -> Self {
        for points in lines {
            self = self.line(look, name, points);
        }
        self
    }

    /// Adds a horizontal line over the whole width of the others.
    pub fn level(self, name: impl Into<String>, y: f64) -> Self {
        let xs = || self.lines.iter().flat_map(|line| &line.points).map(|point| point[0]);
        let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let points = if from <= to { vec![[from, y], [to, y]] } else { vec![] };
        self.line(Look::Reference, name, points)
    }
}

/// Reduces the points to at most about [`MOST_POINTS`]. Of each group of neighbours, keeps the smallest and the
/// largest in their order, and the first interruption.
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
