//! Draws figures as SVG that is readable on a light and on a dark background.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figure::{Axis, Figure, Line, Look, Scale};

/// Width of a figure, and its height where the legend takes one row.
const SIZE: (u32, u32) = (720, 320);
/// Height of the title and the legend.
const HEAD: u32 = 52;
/// Height of each further row of the legend.
const ROW: u32 = 18;
const FONT: &str = "sans-serif";
/// Approximate width of a letter of the legend.
const LETTER: i32 = 7;
/// A line with more points than this is drawn thin.
const MANY: usize = 250;
/// Radius of a dot.
const DOT: i32 = 3;
/// Placeholder for the colour of text, which the page defines. No line has this colour.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_NAME: &str = "#010203";
/// Colours of Okabe and Ito. Colour-blind people can distinguish them, and they are visible on white and on black.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 130, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 90, 160),
    RGBColor(86, 180, 233),
    RGBColor(190, 70, 0),
    RGBColor(140, 140, 140),
];

/// Why a figure or the page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// A figure cannot be drawn.
    #[error("cannot draw {figure}: {reason}")]
    Figure {
        /// Name of the figure.
        figure: String,
        /// Text of the drawing library.
        reason: String,
    },
    /// The page cannot be written.
    #[error("cannot write the page: {0}")]
    Page(#[from] std::fmt::Error),
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the figure as an SVG document with colours for a light and a dark background.
///
/// # Errors
/// The figure cannot be drawn. This should not happen for any figure.
pub fn svg(figure: &Figure) -> Result<String, DrawError> {
    let mut text = String::new();
    draw(figure, &mut text)
        .map_err(|error| DrawError::Figure { figure: figure.name.clone(), reason: error.to_string() })?;
    const STYLE: &str = "<style>svg{color:#222;background:#fff}\
                         @media(prefers-color-scheme:dark){svg{color:#ddd;background:#181818}}</style>";
    let text = text.replace(INK_NAME, "currentColor");
    // The end of the opening tag.
    let head = text.find('>').map_or(0, |end| end + 1);
    let scalable =
        text[..head].replacen("<svg ", "<svg role=\"img\" style=\"max-width:100%;height:auto\" ", 1);
    Ok(format!(
        "{scalable}{STYLE}<title>{}</title>{}",
        figure.title.replace('&', "&amp;").replace('<', "&lt;"),
        &text[head..]
    ))
}

fn draw(figure: &Figure, into: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let legend = Legend::of(figure);
    let more = (legend.rows - 1) * ROW;
    let root = SVGBackend::with_string(into, (SIZE.0, SIZE.1 + more)).into_drawing_area();
    let (head, body) = root.split_vertically(HEAD + more);
    let ink = TextStyle::from((FONT, 13).into_font()).color(&INK);
    head.draw(&Text::new(figure.title.clone(), (8, 6), TextStyle::from((FONT, 15).into_font()).color(&INK)))?;
    legend.draw(&head, figure, &ink)?;
    let (x, y) = (extent(figure, 0), extent(figure, 1));
    let mut builder = ChartBuilder::on(&body);
    builder.margin(6).margin_right(18).x_label_area_size(40).y_label_area_size(64);
    match (figure.x.scale, figure.y.scale) {
        (Scale::Linear, Scale::Linear) => plot(builder.build_cartesian_2d(x.0..x.1, y.0..y.1)?, figure),
        (Scale::Logarithmic, Scale::Linear) => {
            plot(builder.build_cartesian_2d((x.0..x.1).log_scale().base(base(x)), y.0..y.1)?, figure)
        }
        (Scale::Linear, Scale::Logarithmic) => {
            plot(builder.build_cartesian_2d(x.0..x.1, (y.0..y.1).log_scale().base(base(y)))?, figure)
        }
        (Scale::Logarithmic, Scale::Logarithmic) => plot(
            builder.build_cartesian_2d(
                (x.0..x.1).log_scale().base(base(x)),
                (y.0..y.1).log_scale().base(base(y)),
            )?,
            figure,
        ),
    }?;
    root.present()?;
    Ok(())
}

/// Returns whether lines with this name are drawn for comparison.
fn is_reference(figure: &Figure, name: &str) -> bool {
    figure.lines.iter().any(|line| line.look == Look::Reference && line.name == name)
}

/// Returns the colour of a line. Lines with the same name have the same colour.
fn colour(figure: &Figure, line: &Line) -> RGBColor {
    let mut names: Vec<&str> = vec![];
    for line in figure.lines.iter().filter(|line| !is_reference(figure, &line.name)) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    names.iter().position(|name| *name == line.name).map_or(INK, |place| COLOURS[place % COLOURS.len()])
}

fn style(figure: &Figure, line: &Line) -> ShapeStyle {
    let colour = colour(figure, line);
    match line.look {
        // Many points make a band, which thick strokes would fill.
        Look::Main => colour.stroke_width(if line.points.len() > MANY { 1 } else { 2 }),
        Look::Faint => colour.mix(0.5).stroke_width(1),
        Look::Reference => colour.mix(0.8).stroke_width(1),
        Look::Band => colour.mix(0.3).filled(),
        Look::Bars | Look::Dots => colour.filled(),
    }
}

/// Returns the points of a line that can be drawn, in the pieces between its interruptions.
fn pieces<'a>(figure: &'a Figure, line: &'a Line) -> impl Iterator<Item = &'a [[f64; 2]]> {
    let least = match line.look {
        Look::Main | Look::Faint | Look::Reference => 2,
        Look::Band => 3,
        Look::Bars | Look::Dots => 1,
    };
    let shown = |point: &[f64; 2]| drawable(&figure.x, point[0]) && drawable(&figure.y, point[1]);
    line.points.split(move |point| !shown(point)).filter(move |piece| piece.len() >= least)
}

/// Returns whether two lines cover each other exactly. A dashed line may: the line below it can still be seen.
fn is_same(a: &Line, b: &Line) -> bool {
    let bits = |line: &Line| line.points.iter().map(|point| point.map(f64::to_bits)).collect::<Vec<_>>();
    a.look == b.look && matches!(a.look, Look::Main | Look::Faint) && bits(a) == bits(b)
}

/// A name in the legend, or the names of lines that are the same.
struct Entry<'a> {
    names: Vec<&'a str>,
    /// The line that is drawn.
    line: &'a Line,
}

