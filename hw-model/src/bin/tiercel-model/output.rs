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
        if json && let Err(error) = print(&mut io::stdout(), &format!("{}\n", self.for_programs())) {
            eprintln!("error: {error:#}");
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

/// Writes the page and plots of the report into the directory, and prints the report. The directory comes first: a reader
/// who closes the pipe after some lines, such as `head`, still gets the files.
pub(crate) fn tell(
    report: &Report,
    json: bool,
    directory: Option<&Path>,
    output: &mut impl Write,
) -> Result<()> {
    let page = directory.map(|directory| report.write(directory)).transpose()?;
    if json {
        print(output, &format!("{}\n", serde_json::to_string(report)?))?;
        return Ok(());
    }
    let mut text = lab_report::show(report);
    if let Some(page) = page {
        text += &format!("\n{} and the plots in its directory show the results.\n", page.display());
    }
    print(output, &text)?;
    Ok(())
}

/// Writes a text, and none of it only into a buffer. Returns false if the reader has closed the pipe. That is no error: it
/// has what it wants.
pub(crate) fn print(output: &mut impl Write, text: &str) -> Result<bool> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}
