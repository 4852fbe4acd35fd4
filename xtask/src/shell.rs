//! Starts programs and shows progress.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Instant,
};

use anyhow::{Context, Result, bail};

/// Shows what is being done, with the seconds since the start.
pub(crate) struct Progress {
    started: Instant,
}

impl Progress {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Prints one line about the work that begins now.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("[{:6.1} s] {what}", self.started.elapsed().as_secs_f64());
    }
}

/// The root of the workspace, as soon as it is found.
static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();

/// Finds the root of the workspace.
///
/// # Errors
/// If this program was started neither by cargo nor inside a workspace.
pub(crate) fn find_workspace() -> Result<()> {
    WORKSPACE.set(workspace_here()?).ok().context("the workspace is looked for once")
}

/// Returns the root of the workspace. Commands run after [`find_workspace`]; the unit tests run without it.
pub(crate) fn workspace() -> &'static Path {
    WORKSPACE.get_or_init(|| workspace_here().expect("cargo names it to the tests"))
}

/// Returns the root of the workspace that cargo names, or else of the one around the current directory. Only this is
/// known at run time: cargo takes the program that it finds in a target directory for that of the sources beside it, even
/// if both were moved or copied, and a directory that the compiler wrote into it would be another tree.
fn workspace_here() -> Result<PathBuf> {
    let named =
        env::var_os("CARGO_MANIFEST_DIR").and_then(|own| Path::new(&own).parent().map(Path::to_owned));
    let current = env::current_dir().context("cannot find the current directory")?;
    let mut candidates = named.iter().map(PathBuf::as_path).chain(current.ancestors());
    let found = candidates.find(|root| MEMBERS.iter().all(|member| root.join(member).is_file()));
    found.map(Path::to_owned).context("no clone of Tiercel is here: run `cargo xtask` inside one")
}

/// What the root of the workspace is known by.
const MEMBERS: [&str; 2] = ["xtask/Cargo.toml", "transport-ebpf/Cargo.toml"];

/// Returns cargo's target directory: the one in which this program was built, or else the default one.
pub(crate) fn target_dir() -> PathBuf {
    let own = env::current_exe().ok();
    own.iter()
        .flat_map(|own| own.ancestors())
        .find(|dir| dir.join("CACHEDIR.TAG").is_file())
        .map_or_else(|| workspace().join("target"), Path::to_path_buf)
}

/// Returns a command for the cargo that started this program, at the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// Runs a command to its end, and shows its output.
///
/// # Errors
/// If it cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    run_beside(command, || ())
}

/// Runs a command to its end, shows its output, and does something else meanwhile.
///
/// # Errors
/// If the command cannot be started or fails.
pub(crate) fn run_beside(command: &mut Command, meanwhile: impl FnOnce()) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    meanwhile();
    let status = child.wait().with_context(|| format!("cannot wait for {}", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command without showing its output, and returns whether it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Returns whether a program of this name is on `PATH`.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no precondition and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the command line, without the directory of the program.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = std::iter::once(program.file_name().unwrap_or(program.as_os_str())).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_meanwhile_is_done_before_the_command_ends() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut waits = Command::new("sh");
        waits.args(["-c", "read line && test \"$line\" = go"]).stdin(reader.try_clone().unwrap());
        run_beside(&mut waits, || {
            std::io::Write::write_all(&mut &writer, b"go\n").unwrap();
        })
        .unwrap();
        drop(writer);
        let mut rest = vec![];
        std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
        let failed = run_beside(Command::new("sh").args(["-c", "exit 3"]), || ()).unwrap_err().to_string();
        assert!(failed.contains("exit 3") && failed.contains("status: 3"), "{failed}");
    }
}
