//! Output of results: to the standard output, and to a directory if the user names one.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lab_report::Report;

/// Creates the directory before the experiments run, so that a wrong path fails early and no work is lost.
pub(crate) fn prepare(directory: Option<&Path>) -> Result<()> {
    let Some(directory) = directory else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))
}

/// A failure as `--json` prints it, in the form of the other commands of `tiercel`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'t> {
    /// `usage` for a wrong command line, otherwise `model`.
    pub(crate) kind: &'static str,
    pub(crate) exit_code: u8,
    pub(crate) text: &'t str,
}

impl Failure<'_> {
    /// Prints the sentence to stderr and, with `json`, the whole failure to stdout. Returns the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        eprintln!("error: {}", self.text);
        if json {
            // The reader may have closed the pipe. Then nobody misses the output.
            let _ = writeln!(io::stdout(), "{}", self.for_programs());
        }
        ExitCode::from(self.exit_code)
    }

    fn for_programs(self) -> serde_json::Value {
        let Self { kind, exit_code, text } = self;
        // An experiment has no operation that completes, so it has no completion codes.
        serde_json::json!({"error": {
            "kind": kind, "exit_code": exit_code, "text": text, "status": null, "ulp_code": null,
        }})
    }
}

/// Prints the report, and writes its page and plots into the directory. Returns false if a promise was not kept.
pub(crate) fn tell(
    report: &Report,
    json: bool,
    directory: Option<&Path>,
    output: &mut impl Write,
) -> Result<bool> {
    if json {
        serde_json::to_writer(&mut *output, report).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        write!(output, "{}", lab_report::show(report))?;
    }
    if let Some(directory) = directory {
        let page = report.write(directory)?;
        if !json {
            writeln!(output, "\n{} and the plots in its directory show the results.", page.display())?;
        }
    }
    Ok(report.holds())
}
