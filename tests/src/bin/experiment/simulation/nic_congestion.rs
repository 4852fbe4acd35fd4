//! A ULP that takes data more slowly than they arrive.

use anyhow::Result;
use datacentre::{DataCentre, HostModel, SlowUlp};
use fabric_model::{ByteCount, Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, mean};

use super::measure::samples;
use super::progress::Progress;
use super::series::{self, TIME};
use super::{measure, setup};
use crate::options::Options;

const DURATION: Span = Span::from_millis(20);
/// The ULP takes this fraction of the arriving data.
const DIVISOR: u64 = 4;
const BUFFER: ByteCount = ByteCount(512 << 10);
/// Number of levels of a buffer's occupancy in reports (F-10.2-3), and Swift's target level (D-78).
const LEVELS: f64 = 32.0;
const TARGET_LEVEL: f64 = 15.0;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let rate = setup::part(options.rate(), DIVISOR)?;
    let mut plan = setup::star(options, 2, None)?;
    let slow = HostModel { slow_ulp: Some(SlowUlp { rate, buffer: BUFFER }), ..plan.host };
    plan.hosts.insert(1, slow);
    plan.flows = vec![setup::endless(options, 0, 1, Time::ZERO)];
    plan.sample_every = Span::from_micros(10);
    let mut data_centre = DataCentre::new(plan)?;
    let (half, end) = (Time::ZERO + Span(DURATION.0 / 2), Time::ZERO + DURATION);
    let early = progress.run("NIC congestion", || {
        data_centre.run_until(half);
        let early = data_centre.host_stats()[1];
        data_centre.run_until(end);
        early
    });
    let stats = data_centre.host_stats()[1];
    let record = data_centre.record();
    let steady = samples(record, 0, half, end);
    let goodput = measure::goodput(record, 0, half, end);
    let possible = setup::efficiency(options) * rate.bits_per_second() as f64 / 1e9;
    let levels = series::kibibytes(record, &record.buffers[0]).into_iter();
    let levels: Vec<[f64; 2]> =
        levels.map(|[time, kib]| [time, kib * 1024.0 * LEVELS / BUFFER.0 as f64]).collect();
    let in_steady = levels.iter().filter(|point| point[0] >= series::millis(half)).map(|point| point[1]);
    let case = Case::new("steady state")
        .with("goodput", goodput, "Gb/s")
        .with("ULP utilisation", goodput.map(|goodput| goodput / possible * 100.0), "%")
        .with("receive buffer", mean(in_steady), "levels of 32")
        .with("receive buffer at most", stats.buffer_peak as f64 / 1024.0, "KiB")
        .with("overflows at first", early.overflowed as f64, "packets")
        .with("overflows", (stats.overflowed - early.overflowed) as f64, "packets")
        .with("ncwnd", mean(steady.iter().map(|sample| sample.ncwnd.into())), "packets")
        .with("fcwnd", measure::mean_window_and_delay(steady).0, "packets");
    let verdicts = vec![
        Verdict::of(&case, "ULP utilisation", Bound::AtLeast(95.0)),
        Verdict::of(&case, "overflows", Bound::AtMost(0.0)),
    ];
    let figures = vec![
        Figure::new("windows", "Windows", TIME, "window (packets)")
            .line(Look::Main, "ncwnd", series::ncwnd(record, 0))
            .line(Look::Main, "fcwnd", series::fcwnd(record, 0)),
        Figure::new("buffer", "Receive buffer", TIME, "level (of 32)")
            .line(Look::Main, "level", levels)
            .level("target level", TARGET_LEVEL),
        Figure::new("goodput", "Goodput", TIME, "goodput (Gb/s)")
            .line(Look::Main, "goodput", series::goodput(record, 0, 10))
            .level("what the ULP takes", possible),
        Figure::new("delay", "Fabric delay", TIME, "delay (us)").line(
            Look::Main,
            "fabric delay",
            series::delay(record, 0),
        ),
    ];
    let description = format!(
        "One flow at {} goes to a host whose ULP takes {rate}. The rest waits in a receive buffer of {BUFFER}. \
             Acknowledgements report its level. The second half of {DURATION} counts as steady state.",
        options.rate()
    );
    Ok(Experiment {
        cases: vec![case],
        verdicts,
        figures,
        ..setup::experiment(options, "nic-congestion", "A slow ULP", description)
    })
}
