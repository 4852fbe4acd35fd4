//! Experiments on virtual time.

mod pacing;
mod permutation;
mod planning;
mod profiles;
mod progress;
mod tail;

use anyhow::{Result, bail};
use datacentre::DataCentre;
use fabric_model::{Egress, Time};
use lab_report::{Experiment, World as Kind};

use crate::described::described;
use crate::options::{Name, Options};
use crate::run::{Mark, Observation, Run, link};
use crate::world::{Description, End, World};
use crate::{failure, fairness, incast, loss, paths, plb};
use planning::plan;
use progress::Progress;

/// Runs the selected experiments.
///
/// # Errors
/// If an experiment cannot be set up.
pub(crate) fn run(options: &Options) -> Result<Vec<Experiment>> {
    let names = options.experiments();
    let mut world = Simulation::new(names.iter().map(|name| runs(*name, options)).sum());
    let experiments = names.iter().map(|name| experiment(*name, options, &mut world)).collect();
    world.progress.finish();
    experiments
}

/// Returns the number of runs of an experiment.
fn runs(name: Name, options: &Options) -> u64 {
    match name {
        Name::Fairness => fairness::counts(Kind::Simulation).len() as u64,
        Name::Incast => incast::counts(Kind::Simulation).len() as u64,
        Name::Loss => loss::rates(Kind::Simulation).len() as u64,
        Name::Plb => plb::runs(options),
        Name::Pacing => pacing::RUNS.len() as u64,
        Name::Paths => 2 * paths::paths(Kind::Simulation).len() as u64,
        Name::Profiles => profiles::CASES.len() as u64,
        Name::Failure => failure::runs(),
        Name::Tail => tail::runs(),
        Name::SingleFlow | Name::NicCongestion | Name::Idle | Name::Permutation => 1,
    }
}

/// Runs an experiment.
pub(crate) fn experiment(name: Name, options: &Options, world: &mut Simulation) -> Result<Experiment> {
    if let Some(described) = described(name) {
        return described(options, world);
    }
    match name {
        Name::Permutation => permutation::run(options, world),
        Name::Profiles => profiles::run(options, world),
        Name::Pacing => pacing::run(options, &world.progress),
        Name::Tail => tail::run(options, &world.progress),
        _ => bail!("{name:?} has no description"),
    }
}

/// Virtual time: the data centre of `hw-model`.
pub(crate) struct Simulation {
    progress: Progress,
    kind: Kind,
}

impl Simulation {
    /// Creates the world for so many runs.
    pub(crate) fn new(runs: u64) -> Self {
        Self { progress: Progress::new(runs), kind: Kind::Simulation }
    }

    /// Creates a world that takes the descriptions for real packets, and runs them on virtual time.
    #[cfg(test)]
    pub(crate) fn of_live_descriptions() -> Self {
        Self { kind: Kind::Live, ..Self::new(1) }
    }
}

impl World for Simulation {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn run(&mut self, what: &str, description: Description) -> Result<Run> {
        self.progress.run(what, || simulate(self.kind, description))
    }
}