impl Entry<'_> {
    fn text(&self) -> String {
        self.names.join(" = ")
    }
}

/// Returns the legend of the lines of which something is drawn.
fn entries(figure: &Figure) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = vec![];
    let visible = figure.lines.iter().filter(|line| pieces(figure, line).next().is_some());
    for line in visible.filter(|line| line.look != Look::Band) {
        if entries.iter().any(|entry| entry.names.contains(&line.name.as_str())) {
            continue;
        }
        match entries.iter_mut().find(|entry| is_same(entry.line, line)) {
            Some(entry) => entry.names.push(&line.name),
            None => entries.push(Entry { names: vec![&line.name], line }),
        }
    }
    entries
}

/// Where the name of each line stands: as many in a row as fit the figure's width.
struct Legend<'a> {
    /// Each entry with its left end and the middle of its row.
    places: Vec<(Entry<'a>, (i32, i32))>,
    /// At least 1.
    rows: u32,
}

impl<'a> Legend<'a> {
    const LEFT: i32 = 8;
    const FIRST_ROW: i32 = 38;
    /// Before a name: a piece of its line.
    const SAMPLE: i32 = 25;
    const BETWEEN: i32 = 20;

    fn of(figure: &'a Figure) -> Self {
        let mut legend = Self { places: vec![], rows: 1 };
        let mut x = Self::LEFT;
        for entry in entries(figure) {
            let width = Self::SAMPLE + LETTER * entry.text().chars().count() as i32;
            if x > Self::LEFT && x + width > SIZE.0 as i32 {
                legend.rows += 1;
                x = Self::LEFT;
            }
            let y = Self::FIRST_ROW + ((legend.rows - 1) * ROW) as i32;
            legend.places.push((entry, (x, y)));
            x += width + Self::BETWEEN;
        }
        legend
    }

