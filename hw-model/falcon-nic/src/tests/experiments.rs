//! Runs each experiment for a short time, to execute all of its code. The verdicts need the whole time and are not
//! checked.

use model_experiment::Options;

use crate::experiments::ALL;

#[test]
fn every_experiment_can_be_made() {
    let options = Options { limit_us: Some(3), ..Options::default() };
    for named in ALL {
        let mut steps = (0, 0);
        let report = (named.run)(&options, &mut |done, all| steps = (done, all)).expect(named.name);
        assert_eq!(report.name, named.name);
        assert!(!report.cases.is_empty() && !report.verdicts.is_empty(), "{}", named.name);
        assert!(steps.0 == steps.1 && steps.1 > 1, "{}: {steps:?}", named.name);
    }
}
