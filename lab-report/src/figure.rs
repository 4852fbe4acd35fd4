//! A figure as data, independent of how it is drawn.

use serde::Serialize;

use crate::statistics::quantile;

/// Largest number of points of a line. More points are not visible.
const MOST_POINTS: usize = 600;

/// The parts of the lines below the lower and the upper edge of a band.
const BAND: (f64, f64) = (0.1, 0.9);

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
    /// Whether a linear vertical axis begins at 0, so that heights can be compared.
    pub from_zero: bool,
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
    /// An area: the points are its outline. It has the colour of the line with the same name, and no legend of its own.
    Band,
    /// A bar from 0 to each point.
    Bars,
    /// A dot at each point.
    Dots,
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
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear, from_zero: true };
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

    /// Shows on the y axis only the range of the values, for values whose distance from 0 has no meaning.
    pub fn y_near_values(mut self) -> Self {
        self.y.from_zero = false;
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

    /// Adds the area between two lines. A line with the same name gives it its colour.
    pub fn band(mut self, name: impl Into<String>, lower: Vec<[f64; 2]>, upper: Vec<[f64; 2]>) -> Self {
        let (lower, upper) = (thin(lower), thin(upper));
        let outline = lower.into_iter().chain(upper.into_iter().rev()).collect();
        self.lines.push(Line { name: name.into(), look: Look::Band, points: outline });
        self
    }

    /// Adds many similar lines as their median and the area that has most of them, because drawn one by one they would
    /// cover each other. Between its points a line keeps its value. Where less than half of the lines have a value,
    /// the median is interrupted.
    pub fn spread(mut self, name: &str, lines: impl IntoIterator<Item = Vec<[f64; 2]>>) -> Self {
        let lines: Vec<_> = lines.into_iter().collect();
        let name = format!("{name}: median, and {:.0} to {:.0} %", BAND.0 * 100.0, BAND.1 * 100.0);
        let columns = columns(&lines);
        let of = |column: &Column, part| [column.x, quantile(&column.values, part).unwrap_or(f64::NAN)];
        let has_most = |column: &Column| 2 * column.values.len() >= lines.len().max(1);
        for piece in columns.split(|column| !has_most(column)).filter(|piece| piece.len() > 1) {
            let edge = |part| piece.iter().map(|column| of(column, part)).collect();
            self = self.band(name.as_str(), edge(BAND.0), edge(BAND.1));
        }
        let median = |column| if has_most(column) { of(column, 0.5) } else { [column.x, f64::NAN] };
        self.line(Look::Main, name, columns.iter().map(median).collect())
    }

    /// Adds a horizontal line over the whole width of the lines that the figure has already.
    pub fn level(self, name: impl Into<String>, y: f64) -> Self {
        let xs = || self.lines.iter().flat_map(|line| &line.points).map(|point| point[0]);
        let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let points = if from <= to { vec![[from, y], [to, y]] } else { vec![] };
        self.line(Look::Reference, name, points)
    }
}

/// The values of several lines at one x.
struct Column {
    x: f64,
    values: Vec<f64>,
}

/// Returns the values of all lines at each x of the line with most points. A line has the value of its last point up to
/// this x. Before its first point, after its last one, and where it is interrupted, it has none.
fn columns(lines: &[Vec<[f64; 2]>]) -> Vec<Column> {
    let Some(longest) = lines.iter().max_by_key(|line| line.len()) else { return vec![] };
    let value = |line: &Vec<[f64; 2]>, x: f64| {
        let after = line.partition_point(|point| point[0] <= x);
        let held = line.get(after.checked_sub(1)?)?;
        (held[1].is_finite() && (after < line.len() || held[0] == x)).then_some(held[1])
    };
    let column = |x| Column { x, values: lines.iter().filter_map(|line| value(line, x)).collect() };
    longest.iter().map(|point| column(point[0])).collect()
}

/// Returns the heights of the first line minus those of the second one: of lines that cover each other, the difference
/// can be seen. Pairs the points in their order, at the x of the first line's. A line with more points has no partner
/// for the last ones, which are left out.
pub fn difference(a: &[[f64; 2]], b: &[[f64; 2]]) -> Vec<[f64; 2]> {
    a.iter().zip(b).map(|([x, a], [_, b])| [*x, a - b]).collect()
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
    fn many_lines_become_their_median_and_a_band() {
        let line = |n: u32| (0..5).map(|x| [f64::from(x), f64::from(n + 10 * x)]).collect::<Vec<_>>();
        let mut lines: Vec<_> = (1..=10).map(line).collect();
        // Six lines are missing in the last column, so it shows nothing.
        lines.iter_mut().take(6).for_each(|line| line[4][1] = f64::NAN);
        let figure = Figure::new("f", "F", "x", "y").spread("flows", lines);
        let [band, median] = figure.lines.as_slice() else { panic!("{} lines", figure.lines.len()) };
        assert_eq!((band.look, median.look), (Look::Band, Look::Main));
        assert_eq!(band.name, "flows: median, and 10 to 90 %");
        assert_eq!(band.name, median.name);
        let (lower, upper) = ([1.0, 11.0, 21.0, 31.0], [39.0, 29.0, 19.0, 9.0]);
        assert!(band.points.iter().map(|point| point[1]).eq(lower.into_iter().chain(upper)));
        assert_eq!(median.points[..4], [[0.0, 5.0], [1.0, 15.0], [2.0, 25.0], [3.0, 35.0]]);
        assert!(median.points[4][1].is_nan());
        let none = Figure::new("f", "F", "x", "y").spread("flows", [vec![], vec![]]);
        assert!(none.lines.iter().all(|line| line.points.is_empty()));
    }

    #[test]
    fn a_line_keeps_its_value_between_its_points() {
        let lines = [vec![[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]], vec![[0.5, 7.0], [1.5, 9.0]]];
        let values: Vec<_> = columns(&lines).into_iter().map(|column| column.values).collect();
        assert_eq!(values, [vec![1.0], vec![2.0, 7.0], vec![3.0]]);
    }

    #[test]
    fn a_difference_pairs_points_in_their_order() {
        let line = [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]];
        assert_eq!(difference(&line, &[[0.5, 7.0], [1.5, 9.0]]), [[0.0, -6.0], [1.0, -7.0]]);
        assert_eq!(difference(&line, &[]), [[0.0; 2]; 0]);
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