    fn draw(
        &self,
        area: &Area<'_>,
        figure: &Figure,
        ink: &TextStyle<'_>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        for (entry, (x, y)) in &self.places {
            Self::sample(area, figure, entry.line, (*x, *y))?;
            let middle = ink.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(entry.text(), (x + Self::SAMPLE, *y), middle))?;
        }
        Ok(())
    }

    /// Draws what a line looks like.
    fn sample(
        area: &Area<'_>,
        figure: &Figure,
        line: &Line,
        (x, y): (i32, i32),
    ) -> Result<(), Box<dyn std::error::Error>> {
        let named = |band: &&Line| band.look == Look::Band && band.name == line.name;
        if let Some(band) = figure.lines.iter().find(named) {
            area.draw(&Rectangle::new([(x, y - 6), (x + 20, y + 6)], style(figure, band)))?;
        }
        match line.look {
            Look::Dots => area.draw(&Circle::new((x + 10, y), DOT, style(figure, line)))?,
            Look::Bars => {
                area.draw(&Rectangle::new([(x + 5, y - 6), (x + 15, y + 6)], style(figure, line)))?
            }
            Look::Reference => {
                for ends in [[0, 7], [13, 20]] {
                    let points = ends.map(|end| (x + end, y)).to_vec();
                    area.draw(&PathElement::new(points, style(figure, line)))?;
                }
            }
            Look::Main | Look::Faint | Look::Band => {
                let stroke = colour(figure, line).stroke_width(2);
                area.draw(&PathElement::new(vec![(x, y), (x + 20, y)], stroke))?;
            }
        }
        Ok(())
    }
}

/// Returns whether a value can be drawn on an axis.
fn drawable(axis: &Axis, value: f64) -> bool {
    value.is_finite() && (axis.scale == Scale::Linear || value > 0.0)
}

fn axis(figure: &Figure, dimension: usize) -> &Axis {
    if dimension == 0 { &figure.x } else { &figure.y }
}

/// Returns the base of a logarithmic axis. It has labels at powers of ten, or at powers of two if there were only
/// one or two labels otherwise.
fn base((low, high): (f64, f64)) -> f64 {
    if high < 100.0 * low { 2.0 } else { 10.0 }
}

/// Returns the width of a bar: most of the smallest distance between two.
fn bar_width(figure: &Figure) -> Option<f64> {
    let bars = figure.lines.iter().filter(|line| line.look == Look::Bars);
    let mut xs: Vec<f64> = bars.flat_map(|line| &line.points).map(|point| point[0]).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let nearest = xs.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min);
    (!xs.is_empty()).then(|| 0.8 * nearest.unwrap_or(1.0))
}

