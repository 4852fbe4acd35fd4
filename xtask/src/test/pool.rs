//! Runs several suites at a time.

use std::{
    sync::{Mutex, mpsc},
    thread,
};

use super::suite::{Ended, Suite};

/// Suites that use a CPU for less than a fifth of their time.
const IDLE: [&str; 1] = ["conformance"];

/// Runs the suites in order, `at_once` of them at a time, and beside them one of those that mostly wait. Gives each to
/// `report` as it ends.
pub(super) fn run(suites: Vec<Suite>, at_once: usize, mut report: impl FnMut(Ended)) {
    let (idle, busy): (Vec<_>, Vec<_>) =
        suites.into_iter().partition(|suite| IDLE.contains(&suite.name.as_str()));
    let (idle, busy) = (Mutex::new(idle.into_iter()), Mutex::new(busy.into_iter()));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for waiting in std::iter::once(&idle).chain(std::iter::repeat_n(&busy, at_once)) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    // A statement of its own: it ends the guard.
                    let next = waiting.lock().expect("taking a suite does not panic").next();
                    let Some(suite) = next else { break };
                    sender.send(suite.run()).expect("results are received until the last worker ends");
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(&mut report);
    });
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn suite(name: &str, script: &str) -> Suite {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Suite { name: name.to_owned(), command }
    }

    #[test]
    fn a_suite_that_waits_holds_up_no_other() {
        let wait = "until [ -e \"$OTHER\" ]; do sleep 0.01; done";
        let other = std::env::temp_dir().join(format!("tiercel-pool-{}", std::process::id()));
        let mut idle = suite(IDLE[0], wait);
        idle.command.env("OTHER", &other);
        let mut busy = suite("busy", "touch \"$OTHER\"");
        busy.command.env("OTHER", &other);
        let mut names = Vec::new();
        run(vec![idle, busy], 1, |ended| names.push(ended.name));
        std::fs::remove_file(&other).expect("the other suite made it");
        // The one that waits ends only if the other one begins. Which of them is told first does not matter.
        names.sort();
        assert_eq!(names, ["busy", IDLE[0]]);
    }

    #[test]
    fn every_suite_runs_once() {
        let suites = (0..7).map(|n| suite(&n.to_string(), "echo running 0 tests")).collect();
        let mut names = vec![];
        run(suites, 3, |ended| names.push(ended.name));
        names.sort();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6"]);
    }

    #[test]
    fn suites_run_at_the_same_time() {
        let directory = tempfile::TempDir::new().unwrap();
        // Each waits until the other has begun.
        let script = |own: &str, other: &str| {
            let at = directory.path().display();
            format!("touch {at}/{own}; until [ -e {at}/{other} ]; do sleep 0.01; done; echo running 0 tests")
        };
        let mut ended = 0;
        run(vec![suite("a", &script("a", "b")), suite("b", &script("b", "a"))], 2, |_| ended += 1);
        assert_eq!(ended, 2);
    }
}
