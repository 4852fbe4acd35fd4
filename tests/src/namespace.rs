//! Network namespaces without a name. They are removed when the process ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};

/// The calling thread's network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

type Job = Box<dyn FnOnce() + Send>;

/// A private network namespace. Its loopback interface is up; new interfaces take no addresses of their own.
///
/// The namespace lives as long as this value, sockets opened in it and processes spawned in it. The latter
/// are killed when this value is dropped or this process ends.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
    /// When dropped, ends the resident thread.
    jobs: Option<mpsc::Sender<Job>>,
    resident: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes a new namespace.
    ///
    /// # Errors
    /// Without root, or on a kernel without network namespaces or IPv6.
    pub fn new() -> anyhow::Result<Self> {
        let (ready, opened) = mpsc::channel();
        let (jobs, queue) = mpsc::channel::<Job>();
        let resident = thread::Builder::new().name("namespace".to_owned()).spawn(move || {
            let handle = unshare();
            let usable = handle.is_ok();
            // The receiver waits below for exactly this message.
            ready.send(handle).expect("the creator waits");
            if usable {
                queue.iter().for_each(|job| job());
            }
        })?;
        let handle = opened.recv()?.context("cannot create a network namespace: this needs root")?;
        let namespace = Self { handle, jobs: Some(jobs), resident: Some(resident) };
        namespace.configure("lo", false)?;
        namespace.command("ip", ["link", "set", "lo", "up"])?;
        for interface in ["default", "all"] {
            namespace.configure(interface, true)?;
        }
        Ok(namespace)
    }

    /// Prevents the network stack from sending packets by itself, so that only the seed decides what is on the
    /// wire.
    fn configure(&self, interface: &str, routers: bool) -> anyhow::Result<()> {
        let mut settings = vec![("accept_dad", "0"), ("autoconf", "0")];
        if routers {
            settings.extend([("accept_ra", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")]);
        }
        self.run(|| {
            settings.iter().try_for_each(|(name, value)| {
                let path = format!("/proc/sys/net/ipv6/conf/{interface}/{name}");
                std::fs::write(&path, value).with_context(|| format!("cannot write {value} to {path}"))
            })
        })
    }

    /// Returns a path by which other processes can open the namespace (`nsenter --net=PATH`, `ip link set ...
    /// netns PATH`), valid while this value lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }

    /// Runs `work` on a thread of its own inside the namespace and returns its result. Threads that `work`
    /// starts are inside too. A panic of `work` continues in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            // This cannot fail, because the thread is new and root, and the handle belongs to a namespace.
            join(&self.handle).expect("a thread of root can join a namespace");
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Moves the calling thread into the namespace until the guard is dropped.
    ///
    /// # Errors
    /// If the thread has lost the right to change its namespace.
    pub fn enter(&self) -> io::Result<Entered> {
        let before = File::open(OWN)?;
        join(&self.handle)?;
        Ok(Entered { before, _stays_on_its_thread: PhantomData })
    }

    /// Runs a program inside to its end and returns what it printed.
    ///
    /// # Errors
    /// If the program cannot be started or fails; the error contains its own message.
    pub fn command<I>(&self, program: &str, arguments: I) -> anyhow::Result<String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        self.finish(command, "")
    }

    /// Runs a script of `ip` commands inside, one per line, up to the first that fails.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn ip(&self, script: &str) -> anyhow::Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        self.finish(command, script).with_context(|| format!("in the script\n{script}")).map(drop)
    }

    fn finish(&self, mut command: Command, input: &str) -> anyhow::Result<String> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let mut child = self.spawn(command).with_context(|| format!("cannot start {shown}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that fails early need not read its input. Its exit status shows the failure.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a program inside. It is killed when this namespace is dropped or this process ends, also by
    /// `kill -9`.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            })
        };
        // The kernel sends the signal when the parent thread ends, so the resident thread must be the parent.
        let (report, result) = mpsc::channel();
        let job: Job = Box::new(move || report.send(command.spawn()).expect("the caller waits"));
        let gone = || io::Error::other("the namespace's thread has ended");
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(resident) = self.resident.take() {
            // The thread only runs jobs, and their callers have seen the panics.
            let _ = resident.join();
        }
    }
}

/// A guard: the calling thread is inside a namespace, and dropping this moves it back.
#[derive(Debug)]
pub struct Entered {
    before: File,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Otherwise the thread would run everything that follows in the wrong namespace.
        join(&self.before).expect("the thread can go back where it came from");
    }
}

/// Puts the calling thread into a new namespace and returns a handle to it.
fn unshare() -> io::Result<File> {
    // SAFETY: takes no pointer; affects the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    File::open(OWN)
}

/// Puts the calling thread into the namespace.
fn join(namespace: &File) -> io::Result<()> {
    // SAFETY: takes no pointer; the descriptor is open while it is borrowed.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