/// Returns the range of a dimension. A linear y axis begins at zero, so that heights can be compared, unless the figure
/// asks for the range of its values.
fn extent(figure: &Figure, dimension: usize) -> (f64, f64) {
    let axis = axis(figure, dimension);
    let points = figure.lines.iter().flat_map(|line| &line.points).map(|point| point[dimension]);
    let values = || points.clone().filter(|value| drawable(axis, *value));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    match (low <= high, axis.scale, dimension) {
        (false, Scale::Linear, _) => (0.0, 1.0),
        (false, Scale::Logarithmic, _) => (0.1, 10.0),
        // A range of less than two octaves would have at most one label.
        (true, Scale::Logarithmic, _) if high < 4.0 * low => {
            let octave = 2f64.powf(low.log2().floor());
            (octave, if high < 4.0 * octave { 4.0 * octave } else { 8.0 * octave })
        }
        (true, Scale::Logarithmic, _) => (low / 1.2, high * 1.2),
        (true, Scale::Linear, 0) => match bar_width(figure) {
            Some(width) => (low - width, high + width),
            None => {
                // A time axis begins at 0, even if the first sample is a little later.
                let low = if low > 0.0 && low < high / 10.0 { 0.0 } else { low };
                (low, if high > low { high } else { low + 1.0 })
            }
        },
        (true, Scale::Linear, _) if !axis.from_zero && high > low => {
            let margin = 0.06 * (high - low);
            (low - margin, high + margin)
        }
        (true, Scale::Linear, _) if low == 0.0 && high == 0.0 => (0.0, 1.0),
        (true, Scale::Linear, _) => (low.min(0.0) * 1.06, high.max(0.0) * 1.06),
    }
}

