//! `trace`: records a trace of the datapath.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use transport_user::control::answer::{TraceEnd, Traced};
use transport_user::control::request;

use crate::exit::Exit;
use crate::output::{Bar, print, print_json, size};
use crate::talk::{Node, absolute};

/// Duration of a trace without any limit on the command line.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

pub(crate) async fn trace(
    node: &Node,
    out: &Path,
    runs: Option<u64>,
    duration: Option<Duration>,
    json: bool,
) -> Result<(), Exit> {
    let duration = duration.or_else(|| runs.is_none().then_some(DEFAULT_DURATION));
    let duration_ms = duration.map(|duration| duration.as_millis().try_into().unwrap_or(u64::MAX));
    let file = absolute(out)?;
    let call = request::Trace { file: file.clone(), runs, duration_ms };
    let limit = match (runs, duration) {
        (Some(runs), Some(duration)) => format!("{runs} runs or {duration:?}"),
        (Some(runs), None) => format!("{runs} runs"),
        (None, duration) => format!("{:?}", duration.unwrap_or_default()),
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Exit::node)?;
    let bar = Bar::counting(if runs.is_some() { "runs" } else { "ms" });
    let traced = {
        let mut recording = false;
        let mut asked = pin!(node.ask_with_progress(call, |progress| {
            if !std::mem::replace(&mut recording, true) {
                bar.say(&format!("recording to {} for {limit}, or until Ctrl-C", file.display()));
            }
            bar.show(progress);
        }));
        let mut stopped = false;
        loop {
            tokio::select! {
                traced = &mut asked => break traced?,
                _ = interrupt.recv() => {
                    if stopped {
                        return Err(Exit::node(format!(
                            "{} is still being written: it is complete when `tiercel status` no longer shows a trace",
                            file.display()
                        )));
                    }
                    stopped = true;
                    bar.say("stopping: the recorded runs are being written");
                    // This fails if the trace has just ended by itself. Then there is nothing to stop.
                    let _ = node.ask(request::StopTrace {}).await;
                }
            }
        }
    };
    drop(bar);
    match json {
        true => print_json(&traced),
        false => print(ended(&traced)),
    }
    Ok(())
}

fn ended(traced: &Traced) -> String {
    let Traced { file, ended_by, report } = traced;
    let how = match ended_by {
        TraceEnd::Limit => "ended",
        TraceEnd::Request => "ended by request",
    };
    let lost = match report.lost {
        0 => "none lost".to_owned(),
        lost => format!("{lost} lost: the trace has gaps, and a replay resumes after each of them"),
    };
    format!(
        "{how}: {} runs in {} ms, {lost}; {} in {}, complete",
        report.runs,
        report.elapsed_ms,
        size(report.bytes),
        file.display()
    )
}
