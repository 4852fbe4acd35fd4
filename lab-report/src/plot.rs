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

/// Returns the colour of a line. Lines with the same name have the same colour.
fn colour(figure: &Figure, line: &Line) -> RGBColor {
    let mut names: Vec<&str> = vec![];
    for line in figure.lines.iter().filter(|line| line.look != Look::Reference) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    match names.iter().position(|name| *name == line.name) {
        Some(place) if line.look != Look::Reference => COLOURS[place % COLOURS.len()],
        _ => INK,
    }
}

fn style(figure: &Figure, line: &Line) -> ShapeStyle {
    let colour = colour(figure, line);
    match line.look {
        // Many points make a band, which thick strokes would fill.
        Look::Main => colour.stroke_width(if line.points.len() > MANY { 1 } else { 2 }),
        Look::Faint => colour.mix(0.5).stroke_width(1),
        Look::Reference => colour.mix(0.8).stroke_width(1),
    }
}

/// Where the name of each line stands: as many in a row as fit the figure's width.
struct Legend<'a> {
    /// Each name once, with its left end and the middle of its row.
    places: Vec<(&'a Line, (i32, i32))>,
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
        for line in &figure.lines {
            if legend.places.iter().any(|(known, _)| known.name == line.name) {
                continue;
            }
            let width = Self::SAMPLE + LETTER * line.name.chars().count() as i32;
            if x > Self::LEFT && x + width > SIZE.0 as i32 {
                legend.rows += 1;
                x = Self::LEFT;
            }
            let y = Self::FIRST_ROW + ((legend.rows - 1) * ROW) as i32;
            legend.places.push((line, (x, y)));
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
        for (line, (x, y)) in &self.places {
            let reference = line.look == Look::Reference;
            let stroke = if reference { style(figure, line) } else { colour(figure, line).stroke_width(2) };
            let ends: &[i32] = if reference { &[0, 7, 13, 20] } else { &[0, 20] };
            for piece in ends.chunks(2) {
                let points: Vec<(i32, i32)> = piece.iter().map(|end| (x + end, *y)).collect();
                area.draw(&PathElement::new(points, stroke))?;
            }
            let middle = ink.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(line.name.clone(), (x + Self::SAMPLE, *y), middle))?;
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

/// Returns the range of a dimension. A linear y axis begins at zero, so that heights can be compared.
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
        (true, Scale::Linear, 0) => {
            // A time axis begins at 0, even if the first sample is a little later.
            let low = if low > 0.0 && low < high / 10.0 { 0.0 } else { low };
            (low, if high > low { high } else { low + 1.0 })
        }
        (true, Scale::Linear, _) => {
            let high = if high > 0.0 { high * 1.06 } else { 1.0 };
            (low.min(0.0), high)
        }
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
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .x_desc(figure.x.label.clone())
        .y_desc(figure.y.label.clone())
        .draw()?;
    for line in &figure.lines {
        let style = style(figure, line);
        let shown = |point: &[f64; 2]| drawable(&figure.x, point[0]) && drawable(&figure.y, point[1]);
        for piece in line.points.split(|point| !shown(point)).filter(|piece| piece.len() > 1) {
            let points = piece.iter().map(|[x, y]| (*x, *y));
            if line.look == Look::Reference {
                chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
    }
    Ok(())
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
    fn a_figure_takes_its_ink_from_the_page_and_says_what_it_shows() {
        let figure = Figure::new("f", "Delay & <more>", "time (us)", "delay (us)")
            .line(Look::Main, "flow 1", vec![[0.0, 1.0], [1.0, 2.0]])
            .lines(Look::Faint, "others", [vec![[0.0, 3.0]], vec![[1.0, 4.0]]])
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
        for name in names {
            figure = figure.line(Look::Main, name, vec![[0.0, 1.0], [1.0, 2.0]]);
        }
        let legend = Legend::of(&figure);
        assert_eq!((legend.places.len(), legend.rows), (names.len(), 2));
        for (line, (x, _)) in &legend.places {
            let end = x + Legend::SAMPLE + LETTER * line.name.len() as i32;
            assert!(end <= SIZE.0 as i32, "{} ends at {end}", line.name);
        }
        assert!(svg(&figure).expect("can be drawn").contains("height=\"338\""));
        let single = Figure::new("f", "F", "x", "y").line(Look::Main, "w".repeat(200), vec![[0.0, 1.0]]);
        assert_eq!(Legend::of(&single).rows, 1, "a name alone in its row stays there");
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
