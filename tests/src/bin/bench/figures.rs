//! The figures, and what they are compared with. The names are those of the JSON report and do not change.

/// Bytes of a small operation.
pub(crate) const SMALL: u32 = 64;
/// Bytes of a large operation.
pub(crate) const MESSAGE: u32 = 1 << 20;

/// How a figure is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// As many small operations as possible: million operations per second.
    Rate,
    /// As many large operations as possible: gigabits of user data per second.
    Throughput,
    /// One small operation at a time: microseconds until the application sees it complete, median.
    Latency,
}

impl Measure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Rate => "M/s",
            Self::Throughput => "Gb/s",
            Self::Latency => "us",
        }
    }

    /// Returns whether a measured value is at least as good as the target.
    pub(crate) fn meets(self, value: f64, target: f64) -> bool {
        if self == Self::Latency { value <= target } else { value >= target }
    }
}

/// The work of the raw engine, see `layout::kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawVerb {
    Bounce,
    Place,
    Fetch,
}

/// A figure of the raw limit.
#[derive(Debug)]
pub(crate) struct RawFigure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: Measure,
    pub(crate) verb: RawVerb,
}

/// All figures of the raw limit.
pub(crate) const RAW: [RawFigure; 4] = [
    raw("bounce_64_rate", "64 B there and back", Measure::Rate, RawVerb::Bounce),
    raw("bounce_64_latency", "64 B there and back", Measure::Latency, RawVerb::Bounce),
    raw("place_throughput", "3264 B copied out, there, copied in", Measure::Throughput, RawVerb::Place),
    raw("fetch_throughput", "3264 B asked for, back, copied in", Measure::Throughput, RawVerb::Fetch),
];

const fn raw(name: &'static str, title: &'static str, measure: Measure, verb: RawVerb) -> RawFigure {
    RawFigure { name, title, measure, verb }
}

/// The operation of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Write,
    Read,
    Send,
    FetchAdd,
}

impl Operation {
    /// Returns the raw operation that moves the same amount of data in the same direction.
    fn raw(self, measure: Measure) -> RawVerb {
        match (measure, self) {
            (Measure::Rate | Measure::Latency, _) => RawVerb::Bounce,
            (Measure::Throughput, Self::Read) => RawVerb::Fetch,
            (Measure::Throughput, _) => RawVerb::Place,
        }
    }
}

/// A figure of Tiercel.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: Measure,
    pub(crate) operation: Operation,
    /// The target, in the measure's unit.
    pub(crate) target: Option<f64>,
    /// The target of a latency's p99, microseconds.
    pub(crate) p99_target: Option<f64>,
}

impl Figure {
    const fn with_p99(self, target: f64) -> Self {
        Self { p99_target: Some(target), ..self }
    }

    /// Returns the index in [`RAW`] of the figure with which it is compared.
    pub(crate) fn limit(&self) -> usize {
        let verb = self.operation.raw(self.measure);
        RAW.iter()
            .position(|raw| (raw.measure, raw.verb) == (self.measure, verb))
            .expect("each figure has its raw limit")
    }
}

/// A figure of what a program would use in place of Tiercel, on the same cable.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: Measure,
    /// The figure of Tiercel that does the same for an application.
    pub(crate) instead_of: &'static str,
}

/// Target for the p99 of an operation whose answer the peer's engine has no part in, microseconds. A wake-up of that
/// engine on the way takes 30 to 50 us.
const P99: f64 = 10.0;

/// All figures of Tiercel.
pub(crate) const FIGURES: [Figure; 11] = [
    figure("write_64_rate", "64 B WRITE", Measure::Rate, Operation::Write, Some(1.0)),
    figure("read_64_rate", "64 B READ", Measure::Rate, Operation::Read, None),
    figure("send_64_rate", "64 B SEND", Measure::Rate, Operation::Send, None),
    figure("fetch_add_rate", "fetch-add", Measure::Rate, Operation::FetchAdd, None),
    figure("write_1mib_throughput", "1 MiB WRITE", Measure::Throughput, Operation::Write, Some(10.0)),
    figure("read_1mib_throughput", "1 MiB READ", Measure::Throughput, Operation::Read, None),
    figure("send_1mib_throughput", "1 MiB SEND", Measure::Throughput, Operation::Send, None),
    figure("write_64_latency", "64 B WRITE", Measure::Latency, Operation::Write, None),
    figure("read_64_latency", "64 B READ", Measure::Latency, Operation::Read, Some(3.0)).with_p99(P99),
    figure("send_64_latency", "64 B SEND", Measure::Latency, Operation::Send, None),
    figure("fetch_add_latency", "fetch-add", Measure::Latency, Operation::FetchAdd, None).with_p99(P99),
];

const fn figure(
    name: &'static str,
    title: &'static str,
    measure: Measure,
    operation: Operation,
    target: Option<f64>,
) -> Figure {
    Figure { name, title, measure, operation, target, p99_target: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_figure_has_a_name_of_its_own_and_a_limit_in_its_unit() {
        let names: HashSet<_> = FIGURES.iter().map(|f| f.name).chain(RAW.iter().map(|f| f.name)).collect();
        assert_eq!(names.len(), FIGURES.len() + RAW.len());
        for figure in &FIGURES {
            assert_eq!(RAW[figure.limit()].measure, figure.measure, "{}", figure.name);
        }
        let limit = |name| RAW[FIGURES.iter().find(|f| f.name == name).expect("there").limit()].name;
        assert_eq!(limit("read_64_latency"), "bounce_64_latency");
        assert_eq!(limit("write_1mib_throughput"), "place_throughput");
        assert_eq!(limit("read_1mib_throughput"), "fetch_throughput");
    }

    #[test]
    fn a_latency_meets_its_target_from_below() {
        assert!(Measure::Latency.meets(2.9, 3.0) && !Measure::Latency.meets(3.1, 3.0));
        let with_p99 = FIGURES.iter().filter(|figure| figure.p99_target.is_some());
        let names: Vec<_> =
            with_p99.inspect(|f| assert_eq!(f.measure, Measure::Latency)).map(|f| f.name).collect();
        assert_eq!(names, ["read_64_latency", "fetch_add_latency"]);
        assert!(Measure::Rate.meets(1.0, 1.0) && !Measure::Throughput.meets(9.9, 10.0));
    }
}