fn plot<X, Y>(
    mut chart: ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    figure: &Figure,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let ink = |size: i32| TextStyle::from((FONT, size).into_font()).color(&INK);
    chart
        .configure_mesh()
        .bold_line_style(INK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(INK.mix(0.6))
        .label_style(ink(12))
        .axis_desc_style(ink(13))
        .x_labels(9)
        .y_labels(7)
        .x_label_formatter(&|value| label(*value, figure, 0))
        .y_label_formatter(&|value| label(*value, figure, 1))
        .x_desc(figure.x.label.clone())
        .y_desc(figure.y.label.clone())
        .draw()?;
    let (half, bottom) = (bar_width(figure).unwrap_or_default() / 2.0, extent(figure, 1).0.max(0.0));
    for (number, line) in figure.lines.iter().enumerate() {
        // Drawn already: its name is in the legend of the other.
        if figure.lines[..number].iter().any(|earlier| is_same(earlier, line)) {
            continue;
        }
        let style = style(figure, line);
        for piece in pieces(figure, line) {
            let points = piece.iter().map(|[x, y]| (*x, *y));
            match line.look {
                Look::Main | Look::Faint => chart.draw_series(LineSeries::new(points, style)).map(drop),
                Look::Reference => chart.draw_series(DashedLineSeries::new(points, 6, 5, style)).map(drop),
                Look::Band => chart.draw_series([Polygon::new(points.collect::<Vec<_>>(), style)]).map(drop),
                Look::Dots => chart.draw_series(points.map(|point| Circle::new(point, DOT, style))).map(drop),
                Look::Bars => {
                    let bar = |(x, y)| Rectangle::new([(x - half, bottom), (x + half, y)], style);
                    chart.draw_series(points.map(bar)).map(drop)
                }
            }?;
        }
    }
    Ok(())
}

/// Returns the label of a place on an axis. On a linear one, places are sums of steps: what is left of them at 0 is not a
/// value.
fn label(value: f64, figure: &Figure, dimension: usize) -> String {
    let (low, high) = extent(figure, dimension);
    let is_zero = axis(figure, dimension).scale == Scale::Linear && value.abs() < 1e-9 * (high - low);
    number(if is_zero { 0.0 } else { value })
}

/// Returns a number as a short text.
pub fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => return "0".to_owned(),
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        0.000_1.. => format!("{value:.5}"),
        _ => return format!("{value:.1e}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (25.0, "25"),
            (0.5, "0.5"),
            (0.123_4, "0.123"),
            (1234.5, "1234"),
            (-2.5, "-2.5"),
            (0.000_03, "3.0e-5"),
            (99.999, "100"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_label_of_zero_is_zero() {
        let figure = Figure::new("f", "F", "x", "y").line(Look::Main, "a", vec![[0.1, -0.03], [1e12, 0.0]]);
        assert_eq!([3.5e-18, -0.005].map(|value| label(value, &figure, 1)), ["0", "-0.005"]);
        assert_eq!(label(0.1, &figure.log_x(), 0), "0.1", "small, but not what is left of a sum");
    }

    #[test]
    fn a_figure_takes_its_ink_from_the_page_and_says_what_it_shows() {
        let figure = Figure::new("f", "Delay & <more>", "time (us)", "delay (us)")
            .line(Look::Main, "flow 1", vec![[1.0, 1.0], [2.0, 2.0]])
            .lines(Look::Faint, "others", [vec![[1.0, 3.0], [2.0, 3.0]], vec![[1.0, 4.0], [2.0, 4.0]]])
            .level("target", 2.5);
        for figure in [figure.clone(), figure.clone().log_x(), figure.clone().log_y(), figure.log_x().log_y()]
        {
            let svg = svg(&figure).expect("can be drawn");
            assert!(svg.contains("currentColor") && !svg.contains(INK_NAME));
            for text in ["flow 1", "others", "target", "time (us)", "delay (us)", "Delay &amp; &lt;more&gt;"]
            {
                assert!(svg.contains(text), "{text}");
            }
            assert_eq!(svg.matches("others").count(), 1, "once in the legend");
        }
    }

    #[test]
    fn a_long_legend_takes_several_rows_within_the_figure() {
        let names = [
            "SEND received",
            "WRITE received",
            "READ request received",
            "BACK received",
            "service without packet",
        ];
        let mut figure = Figure::new("f", "F", "x", "y");
        for (number, name) in names.into_iter().enumerate() {
            figure = figure.line(Look::Main, name, vec![[0.0, 1.0], [1.0, number as f64]]);
        }
        let legend = Legend::of(&figure);
        assert_eq!((legend.places.len(), legend.rows), (names.len(), 2));
        for (entry, (x, _)) in &legend.places {
            let end = x + Legend::SAMPLE + LETTER * entry.text().len() as i32;
            assert!(end <= SIZE.0 as i32, "{} ends at {end}", entry.text());
        }
        assert!(svg(&figure).expect("can be drawn").contains("height=\"338\""));
        let single =
            Figure::new("f", "F", "x", "y").line(Look::Main, "w".repeat(200), vec![[0.0, 1.0], [1.0, 1.0]]);
        assert_eq!(Legend::of(&single).rows, 1, "a name alone in its row stays there");
    }

    #[test]
    fn the_legend_names_only_what_is_drawn() {
        let figure = Figure::new("f", "F", "x", "y")
            .level("a level over no lines", 1.0)
            .line(Look::Main, "a", vec![[0.0, 1.0], [1.0, 2.0]])
            .line(Look::Main, "a single point", vec![[0.0, 1.0]])
            .line(Look::Main, "gaps", vec![[0.0, f64::NAN], [1.0, f64::NAN]])
            .line(Look::Dots, "dots", vec![[0.5, 2.0]])
            .spread("many", [vec![[0.0, 3.0], [1.0, 5.0]], vec![[0.0, 4.0], [1.0, 6.0]]]);
        let texts: Vec<_> = entries(&figure).iter().map(Entry::text).collect();
        assert_eq!(texts, ["a", "dots", "many: median, and 10 to 90 %"]);
        let texts: Vec<_> = entries(&figure.log_y()).iter().map(Entry::text).collect();
        assert_eq!(texts.len(), 3);
    }

    #[test]
    fn lines_that_are_the_same_are_drawn_once_under_all_their_names() {
        let (one, other) = (vec![[0.0, 1.0], [1.0, 2.0]], vec![[0.0, 1.0], [1.0, 2.5]]);
        let figure = Figure::new("f", "F", "x", "y")
            .line(Look::Main, "a", one.clone())
            .line(Look::Main, "b", other)
            .line(Look::Main, "c", one.clone())
            .line(Look::Reference, "dashed", one.clone());
        let texts: Vec<_> = entries(&figure).iter().map(Entry::text).collect();
        assert_eq!(texts, ["a = c", "b", "dashed"]);
        let colour_of_c = format!("#{:02X}{:02X}{:02X}", COLOURS[2].0, COLOURS[2].1, COLOURS[2].2);
        assert!(!svg(&figure).expect("can be drawn").contains(&colour_of_c));
    }

    #[test]
    fn an_axis_begins_at_zero_or_near_the_values() {
        let figure =
            |low, high| Figure::new("f", "F", "x", "y").line(Look::Main, "a", vec![[0.0, low], [1.0, high]]);
        let near = |low, high| figure(low, high).y_near_values();
        let cases = [
            (figure(400.0, 500.0), (0.0, 530.0)),
            (near(400.0, 500.0), (394.0, 506.0)),
            (figure(-2.0, -1.0), (-2.12, 0.0)),
            (figure(-2.0, 3.0), (-2.12, 3.18)),
            (figure(0.0, 0.0), (0.0, 1.0)),
            // Values without a range have none to show.
            (near(5.0, 5.0), (0.0, 5.3)),
        ];
        for (figure, (low, high)) in cases {
            let (from, to) = extent(&figure, 1);
            assert!(
                (from - low).abs() < 1e-9 && (to - high).abs() < 1e-9,
                "{from} to {to}, not {low} to {high}"
            );
        }
    }

    #[test]
    fn every_bar_has_its_place_within_the_figure() {
        let bars =
            Figure::new("f", "F", "x", "y").line(Look::Bars, "a", vec![[1.0, 5.0], [2.0, 0.0], [3.0, 2.0]]);
        assert_eq!(bar_width(&bars), Some(0.8));
        let (low, high) = extent(&bars, 0);
        assert!(low < 1.0 - 0.4 && high > 3.0 + 0.4);
        // The sample of the legend, and one for each value.
        assert_eq!(svg(&bars).expect("can be drawn").matches("<rect").count(), 1 + 3);
        let lines = Figure::new("f", "F", "x", "y").line(Look::Main, "a", vec![[1.0, 5.0], [2.0, 0.0]]);
        assert_eq!(bar_width(&lines), None);
    }

    #[test]
    fn a_band_has_the_colour_of_its_line() {
        let edge = |y| vec![[0.0, y], [1.0, y]];
        let figure = Figure::new("f", "F", "x", "y")
            .band("Tonic", edge(1.0), edge(3.0))
            .band("reference", edge(1.5), edge(3.5))
            .line(Look::Main, "Tonic", edge(2.0))
            .line(Look::Reference, "reference", edge(2.5));
        let colours: Vec<_> = figure.lines.iter().map(|line| colour(&figure, line)).collect();
        assert_eq!(colours, [COLOURS[0], INK, COLOURS[0], INK]);
        assert_eq!(svg(&figure).expect("can be drawn").matches("<polygon").count(), 2);
        assert_eq!(entries(&figure).len(), 2);
    }

    #[test]
    fn a_logarithmic_axis_has_several_labels() {
        for (low, high, labels) in
            [(23.0, 33.0, ["16", "32"]), (3.0, 30.0, ["4", "16"]), (0.02, 40.0, ["0.1", "10"])]
        {
            let figure = Figure::new("f", "F", "x", "y").line(Look::Main, "a", vec![[1.0, low], [2.0, high]]);
            let svg = svg(&figure.log_y()).expect("can be drawn");
            for label in labels {
                assert!(svg.contains(&format!("\n{label}\n")), "{low} to {high}: {label}");
            }
        }
    }

    #[test]
    fn nothing_to_show_is_shown() {
        let empty = Figure::new("f", "F", "x", "y").level("nothing", 1.0);
        assert!(svg(&empty).is_ok());
        let figure = Figure::new("f", "F", "x", "y").line(Look::Main, "a", vec![[1.0, f64::NAN], [2.0, 0.0]]);
        assert!(svg(&figure.clone()).is_ok() && svg(&figure.log_y()).is_ok());
    }
}
