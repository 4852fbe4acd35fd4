//! A ULP that takes data more slowly than they arrive.

use anyhow::Result;
use datacentre::SlowUlp;
use fabric_model::{ByteCount, Egress, Port, Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, mean};
use transport_common::connection::DATA_WINDOW;

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{TIME, mean_window_and_delay, millis};
use crate::setup::{self, Results, SEGMENT, in_both};
use crate::world::{End, Flow, World};

/// Number of levels of a buffer's occupancy in reports (F-10.2-3), and Swift's target level (D-78).
const LEVELS: f64 = 32.0;
const TARGET_LEVEL: f64 = 15.0;
/// The host with the slow ULP.
const SLOW: u16 = 1;

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let units = Units::of(kind);
    let duration = pick(kind, Span::from_millis(20), Span::from_millis(10_000));
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    // The ULP takes a fraction of the arriving data.
    let rate = setup::part(options.rate(), pick(kind, 4, 2))?;
    // A live connection holds so many requests for its ULP.
    let buffer = pick(kind, ByteCount(512 << 10), ByteCount(u64::from(DATA_WINDOW) * SEGMENT));
    let mut described = setup::star(options, kind, 2, None)?;
    described.slow_ulp = Some((SLOW, SlowUlp { rate, buffer }));
    described.flows = vec![Flow::endless([0, SLOW], Time::ZERO, options.tuning()?)];
    described.watch = vec![Egress::Host(Port(SLOW))];
    described.sample_every = pick(kind, Span::from_micros(10), Span::from_millis(5));
    described.marks = vec![half];
    described.end = End::At(end);
    let run = world.run("NIC congestion", described)?;

    let [early, late] = [&run.marks[1], run.end()];
    let steady = run.samples(0, half, end);
    let goodput = run.goodput(0, half, end);
    let possible = units.rate(setup::full_rate(rate));
    let levels = run.kibibytes(&run.record.buffers[0]).into_iter();
    let levels: Vec<[f64; 2]> =
        levels.map(|[time, kib]| [time, kib * 1024.0 * LEVELS / buffer.0 as f64]).collect();
    let in_steady = levels.iter().filter(|point| point[0] >= millis(half)).map(|point| point[1]);
    let case = Case::new("steady state")
        .with("goodput", goodput, units.rate)
        .with("ULP utilisation", goodput.map(|goodput| goodput / possible * 100.0), "%")
        .with("receive buffer", mean(in_steady), "levels of 32")
        .with("receive buffer at most", late.buffer_peak as f64 / 1024.0, "KiB")
        .with("overflows at first", early.overflowed as f64, "packets")
        .with("overflows", (late.overflowed - early.overflowed) as f64, "packets")
        .with("ncwnd", mean(steady.iter().map(|sample| sample.ncwnd.into())), "packets")
        .with("fcwnd", mean_window_and_delay(steady).0, "packets");
    let case = run.with_machine(case);
    let verdicts = vec![
        Verdict::of(&case, "ULP utilisation", Bound::AtLeast(95.0)),
        Verdict::of(&case, "overflows", Bound::AtMost(0.0)),
    ];
    let figures = vec![
        Figure::new("windows", "Windows", TIME, "window (packets)")
            .line(Look::Main, "ncwnd", run.ncwnd_line(0))
            .line(Look::Main, "fcwnd", run.fcwnd_line(0)),
        Figure::new("buffer", "Receive buffer", TIME, "level (of 32)")
            .line(Look::Main, "level", levels)
            .level("target level", TARGET_LEVEL),
        Figure::new("goodput", "Goodput", TIME, &units.goodput_axis())
            .line(Look::Main, "goodput", run.goodput_line(0, 10))
            .level("what the ULP takes", possible),
        Figure::new("delay", "Fabric delay", TIME, units.delay_axis).line(
            Look::Main,
            "fabric delay",
            run.delay_line(0),
        ),
    ];
    let description = format!(
        "One flow at {} goes to a host whose ULP takes {rate}. The rest waits in a receive buffer of {buffer}. \
             Acknowledgements report its level. The second half of {duration} counts as steady state.",
        options.rate()
    );
    let results = Results { cases: vec![case], verdicts, figures };
    Ok(results.report(options, kind, in_both!("nic-congestion", "A slow ULP"), description))
}
