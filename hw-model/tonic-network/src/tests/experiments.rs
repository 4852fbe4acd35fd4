//! The comparisons, checked with values computed by hand, and short runs of the experiments.

use fabric_model::{Span, Time};
use model_experiment::Options;
use reference_senders::Dcqcn;

use crate::SenderLog;
use crate::experiments::{ALL, binned_mean, kolmogorov_smirnov, replayed, root_mean_square};

#[test]
fn distances() {
    let ks = kolmogorov_smirnov;
    assert_eq!(ks(&[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0]), 0.0);
    assert_eq!(ks(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
    // At 2 the distribution functions are three quarters and one quarter.
    assert_eq!(ks(&[1.0, 2.0, 2.0, 5.0], &[2.0, 5.0, 6.0, 7.0]), 0.5);
    assert_eq!(ks(&[], &[1.0]), 1.0);
    assert_eq!(root_mean_square(&[1.0, 2.0, 9.0], &[4.0, 6.0]), Some(12.5f64.sqrt()));
    assert_eq!(root_mean_square(&[], &[1.0]), None);
}

#[test]
fn bins() {
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    let points = [(at(5), 4.0), (at(20), 8.0), (at(25), 0.0)];
    let bins = binned_mean(&points, 2.0, Span::from_micros(10), at(45));
    // The bins are: half 2 and half 4; 4; half 8 and half 0; 0. The last half bin is omitted.
    assert_eq!(bins, [3.0, 4.0, 4.0, 0.0]);
}

/// The reaction point alone: it stays at line rate until a notification. Then it follows the equations of the
/// paper.
#[test]
fn a_log_is_replayed() {
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    let mut log =
        SenderLog { transmissions: vec![(at(1), 0, false), (at(200), 1, false)], ..SenderLog::default() };
    let parameters = Dcqcn::new(40e9);
    assert_eq!(replayed(parameters, &log), [(at(1), 40e9)]);
    log.notified = vec![at(10), at(100)];
    let rates = replayed(parameters, &log);
    // Alpha is 1, so the rate is halved. After 55 us it goes half of the way back. Then it is cut by alpha / 2,
    // and alpha has decayed once.
    let alpha = 255.0 / 256.0;
    let expected = [
        (at(1), 40e9),
        (at(10), 20e9),
        (at(65), 30e9),
        (at(100), 30e9 * (1.0 - alpha / 2.0)),
        (at(155), 30e9 * (1.0 - alpha / 4.0)),
    ];
    assert_eq!(rates.len(), expected.len(), "{rates:?}");
    for ((time, rate), (expected_time, expected_rate)) in rates.into_iter().zip(expected) {
        assert_eq!(time, expected_time);
        assert!((rate / expected_rate - 1.0).abs() < 1e-12, "{time:?}: {rate} {expected_rate}");
    }
}

/// Each experiment runs for a fraction of its time, ends and can be written as JSON. The promises need the whole
/// time.
#[test]
fn every_experiment_in_small() {
    for named in ALL {
        let options = Options { limit_us: Some(1_000), ..Options::default() };
        let mut last = (0, 0);
        let experiment = (named.run)(&options, &mut |done, all| {
            assert!(done <= all && done >= last.0, "{}: progress goes on", named.name);
            last = (done, all);
        })
        .expect(named.name);
        assert_eq!(last.0, last.1, "{}: and comes to an end", named.name);
        assert!(!experiment.cases.is_empty() && !experiment.verdicts.is_empty());
        let json = serde_json::to_value(&experiment).expect("numbers and names");
        assert_eq!(json["name"], named.name);
    }
}

#[test]
fn delivery() {
    let named = ALL.iter().find(|named| named.name == "tonic-network-delivery").expect("it is listed");
    let experiment = (named.run)(&Options::default(), &mut |_, _| {}).expect("it needs nothing");
    assert_eq!(experiment.cases.len(), 24);
    assert!(experiment.verdicts.iter().all(|verdict| verdict.holds), "{:#?}", experiment.cases);
}
