//! Checks that the experiments distinguish kept and broken promises.

use std::fs;
use std::path::Path;

use clap::Parser;
use lab_report::{Experiment, Report};

use crate::described::described;
use crate::live::{NAMES, options_of};
use crate::options::{Name, Options};
use crate::simulation::{Simulation, experiment};

fn run(name: Name, arguments: &[&str]) -> Experiment {
    let arguments = ["experiment"].iter().chain(arguments);
    experiment(name, &Options::parse_from(arguments), &mut Simulation::new(1)).expect("can be set up")
}

fn holds(experiment: &Experiment, verdict: &str) -> bool {
    experiment.verdicts.iter().find(|v| v.name.ends_with(verdict)).expect("there is such a promise").holds
}

#[test]
fn a_window_below_the_path_wastes_it_and_one_above_fills_the_queue() {
    // 10 Gb/s over 6 us of cable, and 2.7 us per packet.
    let small = run(Name::SingleFlow, &["--cc", "constant", "--rate", "10Gbps", "--fcwnd", "2"]);
    assert!(!holds(&small, "utilisation") && holds(&small, "queue drops"));
    let large = run(Name::SingleFlow, &["--cc", "constant", "--rate", "10Gbps", "--fcwnd", "60"]);
    assert!(holds(&large, "utilisation") && !holds(&large, "off target"));
    // The target is some 33 us. Each acknowledgement is for 10 packets, so the path holds half of that less
    // than the window.
    let right = run(Name::SingleFlow, &["--cc", "constant", "--rate", "10Gbps", "--fcwnd", "15"]);
    assert!(right.verdicts.iter().all(|verdict| verdict.holds), "{:?}", right.verdicts);
}

#[test]
fn the_receive_buffer_holds_what_the_window_lets_through() {
    let fits = run(Name::NicCongestion, &["--cc", "constant", "--rate", "10Gbps", "--fcwnd", "32"]);
    assert!(fits.verdicts.iter().all(|verdict| verdict.holds), "{:?}", fits.verdicts);
    // The data window of 128 packets (D-27) is the least of the three.
    let windows = ["--cc", "constant", "--rate", "10Gbps", "--fcwnd", "250", "--ncwnd", "250"];
    let more = run(Name::NicCongestion, &windows);
    let peak = |experiment: &Experiment| experiment.cases[0].value("receive buffer at most");
    assert!(peak(&more) > peak(&fits).map(|peak| 3.0 * peak), "{:?} {:?}", peak(&more), peak(&fits));
}

#[test]
fn swift_fills_the_bottleneck_at_its_target_delay() {
    let experiment = run(Name::SingleFlow, &[]);
    assert!(experiment.verdicts.iter().all(|verdict| verdict.holds), "{:?}", experiment.verdicts);
    // Another target is kept as well, which shows that the target decides.
    let more = run(Name::SingleFlow, &["--set", "base_delay_target=15us"]);
    assert!(more.verdicts.iter().all(|verdict| verdict.holds), "{:?}", more.verdicts);
    let delay = |experiment: &Experiment| experiment.cases[0].value("fabric delay").expect("measured");
    assert!((8.0..12.0).contains(&(delay(&experiment) - delay(&more))), "10 us less");
}

#[test]
fn swift_tells_a_slow_receiver_from_a_slow_fabric() {
    let experiment = run(Name::NicCongestion, &[]);
    assert!(experiment.verdicts.iter().all(|verdict| verdict.holds), "{:?}", experiment.verdicts);
    let case = &experiment.cases[0];
    let [level, ncwnd, fcwnd] = ["receive buffer", "ncwnd", "fcwnd"].map(|name| case.value(name));
    // The buffer holds 155 packets, and 15 of its 32 levels are 73. The wait in it is not a delay of the fabric.
    assert!(level.is_some_and(|level| (13.0..17.0).contains(&level)), "{level:?}");
    assert!(ncwnd.is_some_and(|ncwnd| (60.0..100.0).contains(&ncwnd)), "{ncwnd:?}");
    assert!(fcwnd > ncwnd, "{fcwnd:?} {ncwnd:?}");
}

