//! How many instructions the verifier of a guest's kernel walks for each program, and a scenario with the programs
//! that record a trace.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    lab::{ASK_LIMIT, Lab, Side},
    said::sentence,
};

/// Largest accepted number of instructions. The number differs between kernels, and a kernel gives up at a
/// million, so a larger number leaves too little margin.
pub(crate) const MOST_INSTRUCTIONS: u32 = 500_000;
/// Limit for the start of a trace. The kernel verifies three programs first.
const LIMIT: Duration = Duration::from_secs(240);

/// Takes a trace. The recording programs are loaded and replace the ordinary ones; after the trace the ordinary
/// ones are back.
///
/// # Errors
/// With the error of `tiercel trace`.
pub(crate) fn trace(lab: &mut Lab) -> Result<String> {
    const BEGIN: &str = "rm -f /tmp/trace*; setsid sh -c 'tiercel trace --out /tmp/trace --duration 3s --json \
                         >/tmp/trace.log 2>&1 </dev/null; echo $? >/tmp/trace.code' >/dev/null 2>&1 &";
    lab.connect()?;
    lab.must(Side::A, BEGIN)?;
    let patience = lab.patience.clone();
    patience.until("the programs that record", LIMIT, || {
        lab.note_programs()?;
        if lab.verified.keys().any(|name| name.starts_with("redeliver_rec")) {
            return Ok(Some(()));
        }
        if lab.run(Side::A, "[ -e /tmp/trace.code ]", ASK_LIMIT)?.is_ok() {
            let log = lab.must(Side::A, "cat /tmp/trace.log")?;
            bail!("`tiercel trace` ends before it begins: {}", trace_sentence(&log));
        }
        Ok(None)
    })?;
    lab.copy("write", 64 << 10).context("while a trace is taken")?;
    lab.wait_for(Side::A, "the end of the trace", "[ -e /tmp/trace.code ]")?;
    let code = lab.must(Side::A, "cat /tmp/trace.code")?;
    let log = lab.must(Side::A, "cat /tmp/trace.log; rm -f /tmp/trace")?;
    ensure!(code == "0", "`tiercel trace` ended with code {code}: {}", trace_sentence(&log));
    lab.copy("write", 64 << 10).context("after the trace")?;
    Ok("a trace while packets flow".to_owned())
}

/// Returns the sentence in the output of `tiercel trace --json`.
fn trace_sentence(log: &str) -> String {
    let text = log.find('{').and_then(|at| serde_json::from_str::<Value>(&log[at..]).ok());
    let text = text.as_ref().and_then(|value| value["error"]["text"].as_str());
    text.map_or_else(|| sentence(log), |text| sentence(&format!("error: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_in_json_has_its_sentence() {
        let log = "recording\n{\n\"error\": {\"kind\": \"node\", \"text\": \"too large\"}}\n";
        assert_eq!(trace_sentence(log), "too large");
        assert_eq!(trace_sentence("error: no\n"), "no");
    }
}
