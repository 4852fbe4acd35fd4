//! The program `tiercel`, as a user runs it: nodes in the foreground of a host, and commands to them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::checks::{PATIENCE, wait_until};
use crate::{Host, Namespace};

/// Returns the program, built once from the same sources as the test.
///
/// # Panics
/// If it cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| build("tiercel-cli", "--bin", "tiercel").expect("the program `tiercel` can be built"))
}

/// Returns an example of the node, built from the same sources as the test.
///
/// # Errors
/// If it cannot be built.
pub fn example(name: &str) -> Result<PathBuf> {
    build("tiercel-node", "--example", name)
}

/// Returns the program behind `tiercel model`, built from the same sources as the test.
///
/// # Errors
/// If it cannot be built.
pub fn model() -> Result<PathBuf> {
    build("hw-model", "--bin", "tiercel-model")
}

/// The program behind `cargo xtask`, built from the sources the test was built from.
///
/// # Errors
/// If it cannot be built.
pub fn xtask() -> Result<PathBuf> {
    build("xtask", "--bin", "xtask")
}

/// The environment variable that names the directory of the programs if they are built already. `cargo xtask
/// test` sets it.
const PROGRAMS_VAR: &str = "TIERCEL_PROGRAMS";

/// Builds a program. Cargo tells the paths of a package's programs only to that package's own tests, so this
/// calls cargo again, unless the programs exist. A call for one package chooses other features for its
/// dependencies and compiles them again.
fn build(package: &str, kind: &str, name: &str) -> Result<PathBuf> {
    if let Some(programs) = std::env::var_os(PROGRAMS_VAR).map(PathBuf::from) {
        let built = if kind == "--bin" { programs.join(name) } else { programs.join("examples").join(name) };
        ensure!(built.is_file(), "{} is missing from {PROGRAMS_VAR}", built.display());
        return Ok(built);
    }
    let test = std::env::current_exe()?;
    // <target>/<profile>/deps/<this test>
    let profile = test.ancestors().nth(2).context("tests run from cargo's target directory")?;
    let target = profile.parent().context("tests run from cargo's target directory")?;
    let release = profile.file_name() == Some(OsStr::new("release"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--package", package, kind, name])
        .args(["--profile", if release { "release" } else { "test" }])
        .arg("--target-dir")
        .arg(target);
    // Known only at run time: the sources may have been moved since this was compiled.
    if let Some(sources) = std::env::var_os("CARGO_MANIFEST_DIR") {
        cargo.current_dir(sources);
    }
    let status = cargo.status().with_context(|| format!("cannot start {cargo:?}"))?;
    ensure!(status.success(), "{cargo:?}: {status}");
    let built = if kind == "--bin" { profile.join(name) } else { profile.join("examples").join(name) };
    ensure!(built.is_file(), "{cargo:?} left no {}", built.display());
    Ok(built)
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl TryFrom<Output> for Outcome {
    type Error = anyhow::Error;

    fn try_from(output: Output) -> Result<Self> {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().with_context(|| format!("{}: {stderr}", output.status))?;
        Ok(Self { code, stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr })
    }
}

/// Runs `tiercel` to its end, with any result.
///
/// # Errors
/// If it cannot be started or is killed by a signal.
pub fn tiercel(arguments: &[&str]) -> Result<Outcome> {
    Command::new(program()).args(arguments).stdin(Stdio::null()).output()?.try_into()
}

/// A running `tiercel up`, or another program that serves a node. It is killed when dropped, if it still runs.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl NodeProcess {
    /// Runs `tiercel up` with these options in a host and waits until the node answers. Its control socket and its
    /// log are `name`.sock and `name`.log in `directory`.
    ///
    /// # Errors
    /// If it ends before it answers; the error contains its output.
    pub fn up(host: &Namespace, directory: &Path, name: &str, options: &[&str]) -> Result<Self> {
        let node = Self::spawn(host, directory, name, |socket| up(socket, options))?;
        node.answering()
    }

    /// Runs a node on the interface and the IPv4 address of a host, with further options of `tiercel up`.
    ///
    /// # Errors
    /// As [`up`](Self::up).
    pub fn on(host: &Host, directory: &Path, name: &str, options: &[&str]) -> Result<Self> {
        let address = host.ipv4.to_string();
        let place = ["--interface", Host::INTERFACE, "--address", &address];
        Self::up(host, directory, name, &[&place, options].concat())
    }

    /// Like [`on`](Self::on), with no other capabilities than these, of `setpriv`.
    ///
    /// # Errors
    /// As [`up`](Self::up).
    pub fn limited(
        host: &Host,
        directory: &Path,
        name: &str,
        capabilities: &str,
        options: &[&str],
    ) -> Result<Self> {
        let address = host.ipv4.to_string();
        let place = ["--interface", Host::INTERFACE, "--address", &address];
        let command = |socket: &Path| {
            let node = up(socket, &[&place, options].concat());
            let mut command = Command::new("setpriv");
            command
                .args(["--bounding-set", capabilities, "--no-new-privs"])
                .arg(node.get_program())
                .args(node.get_args());
            command
        };
        Self::spawn(host, directory, name, command)?.answering()
    }

    /// Runs a program that serves a node, started as `program FILE SOCKET`, in a host, and waits until the node
    /// answers.
    ///
    /// # Errors
    /// As [`up`](Self::up).
    pub fn own(host: &Namespace, directory: &Path, name: &str, program: &Path, file: &Path) -> Result<Self> {
        let command = |socket: &Path| {
            let mut command = Command::new(program);
            command.arg(file).arg(socket);
            command
        };
        Self::spawn(host, directory, name, command)?.answering()
    }

    /// Waits until the node answers.
    fn answering(mut self) -> Result<Self> {
        let node = &mut self;
        let deadline = Instant::now() + PATIENCE;
        // The socket appears early; the node answers when it is up.
        while !node.socket.exists() || node.run(&["status"])?.code != 0 {
            if let Some(status) = node.child.try_wait()? {
                bail!("the node ended with {status}: {}", node.log());
            }
            ensure!(Instant::now() < deadline, "the node does not answer: {}", node.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(self)
    }

    /// Runs a `tiercel up` that must fail, to its end.
    ///
    /// # Errors
    /// If it runs for longer than [`PATIENCE`].
    pub fn refused(host: &Namespace, directory: &Path, name: &str, options: &[&str]) -> Result<Outcome> {
        let mut node = Self::spawn(host, directory, name, |socket| up(socket, options))?;
        let status = node.ended()?;
        let code = status.code().with_context(|| format!("{status}: {}", node.log()))?;
        Ok(Outcome { code, stdout: String::new(), stderr: node.log() })
    }

    fn spawn(
        host: &Namespace,
        directory: &Path,
        name: &str,
        command: impl FnOnce(&Path) -> Command,
    ) -> Result<Self> {
        let socket = directory.join(format!("{name}.sock"));
        let mut log = directory.join(format!("{name}.log"));
        while log.exists() {
            log.as_mut_os_string().push("+"); // somebody may still write to it
        }
        let mut command = command(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { child: host.spawn(command)?, socket, log })
    }

    /// Runs a command to this node to its end, with any result.
    ///
    /// # Errors
    /// If it cannot be started or is killed by a signal.
    pub fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = Command::new(program());
        command.arg("--socket").arg(&self.socket).args(arguments).stdin(Stdio::null());
        command.output()?.try_into()
    }

    /// Runs a command that must succeed and returns what it printed.
    ///
    /// # Errors
    /// If it fails; the error contains its own message.
    pub fn ok(&self, arguments: &[&str]) -> Result<String> {
        let outcome = self.run(arguments)?;
        ensure!(outcome.code == 0, "{arguments:?}: exit code {}: {}", outcome.code, outcome.stderr);
        Ok(outcome.stdout)
    }

    /// Runs a command with `--json` that must succeed and returns its output.
    ///
    /// # Errors
    /// If it does not succeed or does not print JSON.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let printed = self.ok(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&printed).with_context(|| format!("{arguments:?} printed {printed}"))
    }

    /// Returns one of the datapath's counters.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.json(&["stats"])?["counters"][name]
            .as_u64()
            .with_context(|| format!("there is no counter {name}"))
    }

    /// Returns the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns its output so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If it had ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        let status = self.child.wait()?;
        ensure!(status.signal() == Some(libc::SIGKILL), "it ended by itself: {status}: {}", self.log());
        Ok(())
    }

    /// Asks it to end by SIGTERM.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn terminate(&self) -> Result<()> {
        self.signal(libc::SIGTERM)
    }

    /// Sends a signal to the node, for example SIGSTOP.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, number: i32) -> Result<()> {
        // SAFETY: takes no pointer; the child has not been waited for, so the number is its own.
        match unsafe { libc::kill(self.child.id() as i32, number) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    /// Stops the node, and waits until none of its threads runs: the signal returns before, and a thread that still runs
    /// answers.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stop(&self) -> Result<()> {
        self.signal(libc::SIGSTOP)?;
        let tasks = format!("/proc/{}/task", self.child.id());
        let stopped = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("State:\tT"))
        };
        wait_until("the node is stopped", || {
            std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().all(stopped))
        });
        Ok(())
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// If it does not end within [`PATIENCE`].
    pub fn ended(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the node still runs: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command `tiercel up` with a control socket and these options.
fn up(socket: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("--socket").arg(socket).arg("up").args(options);
    command
}
