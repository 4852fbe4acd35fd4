//! `tiercel model`: starts `tiercel-model`. The hardware model is a separate program, so that `tiercel` does not
//! contain it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use crate::exit::Exit;

const PROGRAM: &str = "tiercel-model";

/// Replaces this process by `tiercel-model`: by the program in the same directory, else by the one on the search
/// path. Returns only if that fails.
pub(crate) fn run(mut arguments: Vec<OsString>, json: bool) -> Exit {
    // `--json` in front of the command `model` is also meant for `tiercel-model`.
    if json {
        arguments.push("--json".into());
    }
    let program = beside(env::current_exe()).unwrap_or_else(|| PROGRAM.into());
    failed(&program, &Command::new(&program).args(arguments).exec())
}

fn beside(this: io::Result<PathBuf>) -> Option<PathBuf> {
    Some(this.ok()?.with_file_name(PROGRAM)).filter(|path| path.is_file())
}

fn failed(program: &Path, error: &io::Error) -> Exit {
    let name = program.display();
    if error.kind() == io::ErrorKind::NotFound && program.as_os_str() == OsStr::new(PROGRAM) {
        return Exit::node(format!(
            "{name} is neither in the directory of this program nor on the search path: build it with \
             `cargo build --release --package hw-model`"
        ));
    }
    Exit::node(format!("cannot run {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_this_one_is_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let this = || Ok(directory.path().join("tiercel"));
        assert_eq!(beside(this()), None);
        std::fs::write(directory.path().join(PROGRAM), "").expect("a file");
        assert_eq!(beside(this()), Some(directory.path().join(PROGRAM)));
        assert_eq!(beside(Err(io::ErrorKind::NotFound.into())), None);
    }

    #[test]
    fn what_is_missing_is_said_with_the_remedy() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        assert!(format!("{:?}", failed(Path::new(PROGRAM), &error)).contains("cargo build"));
        assert!(!format!("{:?}", failed(Path::new("/x/tiercel-model"), &error)).contains("cargo build"));
    }
}
