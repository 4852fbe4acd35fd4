//! Compiles what does not need the missing tools while these are installed, which mostly means waiting for the
//! network.

use std::process::{Child, Command, Stdio};

use crate::shell::{Progress, cargo};

/// A build that has not begun, is running, or has ended. It only saves time: the build after the installation
/// builds what this one could not, and reports errors. It is killed when dropped.
pub(crate) struct BuildAhead {
    arguments: Vec<&'static str>,
    child: Option<Child>,
}

impl BuildAhead {
    /// Stores the arguments of cargo for later.
    pub(crate) fn of(arguments: &[&'static str]) -> Self {
        Self { arguments: arguments.to_vec(), child: None }
    }

    /// Begins the build, unless there is nothing to build or it has begun already.
    pub(crate) fn begin(&mut self, progress: &Progress) {
        if self.arguments.is_empty() || self.child.is_some() {
            return;
        }
        progress.say("compiling the libraries in the meantime");
        // The package that embeds the XDP programs fails while their tools are missing. All others are built.
        self.child = start(cargo().args(&self.arguments).arg("--keep-going"));
    }

    /// Waits until the build has ended, with any result.
    pub(crate) fn finish(mut self, progress: &Progress) {
        if let Some(child) = &mut self.child {
            if let Ok(None) = child.try_wait() {
                progress.say("waiting for the libraries");
            }
            let _ = child.wait();
        }
    }
}

impl Drop for BuildAhead {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(None) = child.try_wait()
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(command: &mut Command) -> Option<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_build_that_nobody_waits_for_ends() {
        let child = start(Command::new("sleep").arg("600")).unwrap();
        let process = format!("/proc/{}", child.id());
        assert!(Path::new(&process).exists());
        drop(BuildAhead { arguments: vec![], child: Some(child) });
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn a_build_that_fails_is_waited_for_and_forgiven() {
        let child = start(Command::new("sh").args(["-c", "echo no >&2; exit 101"])).unwrap();
        BuildAhead { arguments: vec![], child: Some(child) }.finish(&Progress::start());
    }

    #[test]
    fn nothing_begins_without_arguments() {
        let mut ahead = BuildAhead::of(&[]);
        ahead.begin(&Progress::start());
        assert!(ahead.child.is_none());
    }
}
