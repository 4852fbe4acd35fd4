//! Writes a report.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::html;
use crate::markdown;
use crate::plot::{self, DrawError};
use crate::result::Report;

impl Report {
    /// Writes the page `report.html`, the table `results.md` and every figure as `EXPERIMENT-FIGURE.svg` to a directory.
    /// Creates the directory if needed. Returns the path of the page.
    ///
    /// # Errors
    /// A file cannot be written, or a figure cannot be drawn.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| WriteError::File { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        for experiment in &self.experiments {
            for figure in &experiment.figures {
                let path = directory.join(format!("{}-{}.svg", experiment.name, figure.name));
                fs::write(&path, plot::svg(figure)?).map_err(failed(&path))?;
            }
        }
        let table = directory.join("results.md");
        fs::write(&table, markdown::page(self)).map_err(failed(&table))?;
        let page = directory.join("report.html");
        fs::write(&page, html::page(self)?).map_err(failed(&page))?;
        Ok(page)
    }
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A figure cannot be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
}
