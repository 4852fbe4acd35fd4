//! Where results go: the standard output, and a directory if one is named.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use lab_report::Report;

/// Makes the directory before the work, so that none is lost for a misspelt path.
pub(crate) fn prepare(directory: Option<&Path>) -> Result<()> {
    let Some(directory) = directory else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}

/// Prints the report, and writes its page and pictures into the directory; false when a promise was not kept.
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
            writeln!(output, "\n{} and the plots beside it show the course of each.", page.display())?;
        }
    }
    Ok(report.holds())
}
