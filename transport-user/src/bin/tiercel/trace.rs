//! `trace`.

use std::path::Path;
use std::time::Duration;

use transport_user::control::Request;

use crate::cli::Json;
use crate::exit::Exit;
use crate::output::{Bar, print, print_json, size, text};
use crate::talk::{Node, absolute};

/// How long a trace is that has no other limit.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

pub(crate) async fn trace(
    node: &Node,
    out: &Path,
    runs: Option<u64>,
    duration: Option<Duration>,
    json: Json,
) -> Result<(), Exit> {
    let duration = duration.or_else(|| runs.is_none().then_some(DEFAULT_DURATION));
    let duration_ms = duration.map(|duration| duration.as_millis().try_into().unwrap_or(u64::MAX));
    let file = absolute(out)?;
    let request = Request::Trace { file: file.clone(), runs, duration_ms };
    let bar = Bar::counting(if runs.is_some() { "runs" } else { "ms" });
    let asked = node.ask_with_progress(request, |progress| bar.show(progress));
    let report = tokio::select! {
        report = asked => report?,
        // The node ends the trace when we are gone.
        _ = tokio::signal::ctrl_c() => {
            drop(bar);
            print(format!("stopped: {} holds what there was until now", file.display()));
            return Ok(());
        }
    };
    drop(bar);
    if json.json {
        print_json(&report);
        return Ok(());
    }
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    let lost = match number("lost") {
        0 => "none lost".to_owned(),
        lost => format!("{lost} lost: the trace has gaps, from which a replay recovers"),
    };
    print(format!(
        "{} runs in {} ms, {lost}; {} in {}",
        text(&report["runs"]),
        text(&report["elapsed_ms"]),
        size(number("bytes")),
        file.display()
    ));
    Ok(())
}