/// The descriptions of experiments on real packets keep their promises on virtual time, whose threads have no pauses. Those with
/// the kernel's TCP and the timing wheel's need real hosts. That of `plb` has bounds of live hosts: on virtual time, its load does
/// not become even.
#[test]
fn live_descriptions_keep_their_promises_without_pauses() {
    let options = Options::parse_from(["experiment", "--live"]);
    let real_hosts = [Name::Pacing, Name::Paths, Name::Failure, Name::Plb];
    for name in NAMES.into_iter().filter(|name| !real_hosts.contains(name)) {
        let run = described(name).expect("in both worlds");
        let options = options_of(name, &options).expect("valid");
        let experiment = run(&options, &mut Simulation::of_live_descriptions()).expect("can be set up");
        assert!(experiment.name.ends_with("-live") && !experiment.verdicts.is_empty(), "{name:?}");
        assert!(experiment.verdicts.iter().all(|verdict| verdict.holds), "{:?}", experiment.verdicts);
    }
}

/// The pictures of the page are those of a run with the default settings. These experiments are the shortest; a stamp of
/// their sources stands for the others (`cargo xtask lint`).
#[test]
fn the_pictures_of_the_page_are_those_of_a_run() {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments");
    let directory = tempfile::tempdir().expect("a directory");
    let names = [Name::SingleFlow, Name::NicCongestion, Name::Idle];
    Report::new(names.map(|name| run(name, &[])).into()).write(directory.path()).expect("drawn");
    let mut compared = 0;
    for drawn in fs::read_dir(directory.path()).expect("a directory") {
        let drawn = drawn.expect("readable");
        let Ok(shown) = fs::read_to_string(pictures.join(drawn.file_name())) else { continue };
        let now = fs::read_to_string(drawn.path()).expect("readable");
        // The page with the numbers has a part for each experiment.
        let is_equal = match drawn.file_name() == "results.md" {
            true => now.split("\n## ").skip(1).all(|part| shown.contains(part.trim_end())),
            false => now == shown,
        };
        assert!(is_equal, "{} is different now: run `cargo xtask figures`", drawn.file_name().display());
        compared += 1;
    }
    assert_eq!(compared, 8);
}

#[test]
fn one_seed_gives_one_report() {
    let json = |seed: &str| {
        let report = run(Name::Idle, &["--rate", "2Gbps", "--seed", seed]);
        serde_json::to_string(&report).expect("plain data")
    };
    assert_eq!(json("3"), json("3"));
}

#[test]
fn without_plb_an_unlucky_hash_stays_unlucky() {
    let experiment = run(Name::Plb, &["--cc", "constant", "--rate", "2Gbps"]);
    assert_eq!(experiment.cases[0].value("even in the end"), Some(0.0));
    let all_on_one = |points: &[[f64; 2]]| !points.is_empty() && points.iter().all(|point| point[1] == 4.0);
    let courses = experiment.figures[0].lines.iter().filter(|line| line.name.starts_with("100 seeds"));
    assert_eq!(courses.clone().count(), 2, "the median and a band");
    assert!(courses.into_iter().all(|line| all_on_one(&line.points)));
}

#[test]
fn selective_repair_keeps_what_go_back_n_loses() {
    let experiment = run(Name::Loss, &["--rate", "40Gbps"]);
    assert!(experiment.verdicts.len() == 1 && holds(&experiment, "of lossless"), "{:?}", experiment.verdicts);
    for case in experiment.cases.iter().skip(4) {
        let [ours, theirs] = ["of lossless", "go-back-N of lossless"].map(|name| case.value(name));
        assert!(ours.is_some() && ours > theirs, "{}: {ours:?} {theirs:?}", case.name);
    }
}
