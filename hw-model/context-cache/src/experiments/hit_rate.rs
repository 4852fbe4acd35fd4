//! The hit rate of the cache.

use anyhow::Result;
use lab_report::{Bound, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::{Eviction, Parameters};

use super::common::{MILLION, case, experiment, limit, mega, percent};
use super::load::{IndependentReferences, Load, measure};

/// Cycles per command. The memory is not the bottleneck at this rate, so no entry waits for it.
const UNHURRIED: u64 = 100;

fn parameters(options: &Options) -> Parameters {
    Parameters { connections: MILLION, seed: options.seed, ..Parameters::default() }
}

/// Runs `cache-resident`: as many connections as fit, and more.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn resident(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = parameters(options);
    let mut report = experiment(
        "cache-resident",
        "Is every command a hit when the connections fit?",
        "Commands for connections that are chosen at random, counted after a warm-up. One run has exactly as many \
         connections as the eviction threshold allows, and as many commands as the cache takes. The other runs \
         have one command in 100 cycles.",
        options,
        &base,
    );
    let counts = [1_000, base.threshold, 4_500, 8_000, 16_000, 64_000, 256_000, MILLION];
    let mut points = Vec::new();
    for (done, connections) in counts.into_iter().enumerate() {
        progress(done, counts.len());
        let parameters = Parameters { connections, ..base.clone() };
        let fits_just = connections == base.threshold;
        let (commands, interval) = if fits_just { (1_000_000, 1) } else { (60_000, UNHURRIED) };
        let load = Load { skew: 0.0, interval, work: 0, commands };
        let outcome = measure(&parameters, load, limit(options))?;
        points.extend(percent(outcome.hit_rate()).map(|hits| [f64::from(connections), hits]));
        let case = case(format!("{connections} connections"), &outcome);
        if fits_just {
            report.verdicts.push(Verdict::of(&case, "misses", Bound::AtMost(0.0)));
            report.verdicts.push(Verdict::of(&case, "hits", Bound::AtLeast(100.0)));
            report.verdicts.push(Verdict::of(&case, "99 of 100", Bound::AtMost(6.0)));
            // Two commands of one connection in adjacent cycles are rare. The second one waits for one cycle.
            report.verdicts.push(Verdict::of(&case, "throughput", Bound::AtLeast(999.0)));
        }
        report.cases.push(case);
    }
    progress(counts.len(), counts.len());
    let fits = |connections: u32| 100.0 * f64::from(base.threshold.min(connections)) / f64::from(connections);
    let ideal = counts.map(|connections| [f64::from(connections), fits(connections)]).to_vec();
    let figure = Figure::new(
        "hits",
        "Hit rate over the number of connections, all equally popular",
        "connections",
        "hits, %",
    )
    .log_x()
    .line(Look::Main, "measured", points)
    .line(Look::Reference, "threshold / connections", ideal);
    report.figures.push(figure);
    Ok(report)
}

/// Runs `cache-uniform`: a million connections that are all equally popular.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn uniform(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = parameters(options);
    let mut report = experiment(
        "cache-uniform",
        "What does a cache of 4096 entries do for a million connections?",
        "Commands for a million connections that are all equally popular, so no policy can predict the next one. \
         The load is one command in 100 cycles, or as many commands as the cache takes (saturated).",
        options,
        &base,
    );
    let runs = [
        (Eviction::Random, "random", UNHURRIED),
        (Eviction::Fifo, "FIFO", UNHURRIED),
        (Eviction::Random, "random, saturated", 1),
    ];
    for (done, (eviction, name, interval)) in runs.into_iter().enumerate() {
        progress(done, runs.len());
        let parameters = Parameters { eviction, ..base.clone() };
        let load = Load { skew: 0.0, interval, work: 0, commands: 400_000 };
        let case = case(name, &measure(&parameters, load, limit(options))?);
        // 4096 entries are 0.41 % of a million. The standard error of 400 000 commands is 0.01 %.
        report.verdicts.push(Verdict::of(&case, "hits", Bound::AtLeast(0.37)));
        report.verdicts.push(Verdict::of(&case, "hits", Bound::AtMost(0.44)));
        report.cases.push(case);
    }
    progress(runs.len(), runs.len());
    Ok(report)
}

/// Runs `cache-skew`: hit rate and throughput over the exponent of Zipf's law.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn skew(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = parameters(options);
    let mut report = experiment(
        "cache-skew",
        "How much does popularity help?",
        "Commands for a million connections whose popularity follows Zipf's law. The hit rates are measured with \
         one command in 100 cycles, and compared with the theory of independent references. The throughput is \
         measured with as many commands as the cache takes.",
        options,
        &base,
    );
    let skews = [0.0, 0.4, 0.8, 0.9, 1.0, 1.2, 1.4];
    let caches = [
        ("1024 entries", 1024, Eviction::Random),
        ("4096 entries", 4096, Eviction::Random),
        ("4096 entries, FIFO", 4096, Eviction::Fifo),
        ("16384 entries", 16384, Eviction::Random),
    ];
    let mut hits = vec![Vec::new(); caches.len()];
    let mut expected = vec![Vec::new(); caches.len()];
    let mut throughput = vec![Vec::new(); caches.len()];
    let mut furthest = 0.0_f64;
    let steps = skews.len() * caches.len();
    for (place, skew) in skews.into_iter().enumerate() {
        let references = IndependentReferences::new(MILLION, skew);
        for (of, (name, entries, eviction)) in caches.into_iter().enumerate() {
            progress(place * caches.len() + of, steps);
            let parameters = Parameters { entries, threshold: entries - 64, eviction, ..base.clone() };
            let run = |interval, commands| {
                measure(&parameters, Load { skew, interval, work: 0, commands }, limit(options))
            };
            let (unhurried, saturated) = (run(UNHURRIED, 60_000)?, run(1, 20_000)?);
            let ideal = references.hit_rate(parameters.threshold);
            if let Some(rate) = unhurried.hit_rate() {
                hits[of].push([skew, 100.0 * rate]);
                furthest = furthest.max((rate - ideal).abs());
            } else {
                furthest = f64::INFINITY;
            }
            expected[of].push([skew, 100.0 * ideal]);
            throughput[of].extend(mega(saturated.throughput()).map(|rate| [skew, rate]));
            let rate = mega(saturated.throughput());
            let case = case(format!("{name}, exponent {skew}"), &unhurried)
                .with("independent references", 100.0 * ideal, "%")
                .with("saturated", rate, "M/s");
            report.cases.push(case);
        }
    }
    progress(steps, steps);
    report.verdicts.push(Verdict::new(
        "furthest from the hit rate of independent references",
        100.0 * furthest,
        "%",
        Bound::AtMost(1.5),
    ));
    let x = "exponent of Zipf's law";
    let mut rates = Figure::new("hits", "Hit rate over popularity, a million connections", x, "hits, %");
    let mut carried = Figure::new(
        "throughput",
        "Commands the cache takes over popularity, a million connections",
        x,
        "million commands a second at 1 GHz",
    )
    .log_y();
    for (of, (name, ..)) in caches.into_iter().enumerate() {
        rates = rates.line(Look::Main, name, std::mem::take(&mut hits[of]));
        carried = carried.line(Look::Main, name, std::mem::take(&mut throughput[of]));
    }
    for line in expected {
        rates = rates.line(Look::Reference, "theory", line);
    }
    report.figures = vec![rates, carried];
    Ok(report)
}
