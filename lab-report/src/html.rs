//! Writes the report as one HTML page without external files.

use std::fmt::Write;

use crate::plot::{self, DrawError};
use crate::result::{Experiment, Report, Verdict};
use crate::rows::{Rows, bound, measured, runs};

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Tiercel: experiments</title>
<style>
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #c62828; }
@media (prefers-color-scheme: dark) { :root { --good: #4cc26a; --bad: #ff7b72; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1500px; padding: 0 1em;
       color: #222; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } }
table { border-collapse: collapse; margin: .6em 0; }
th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(560px, 1fr)); gap: 1em; }
.settings { opacity: .8; }
section { margin-top: 3em; border-top: 2px solid var(--line); }
</style>
</head>
<body>
<h1>Experiments</h1>
";

/// Returns the page.
///
/// # Errors
/// A figure cannot be drawn.
pub fn page(report: &Report) -> Result<String, DrawError> {
    let mut page = HEAD.to_owned();
    summary(&mut page, report)?;
    for experiment in &report.experiments {
        section(&mut page, experiment)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn summary(page: &mut String, report: &Report) -> Result<(), DrawError> {
    writeln!(page, "<table><tr><th>experiment</th><th>congestion control</th><th>promises kept</th></tr>")?;
    for experiment in &report.experiments {
        let kept = experiment.verdicts.iter().filter(|verdict| verdict.holds).count();
        let all = experiment.verdicts.len();
        let class = if kept == all { "good" } else { "bad" };
        writeln!(
            page,
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td class=\"{class}\">{kept} of {all}</td></tr>",
            experiment.name,
            escape(experiment.title),
            escape(experiment.congestion_control.as_deref().unwrap_or_default())
        )?;
    }
    writeln!(page, "</table>")?;
    Ok(())
}

fn section(page: &mut String, experiment: &Experiment) -> Result<(), DrawError> {
    writeln!(page, "<section id=\"{}\">\n<h2>{}</h2>", experiment.name, escape(experiment.title))?;
    writeln!(page, "<p>{}</p>", escape(&experiment.description))?;
    let settings = experiment.settings.iter().map(|(name, value)| format!("{name}: {}", escape(value)));
    let control = experiment.congestion_control.as_ref();
    let control = control.map(|algorithm| format!("congestion control: {}", escape(algorithm)));
    let seed = [format!("seed: {}", experiment.seed)];
    let settings: Vec<String> = control.into_iter().chain(seed).chain(settings).collect();
    writeln!(page, "<p class=\"settings\">{}</p>", settings.join("; "))?;
    verdicts(page, &experiment.verdicts)?;
    cases(page, experiment)?;
    writeln!(page, "<div class=\"figures\">")?;
    for figure in &experiment.figures {
        writeln!(page, "<figure style=\"margin:0\">{}</figure>", plot::svg(figure)?)?;
    }
    writeln!(page, "</div>\n</section>")?;
    Ok(())
}

fn verdicts(page: &mut String, verdicts: &[Verdict]) -> Result<(), DrawError> {
    if verdicts.is_empty() {
        return Ok(());
    }
    writeln!(page, "<table><tr><th>promise</th><th>measured</th><th>bound</th><th></th></tr>")?;
    for verdict in verdicts {
        let (class, word) = if verdict.holds { ("good", "kept") } else { ("bad", "not kept") };
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>",
            escape(&verdict.name),
            measured(verdict),
            bound(verdict.bound, verdict.unit)
        )?;
    }
    writeln!(page, "</table>")?;
    Ok(())
}

fn cases(page: &mut String, experiment: &Experiment) -> Result<(), DrawError> {
    if experiment.cases.is_empty() {
        return Ok(());
    }
    // The unit goes below the name.
    let Rows { header, rows } = runs(experiment, "case", |name, unit| format!("{name}\n({unit})"));
    let row = |tag: &str, cells: &[String]| {
        let text = |cell: &String| escape(cell).replace('\n', "<br>");
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>\n", text(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(|cells| row("td", cells)).collect();
    writeln!(page, "<div class=\"wide\"><table>{}{rows}</table></div>", row("th", &header))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Figure, Look};
    use crate::result::{Bound, Case, World};

    #[test]
    fn the_page_holds_everything_and_fetches_nothing() {
        let case = Case::new("two < three").with("goodput", 12.5, "Gb/s").with("loss", None, "%");
        let verdict = Verdict::of(&case, "goodput", Bound::AtLeast(20.0));
        let line = vec![[0.0, 1.0], [1.0, 2.0]];
        let experiment = Experiment {
            name: "name",
            title: "Title",
            description: "What was done.".to_owned(),
            world: World::Simulation,
            seed: 7,
            congestion_control: Some("fixed".to_owned()),
            settings: [("rate", "100Gbps".to_owned())].into(),
            cases: vec![case],
            verdicts: vec![verdict, Verdict::claim("it is so", true)],
            details: serde_json::Value::Null,
            figures: vec![Figure::new("f", "A figure", "x", "y").line(Look::Main, "a", line)],
        };
        let page = page(&Report::new(vec![experiment])).expect("can be drawn");
        let expected = [
            "<tr><th>case</th>\n<th>goodput<br>(Gb/s)</th>\n<th>loss<br>(%)</th>\n</tr>\n",
            "<tr><td>two &lt; three</td>\n<td>12.5</td>\n<td></td>\n</tr>\n</table></div>\n",
            "12.5 Gb/s",
            "at least 20 Gb/s",
            "not kept",
            "1 of 2",
            "A figure",
            "rate: 100Gbps",
            "congestion control: fixed",
            "it is so",
        ];
        for text in expected {
            assert!(page.contains(text), "{text}");
        }
        for outside in ["src=", "<link", "@import", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
