//! `trace`: records a trace of the datapath.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tiercel::control::answer::{TraceEnd, Traced};
use tiercel::control::request;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::exit::Exit;
use crate::output::{Bar, print, print_json, size};
use crate::talk::{Node, absolute};

/// Duration of a trace without any limit on the command line.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Longest time that an interrupted command waits until the node says that it ends the trace, or what it does. The node says so
/// at once, before it writes the rest, unless it is stopped itself.
const STOPPING: Duration = Duration::from_secs(3);
/// Time between two questions whether the node still answers.
const STILL_THERE: Duration = Duration::from_secs(1);

/// When a trace ends.
pub(crate) struct Limits {
    /// After this number of runs of the datapath.
    pub(crate) runs: Option<u64>,
    /// After this time.
    pub(crate) duration: Option<Duration>,
    /// When this command has ended. Empty: there is none.
    pub(crate) command: Vec<OsString>,
}

impl Limits {
    /// Returns the longest time that the trace may take.
    fn time(&self) -> Option<Duration> {
        let unlimited = self.runs.is_none() && self.command.is_empty();
        self.duration.or_else(|| unlimited.then_some(DEFAULT_DURATION))
    }

    /// Says when the trace ends.
    fn shown(&self) -> String {
        let mut ends = vec![];
        ends.extend(self.runs.map(|runs| format!("for {runs} runs")));
        ends.extend(self.time().map(|time| format!("for {time:?}")));
        ends.extend(self.command.first().map(|program| format!("while {} runs", program.display())));
        format!("{}, or until Ctrl-C", ends.join(" or "))
    }

    /// Returns a bar that counts towards the limit. The command has the terminal for itself.
    fn bar(&self) -> Bar {
        match (&self.command[..], self.runs) {
            ([_, ..], _) => Bar::hidden(),
            ([], Some(_)) => Bar::counting("runs"),
            ([], None) => Bar::counting("ms"),
        }
    }
}

/// How a command ended, or why it could not be started.
type Ended = io::Result<ExitStatus>;

pub(crate) async fn trace(node: &Node, out: &Path, limits: Limits, json: bool) -> Result<(), Exit> {
    let file = absolute(out)?;
    let duration_ms = limits.time().map(|time| time.as_millis().try_into().unwrap_or(u64::MAX));
    let call = request::Trace { file: file.clone(), runs: limits.runs, duration_ms };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Exit::node)?;
    let bar = limits.bar();
    bar.say("preparing the trace: what happens now is not recorded yet");
    let (tell, mut ended) = unbounded_channel();
    let begun = Cell::new(false);
    let mut outcome = None;
    let traced = {
        let mut asked = pin!(node.ask_with_progress(call, |progress| {
            if !begun.replace(true) {
                bar.say(&format!("recording to {} {}", file.display(), limits.shown()));
                start(&limits.command, json, tell.clone());
            }
            bar.show(progress);
        }));
        let (mut stopped, mut interrupted) = (false, false);
        loop {
            tokio::select! {
                traced = &mut asked => break traced?,
                Some(how) = ended.recv() => outcome = Some(how),
                _ = interrupt.recv() => {
                    if stopped {
                        return Err(unfinished(&file));
                    }
                    bar.say("stopping: the recorded runs are being written");
                    interrupted = true;
                }
                // A slow file may take any time, and the node answers meanwhile.
                () = silent(node), if interrupted => return Err(unanswered(&file)),
            }
            stopped = true;
            tokio::select! {
                // This fails if the trace has just ended by itself. Then there is nothing to stop.
                _ = node.ask(request::StopTrace {}) => {}
                _ = interrupt.recv() => return Err(unfinished(&file)),
                () = sleep(STOPPING), if interrupted => return Err(unanswered(&file)),
            }
        }
    };
    drop(bar);
    let commanded = command_ended(&limits.command, begun.get(), outcome, &mut ended, &mut interrupt).await;
    match (json, &commanded) {
        (false, _) => print(ended_text(&traced, !limits.command.is_empty())),
        (true, Ok(())) => print_json(&traced),
        // A program reads one JSON value: that of the failure.
        (true, Err(_)) => {}
    }
    commanded
}

/// Returns when the node does not answer any more. If it has ended, the connection to it ends as well.
async fn silent(node: &Node) {
    while let Ok(answer) = timeout(STOPPING, node.ask(request::Status {})).await {
        // A node that goes down has closed its socket already. It has as long for the trace as for an answer.
        sleep(if answer.is_ok() { STILL_THERE } else { STOPPING }).await;
        if answer.is_err() {
            return;
        }
    }
}

/// Says what a trace that nobody waits for leaves behind.
fn unfinished(file: &Path) -> Exit {
    Exit::interrupted(format!(
        "interrupted: {} is still being written: it is complete when `tiercel status` no longer shows a trace",
        file.display()
    ))
}