fn simulate(kind: Kind, described: Description) -> Result<Run> {
    let mut data_centre = DataCentre::new(plan(&described)?)?;
    let slow = described.slow_ulp.map(|(port, _)| port);
    let (last, completes) = match described.end {
        End::At(end) => (end, false),
        End::Complete(limit) => (limit, true),
    };
    let mut marks = vec![mark(&data_centre, slow)];
    let mut observations = vec![];
    let mut marked = described.marks.iter().copied().peekable();
    let mut changes = described.changes.into_iter().peekable();
    let mut observed = described.observe.then_some(Time::ZERO + described.sample_every);
    loop {
        let next = [marked.peek().copied(), changes.peek().map(|change| change.at), observed];
        let next = next.into_iter().flatten().min().filter(|next| *next <= last);
        let Some(next) = next else { break };
        data_centre.run_until(next);
        if observed == Some(next) {
            observations.push(observe(&data_centre, &described.watch));
            let is_over = completes && data_centre.flows().iter().all(datacentre::Flow::is_complete);
            observed = (!is_over).then_some(next + described.sample_every);
        }
        if marked.next_if_eq(&next).is_some() {
            marks.push(mark(&data_centre, slow));
        }
        while let Some(change) = changes.next_if(|change| change.at == next) {
            data_centre.set_link(change.link, change.impairments.is_some());
            if let Some(impairments) = change.impairments {
                data_centre.set_impairments(change.link, impairments);
            }
        }
    }
    if completes {
        data_centre.run_to_completion(last);
    } else {
        data_centre.run_until(last);
    }
    marks.push(mark(&data_centre, slow));
    Ok(Run {
        kind,
        record: data_centre.record().clone(),
        marks,
        observations,
        completions: data_centre.flows().iter().map(|flow| flow.completions().to_vec()).collect(),
        watch: described.watch,
        lost_by_the_kernel: 0,
    })
}

fn mark(data_centre: &DataCentre, slow: Option<u16>) -> Mark {
    let receiver = slow.map(|port| data_centre.host_stats()[usize::from(port)]).unwrap_or_default();
    Mark {
        at: data_centre.now(),
        fabric: data_centre.fabric_stats(),
        overflowed: receiver.overflowed,
        buffer_peak: receiver.buffer_peak,
    }
}

fn observe(data_centre: &DataCentre, watch: &[Egress]) -> Observation {
    let stats = data_centre.fabric_stats();
    Observation {
        at: data_centre.now(),
        first_links: (0..data_centre.flows().len()).map(|flow| data_centre.route(flow)[0]).collect(),
        delivered: watch.iter().map(|egress| link(&stats, *egress).delivered_bytes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fabric_model::{Span, Trunk};

    use super::*;
    use crate::setup;
    use crate::world::{Change, Flow, Sender};

    /// Two flows that begin on the second of two paths, which is cut at 2 ms.
    fn described() -> Description {
        let options = Options::parse_from(["experiment", "--rate", "1Gbps"]);
        let rate = options.rate();
        let mut described = setup::bottleneck(&options, Kind::Simulation, 2, (2, rate), rate).expect("valid");
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        described.flows = (0..2)
            .map(|n| Flow {
                begins_on: Some(Trunk(1)),
                ..Flow::endless(
                    setup::ends(Kind::Simulation, 2, n),
                    Time::ZERO,
                    options.tuning().expect("in range"),
                )
            })
            .collect();
        described.draws = 32;
        described.sample_every = Span::from_micros(100);
        described.observe = true;
        described.marks = vec![at(1), at(2)];
        described.changes = vec![Change { at: at(2), link: Egress::Trunk(Trunk(1)), impairments: None }];
        described.end = End::At(at(3));
        described
    }

    #[test]
    fn a_run_does_what_is_described_at_its_time() {
        let run = Simulation::new(1).run("a cut", described()).expect("can be set up");
        let second = Egress::Trunk(Trunk(1));
        let times: Vec<u64> = run.marks.iter().map(|mark| mark.at.0 / 1_000_000_000).collect();
        assert_eq!((times.as_slice(), run.observations.len()), ([0, 1, 2, 3].as_slice(), 30));
        assert!(run.observations[0].first_links.iter().all(|link| *link == second));
        let carried = |mark: usize| link(&run.marks[mark].fabric, second).delivered;
        assert!(carried(1) > 0 && carried(2) > carried(1));
        assert_eq!(carried(3), carried(2), "nothing crosses a cable that is cut");
        assert_eq!(run.record.times.len(), 31);
    }

    #[test]
    fn virtual_time_has_no_tcp() {
        let described = Description { sender: Sender::Tcp(c"cubic"), ..described() };
        assert!(Simulation::new(1).run("TCP", described).is_err());
    }
}
