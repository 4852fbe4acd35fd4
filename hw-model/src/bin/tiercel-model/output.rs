//! Output of results: to the standard output, and to a directory if the user names one.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use lab_report::Report;

/// Creates the directory before the experiments run, so that a wrong path fails early and no work is lost.
pub(crate) fn prepare(directory: Option<&Path>) -> Result<()> {
    let Some(directory) = directory else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))
}

/// Prints the report, and writes its page and plots into the directory. Returns false if a promise was not kept.
pub(crate) fn tell(report: &Report, json: bool, directory: Option<&Path>) -> Result<bool> {
    let mut output = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut output, report).map_err(io::Error::from)?;
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
