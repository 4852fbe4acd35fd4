//! What happens to the paths of the experiment with failing paths, and when goodput is back.

use anyhow::{Context, Result};
use fabric_model::{Impairments, Rate};
use lab_report::{Figure, Look};

/// Paths between the hosts.
pub(crate) const PATHS: u16 = 4;
/// The goodput is back at this part of the goodput before the failure.
pub(crate) const BACK: f64 = 0.9;
/// Round trips over which goodput is measured.
pub(crate) const WINDOW: f64 = 3.0;

/// What happens to paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first path is cut.
    Cut,
    /// The first path loses packets.
    Lossy,
    /// The first path has a tenth of its rate.
    Slow,
    /// The first three paths suffer one each.
    Three,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Cut, Self::Lossy, Self::Slow, Self::Three];

    /// Returns a name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Lossy => "10 % loss",
            Self::Slow => "a tenth of the rate",
            Self::Three => "cut, loss and slow",
        }
    }

    /// Returns the cables that suffer, and what each does.
    pub(crate) fn cables(self) -> Vec<(u16, Self)> {
        match self {
            Self::Three => (0..).zip([Self::Cut, Self::Lossy, Self::Slow]).collect(),
            one => vec![(0, one)],
        }
    }

    /// Returns the impairments of a cable that suffers; none if it is cut.
    pub(crate) fn impaired(self, link: &Impairments) -> Result<Option<Impairments>> {
        let link = link.clone();
        Ok(match self {
            Self::Cut | Self::Three => None,
            Self::Lossy => {
                let more: Impairments = "loss=10%".parse()?;
                Some(Impairments { loss: more.loss, ..link })
            }
            Self::Slow => {
                let rate = link.rate.context("the cable has a rate")?.bits_per_second() / 10;
                Some(Impairments { rate: Rate::from_bits_per_second(rate), ..link })
            }
        })
    }
}

/// Returns the round trips from the failure until the end of the first window in which the goodput was back. `course`
/// has the goodput of one window for each sample, as a part of the goodput before the failure. 0: it never fell.
pub(crate) fn time_back(course: &[f64], samples: f64) -> f64 {
    let Some(fell) = course.iter().position(|part| *part < BACK) else { return 0.0 };
    let back = course[fell..].iter().position(|part| *part >= BACK);
    back.map_or(f64::INFINITY, |after| (fell + after) as f64 / samples + WINDOW)
}

/// Returns the figure of the goodput after a failure. Each line has a name and the parts of the goodput before.
pub(crate) fn figure(fault: Fault, lines: Vec<(&str, Vec<[f64; 2]>)>) -> Figure {
    let file = fault.name().replace(" %", "-percent").replace([',', ' '], "-").replace("--", "-");
    let title = format!("Goodput after a failure: {}", fault.name());
    let empty = Figure::new(file, title, "round trips since the failure", "goodput (% of before)");
    let drawn = |figure: Figure, (name, points)| figure.line(Look::Main, name, points);
    // The level is as wide as the lines that are there.
    lines.into_iter().fold(empty, drawn).level("back", BACK * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_failure_to_the_end_of_the_window() {
        assert_eq!(time_back(&[1.0, 0.95, 0.9], 4.0), 0.0, "it never fell below");
        assert_eq!(time_back(&[1.0, 0.5, 0.2, 0.7, 0.9, 0.4], 4.0), 1.0 + WINDOW);
        assert_eq!(time_back(&[0.5, 0.89], 4.0), f64::INFINITY);
    }

    #[test]
    fn the_level_at_which_goodput_is_back_is_as_wide_as_the_lines() {
        let figure = figure(Fault::Cut, vec![("a", vec![[3.0, 50.0], [99.0, 100.0]])]);
        assert_eq!(figure.lines[1].points, [[3.0, BACK * 100.0], [99.0, BACK * 100.0]]);
    }

    #[test]
    fn each_fault_changes_what_it_says() {
        let link: Impairments = "rate=1Gbps,delay=1ms".parse().expect("valid");
        let impaired = |fault: Fault| fault.impaired(&link).expect("has a rate").map(|link| link.to_string());
        assert_eq!(impaired(Fault::Cut), None);
        assert_eq!(impaired(Fault::Lossy).as_deref(), Some("loss=10%,delay=1ms,rate=1Gbps"));
        assert_eq!(impaired(Fault::Slow).as_deref(), Some("delay=1ms,rate=100Mbps"));
        assert_eq!(Fault::Three.cables(), [(0, Fault::Cut), (1, Fault::Lossy), (2, Fault::Slow)]);
    }
}