/// Says what a node leaves behind that does not answer. It ends the trace when it finds that its client has gone.
fn unanswered(file: &Path) -> Exit {
    Exit::interrupted(format!(
        "interrupted: the node does not answer: when it goes on, it ends the trace, and {} is complete when `tiercel status` no \
         longer shows a trace",
        file.display()
    ))
}

/// Starts the command, and tells how it ended. Without a command it does nothing.
fn start(command: &[OsString], json: bool, tell: UnboundedSender<Ended>) {
    let [program, arguments @ ..] = command else { return };
    let mut child = Command::new(program);
    child.args(arguments);
    if json {
        child.stdout(stderr().unwrap_or_else(|_| Stdio::null()));
    }
    // A thread, and not a task that blocks: the end of the program does not wait for it.
    std::thread::spawn(move || {
        // Nobody listens any more if the trace has failed.
        let _ = tell.send(child.status());
    });
}

/// Returns a second descriptor of stderr.
fn stderr() -> io::Result<Stdio> {
    use std::os::fd::AsFd;
    Ok(io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Waits for the end of the command if the trace ended first. Returns its failure.
async fn command_ended(
    command: &[OsString],
    begun: bool,
    outcome: Option<Ended>,
    ended: &mut UnboundedReceiver<Ended>,
    interrupt: &mut Signal,
) -> Result<(), Exit> {
    let Some(program) = command.first().map(|program| program.display()) else { return Ok(()) };
    let outcome = match outcome {
        _ if !begun => return Err(Exit::node(format!("the trace ended before {program} could be started"))),
        Some(outcome) => Some(outcome),
        None => tokio::select! {
            outcome = ended.recv() => outcome,
            _ = interrupt.recv() => None,
        },
    };
    match outcome {
        Some(Ok(status)) if status.success() => Ok(()),
        Some(Ok(status)) => Err(Exit::node(format!("{program} failed: {status}"))),
        Some(Err(error)) => Err(Exit::usage(format!("cannot start {program}: {error}"))),
        None => Err(Exit::node(format!("interrupted: {program} may still run"))),
    }
}

/// Says how a trace ended, and what is in it.
fn ended_text(traced: &Traced, commanded: bool) -> String {
    let Traced { file, ended_by, report } = traced;
    let how = match (ended_by, commanded) {
        (TraceEnd::Limit, _) => "ended",
        (TraceEnd::Request, true) => "ended with the command",
        (TraceEnd::Request, false) => "ended by request",
    };
    let file = file.display();
    if report.runs == 0 && report.lost == 0 {
        return format!(
            "{how}: the trace in {file} is empty: in {} ms no Falcon packet came and no connection was served. Begin the \
             traffic when `recording` is said, or give its command after `--`",
            report.elapsed_ms,
        );
    }
    let lost = match report.lost {
        0 => "none lost".to_owned(),
        lost => format!("{lost} lost: the trace has gaps, and a replay resumes after each of them"),
    };
    format!(
        "{how}: {} runs in {} ms, {lost}; {} in {file}, complete",
        report.runs,
        report.elapsed_ms,
        size(report.bytes),
    )
}

#[cfg(test)]
mod tests {
    use tiercel::status::TraceReport;

    use super::*;

    fn limits(runs: Option<u64>, seconds: Option<u64>, command: &[&str]) -> Limits {
        let command = command.iter().map(OsString::from).collect();
        Limits { runs, duration: seconds.map(Duration::from_secs), command }
    }

    #[test]
    fn without_any_limit_a_trace_takes_ten_seconds() {
        assert_eq!(limits(None, None, &[]).time(), Some(DEFAULT_DURATION));
        assert_eq!(limits(Some(7), None, &[]).time(), None);
        assert_eq!(limits(None, None, &["cp", "a"]).time(), None);
        assert_eq!(limits(Some(7), Some(3), &["cp"]).time(), Some(Duration::from_secs(3)));
        assert_eq!(limits(Some(7), Some(3), &[]).shown(), "for 7 runs or for 3s, or until Ctrl-C");
        assert_eq!(limits(None, None, &["cp", "a"]).shown(), "while cp runs, or until Ctrl-C");
    }

    #[test]
    fn an_empty_trace_is_called_empty() {
        let traced = |runs, lost| {
            let report = TraceReport { runs, lost, bytes: 40, elapsed_ms: 5000 };
            ended_text(&Traced { file: "/run.trace".into(), ended_by: TraceEnd::Limit, report }, false)
        };
        assert!(traced(0, 0).contains("the trace in /run.trace is empty: in 5000 ms"), "{}", traced(0, 0));
        for (runs, lost) in [(1, 0), (0, 1)] {
            assert!(!traced(runs, lost).contains("empty"), "{}", traced(runs, lost));
        }
    }
}
