//! Random loss.

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World};

use super::course::{self, CHUNK, Live, block_on};
use crate::options::Options;

/// Loss rates in percent. The others are compared with the first.
const RATES: [f64; 5] = [0.0, 0.1, 0.3, 1.0, 3.0];
/// The loss rate with a promise.
const PROMISED: f64 = 1.0;
/// Some 40 MB.
const CHUNKS: u64 = 640;

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let mut lossless = None;
    let (mut cases, mut verdicts, mut points) = (vec![], vec![], vec![]);
    for percent in RATES {
        let live = Live::bottleneck(options, &format!(",loss={percent}%"), 1)?;
        let took = block_on(live.write(0, CHUNKS * CHUNK))?;
        let goodput = (CHUNKS * CHUNK) as f64 * 8.0 / took.as_secs_f64() / 1e6;
        let part = goodput / *lossless.get_or_insert(goodput) * 100.0;
        let statistics = live.flows[0].near.info()?.statistics;
        let case = Case::new(format!("{percent} % loss"))
            .with("goodput", goodput, "Mb/s")
            .with("of lossless", part, "%")
            .with("retransmitted early", statistics.retransmitted_early as f64, "packets")
            .with("retransmitted by timeout", statistics.retransmitted_timeout as f64, "packets")
            .with("tail probes", statistics.tail_probes as f64, "packets")
            .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
        if percent == PROMISED {
            verdicts.push(Verdict::of(&case, "of lossless", Bound::AtLeast(90.0)));
        }
        if percent > 0.0 {
            points.push([percent, part]);
        }
        cases.push(case);
    }
    let figure = Figure::new("goodput", "Goodput under random loss", "loss (%)", "goodput (% of lossless)")
        .log_x()
        .line(Look::Main, "Falcon", points)
        .level("promised at 1 %", 90.0);
    Ok(Experiment {
        name: "loss-live",
        title: "Random loss, on real packets",
        description: format!(
            "{} MB from one host in a network namespace to another, through a fabric of {} that loses some of the \
             packets at random.",
            CHUNKS * CHUNK / 1_000_000,
            options.rate()
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some(options.algorithm()),
        details: serde_json::Value::Null,
        settings: course::settings(options)?,
        cases,
        verdicts,
        figures: vec![figure],
    })
}
