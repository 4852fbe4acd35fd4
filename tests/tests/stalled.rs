//! What a node does when a disk stalls, or the reader of its log, and when it has no file descriptor left.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel_tests::checks::{pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, Outcome, program};
use tiercel_tests::volume::Volume;
use tiercel_tests::{Host, Pair, need_root};
use transport_common::tape::file::{ChunkHead, ChunkKind};

/// Two nodes with two connections. B has a receive directory, and one worker, so one call that waits would stop everything.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    /// The connections.
    cid: String,
    other: String,
    /// A region of B.
    key: String,
    inbox: PathBuf,
    directory: TempDir,
    _pair: Pair,
}

impl Nodes {
    fn up(directory: TempDir, inbox: PathBuf) -> Result<Self> {
        let pair = Pair::direct()?;
        let at_b = pair.b.ipv4.to_string();
        let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
        // The file gets the receive directory and the socket.
        let up = format!("up --interface {} --address {at_b} --receive-dir \"$1\"", Host::INTERFACE);
        let tiercel = program().display();
        let script = directory.path().join("up.sh");
        let line = format!("#!/bin/sh\nexec taskset --cpu-list 0 {tiercel} --socket \"$2\" {up}\n");
        fs::write(&script, line)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        let b = NodeProcess::own(&pair.b, directory.path(), "b", &script, &inbox)?;
        let connect =
            || Ok::<_, anyhow::Error>(a.json(&["conn", "connect", &at_b])?["local_cid"].to_string());
        let (cid, other) = (connect()?, connect()?);
        let key = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
        Ok(Self { a, b, cid, other, key, inbox, directory, _pair: pair })
    }

    /// Makes a file.
    fn file(&self, name: &str, bytes: usize) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::write(&path, pattern(bytes, 1))?;
        Ok(path)
    }

    /// Copies a file to B.
    fn copy(&self, file: &Path, name: &str) -> Result<()> {
        works(quickly(self.a.socket(), &["cp", text(file)?, &format!("{}:{name}", self.cid)])?)
    }

    /// Checks that B answers and that both connections work.
    fn work(&self) -> Result<()> {
        works(quickly(self.b.socket(), &["status"])?)?;
        for cid in [&self.cid, &self.other] {
            works(quickly(self.a.socket(), &["write", cid, "--rkey", &self.key, "--data", "x"])?)?;
        }
        Ok(())
    }

    /// Begins a trace of B.
    fn trace(&self, options: &[&str], out: &Path) -> Result<Running> {
        let mut command = Command::new(program());
        command.arg("--socket").arg(self.b.socket()).args(["trace", "--json"]).args(options);
        command.arg("--out").arg(out).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let trace = Running(command.spawn()?);
        wait_until("it is recorded", || self.traced_is("recording"));
        Ok(trace)
    }

    /// Returns what B says of its trace.
    fn traced(&self) -> Result<Value> {
        let status = quickly(self.b.socket(), &["status", "--json"])?;
        ensure!(status.code == 0, "{}", status.stderr);
        Ok(serde_json::from_str::<Value>(&status.stdout)?["trace"].clone())
    }

    fn traced_is(&self, state: &str) -> bool {
        self.traced().is_ok_and(|trace| trace["state"] == state)
    }
}

/// A trace of B whose file lies on a disk that stalls. The fields are dropped in this order: while the disk stalls, nodes do not
/// end that wait for it.
struct StalledTrace {
    trace: Running,
    volume: Volume,
    nodes: Nodes,
    /// A file to copy.
    big: PathBuf,
    /// The file of the trace.
    file: PathBuf,
}

impl StalledTrace {
    /// Begins a trace that may take so long, and then has its disk stall.
    fn begin(duration: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let inbox = directory.path().join("inbox");
        fs::create_dir(&inbox)?;
        let nodes = Nodes::up(directory, inbox)?;
        // If something fails here, it is dropped before the nodes as well.
        let volume = Volume::mount(nodes.directory.path())?;
        let big = nodes.file("big", 32 << 20)?;
        let file = volume.path().join("run.trace");
        let trace = nodes.trace(&["--duration", duration], &file)?;
        volume.freeze()?;
        Ok(Self { trace, volume, nodes, big, file })
    }
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a plain path")
}

/// Runs a command to a node that may not answer. A test that waited for it without end would leave all it made.
fn quickly(socket: &Path, arguments: &[&str]) -> Result<Outcome> {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program()).arg("--socket").arg(socket).args(arguments);
    command.stdin(Stdio::null()).output()?.try_into()
}

fn works(outcome: Outcome) -> Result<()> {
    ensure!(outcome.code == 0, "exit code {}: {}", outcome.code, outcome.stderr);
    Ok(())
}

/// The disk of the receive directory stalls. The node has one worker, so one call on it would stop everything.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_stalled_disk_stops_nothing_else() -> Result<()> {
    need_root();
    let directory = TempDir::new()?;
    let mounted = Volume::mount(directory.path())?;
    let nodes = Nodes::up(directory, mounted.path().to_owned())?;
    // From here on it is dropped before the nodes, which do not end while they wait for it.
    let volume = mounted;
    let big = nodes.file("big", 200 << 20)?;
    let mut copy = Command::new(program());
    copy.arg("--socket").arg(nodes.a.socket()).arg("cp").arg(&big).arg(format!("{}:big", nodes.cid));
    let copy = copy.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_until("the copy is under way", || {
        let mut entries = fs::read_dir(&nodes.inbox).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
    });
    volume.freeze()?;
    // For longer than a peer waits for a sign of life (5 s), the node answers, and the other connection works.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(8) {
        works(quickly(nodes.b.socket(), &["status"])?)?;
        works(quickly(nodes.a.socket(), &["write", &nodes.other, "--rkey", &nodes.key, "--data", "x"])?)?;
    }
    volume.thaw()?;
    let Output { status, stderr, .. } = copy.wait_with_output()?;
    ensure!(status.success(), "the copy goes on when the disk answers: {}", String::from_utf8_lossy(&stderr));
    assert!(fs::read(nodes.inbox.join("big"))? == pattern(200 << 20, 1));
    Ok(())
}

/// The disk under the file of a trace stalls. The node writes that file, on a thread of its own: the traced connection and another
/// one work on, with or without the command that has asked for the trace. What is lost meanwhile is counted, up to the end of the
/// recording. When the disk answers again, the trace is completed.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_stalled_file_of_a_trace_stops_nothing_else() -> Result<()> {
    need_root();
    let mut stalled = StalledTrace::begin("3000s")?;
    let StalledTrace { trace, volume, nodes, big, file } = &mut stalled;
    // The writer has a buffer, so it goes on for a while. Each copy makes more runs than the writer takes before it says so.
    let (mut runs, mut copies) = (None, 0);
    loop {
        nodes.copy(big, &format!("copy-{copies}"))?;
        let now = nodes.traced()?["runs"].as_u64().context("a trace is being recorded")?;
        if runs.replace(now) == Some(now) {
            break;
        }
        copies += 1;
        ensure!(copies < 20, "the trace goes on, although its disk is frozen: {now} runs");
    }
    // For longer than a peer waits for a sign of life (5 s).
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(6) {
        nodes.work()?;
    }
    while nodes.traced()?["lost"] == 0 {
        copies += 1;
        ensure!(copies < 40, "nothing is lost, although nothing is written");
        nodes.copy(big, &format!("copy-{copies}"))?;
    }
    trace.0.kill()?;
    trace.0.wait()?;
    wait_until("the node ends the trace", || nodes.traced_is("writing"));
    let ended = nodes.traced()?;
    nodes.work()?;
    nodes.copy(big, "after")?;
    let next = nodes.directory.path().join("next.trace");
    let again = ["trace", "--duration", "200ms", "--out", text(&next)?];
    let busy = quickly(nodes.b.socket(), &again)?;
    assert!(busy.code != 0 && busy.stderr.contains("already being recorded"), "{}", busy.stderr);

    volume.thaw()?;
    wait_until("the trace is complete", || nodes.traced().is_ok_and(|trace| trace.is_null()));
    let written = fs::read(file)?;
    let end = ChunkHead { kind: ChunkKind::END, bytes: 16 };
    assert_eq!(written[written.len() - 16 - ChunkHead::LEN..][..ChunkHead::LEN], end.to_bytes());
    let lost = u64::from_le_bytes(written[written.len() - 8..].try_into()?);
    assert_eq!(ended["lost"], lost, "what comes after the end of the recording is not lost: {ended}");
    works(quickly(nodes.b.socket(), &again)?).context("the next trace")?;
    nodes.work()
}

/// The time of a trace is over while its disk stalls. The recording ends then, and only the file is completed later.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_trace_ends_in_time_although_its_file_stalls() -> Result<()> {
    need_root();
    let mut stalled = StalledTrace::begin("5s")?;
    let StalledTrace { trace, volume, nodes, big, .. } = &mut stalled;
    nodes.copy(big, "before")?;
    wait_until("the recording ends", || nodes.traced_is("writing"));
    let ended = nodes.traced()?;
    // More than the ring has room for.
    for number in 0..4 {
        nodes.copy(big, &format!("after-{number}"))?;
    }
    volume.thaw()?;
    let mut said = String::new();
    trace.0.stdout.take().context("it is piped")?.read_to_string(&mut said)?;
    assert!(trace.0.wait()?.success(), "{said}");
    let report: Value = serde_json::from_str(&said)?;
    assert_eq!(report["ended_by"], json!("limit"), "{report}");
    for same in ["lost", "elapsed_ms"] {
        assert_eq!(report[same], ended[same], "{same} of {report}, and of {ended}");
    }
    Ok(())
}

/// Nobody reads the log of a node any more. Lines are lost, and nothing else.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_full_log_pipe_stops_nothing() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let socket = directory.path().join("a.sock");
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new(program());
    command.arg("--socket").arg(&socket).args(["-vvv", "up", "--interface", Host::INTERFACE, "--address"]);
    command.arg(pair.a.ipv4.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut node = Running(pair.a.spawn(command)?);
    let tiercel = |arguments: &[&str]| quickly(&socket, arguments);
    wait_until("the node answers", || tiercel(&["status"]).is_ok_and(|outcome| outcome.code == 0));
    // Each of these writes lines. The pipe has room for 64 KiB.
    for _ in 0..2000 {
        let mut peer = pair.b.run(|| std::net::TcpStream::connect((pair.a.ipv4, 4792)))?;
        let _ = peer.write_all(b"\0\0\0\x08garbage!"); // the node may be faster
    }
    for _ in 0..20 {
        works(tiercel(&["status"])?)?;
    }
    works(tiercel(&["down"])?)?;
    assert_eq!(node.0.wait()?.code(), Some(0));
    drop(reader);
    Ok(())
}

/// Returns how many files a process may have open.
fn most_open_files(process: u32) -> Result<u64> {
    let limits = fs::read_to_string(format!("/proc/{process}/limits"))?;
    let limit =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("it has a limit")?;
    Ok(limit.split_whitespace().next().context("a number")?.parse()?)
}

/// Sets how many files a process may have open. It keeps those that it has.
fn limit_open_files(process: u32, most: u64) -> Result<()> {
    let (process, limit) = (process.to_string(), format!("--nofile={most}:"));
    let status = Command::new("prlimit").args(["--pid", &process, &limit]).status()?;
    ensure!(status.success(), "prlimit {limit}: {status}");
    Ok(())
}

/// Returns the processor time that a process has used, in hundredths of a second.
fn processor_time(process: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, behind_name) = stat.rsplit_once(')').context("a name in parentheses")?;
    // Fields 14 and 15, in user mode and in the kernel. The first one behind the name is field 3.
    let times = behind_name.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().map_err(anyhow::Error::from)).sum()
}

/// A node has no file descriptor left. Clients and peers that come then wait. The node says once what to do, does not spin, and
/// its connections work. When there are descriptors again, it serves those that have waited.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_without_file_descriptors_says_so_and_goes_on() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    let b = NodeProcess::on(&pair.b, directory.path(), "b", &[])?;
    let at_b = pair.b.ipv4.to_string();
    let cid = a.json(&["conn", "connect", &at_b])?["local_cid"].to_string();
    let key = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    let most = most_open_files(b.id())?;

    // A new descriptor would be the fourth at least.
    limit_open_files(b.id(), 3)?;
    let mut client = Command::new(program());
    client.arg("--socket").arg(b.socket()).arg("status").stdin(Stdio::null()).stdout(Stdio::null());
    let mut client = Running(client.spawn()?);
    let mut peer = pair.a.run(|| std::net::TcpStream::connect((pair.b.ipv4, 4792)))?;
    let complaint = |whom: &str| {
        format!(
            "cannot accept {whom}: all file descriptors of the process are in use: raise its limit (`ulimit -n`"
        )
    };
    let complaints = [complaint("a client on the control socket"), complaint("a peer")];
    wait_until("B says what to do", || complaints.iter().all(|complaint| b.log().contains(complaint)));
    let before = processor_time(b.id())?;
    let late = b.run(&["status", "--timeout", "2s"])?;
    assert_eq!(late.code, 1, "{}", late.stderr);
    let used = processor_time(b.id())? - before;
    assert!(used < 100, "{used} hundredths of a second in two seconds");
    assert_eq!(b.log().matches("cannot accept").count(), complaints.len(), "{}", b.log());
    works(quickly(a.socket(), &["write", &cid, "--rkey", &key, "--data", "x"])?)?;
    assert!(client.0.try_wait()?.is_none(), "it waits");

    limit_open_files(b.id(), most)?;
    wait_until("the client is served", || client.0.try_wait().is_ok_and(|ended| ended.is_some()));
    assert_eq!(client.0.wait()?.code(), Some(0));
    // This peer has nothing to say, so it is disconnected.
    peer.set_read_timeout(Some(Duration::from_secs(60)))?;
    peer.read_to_end(&mut Vec::new()).context("the peer is accepted")?;
    for again in ["clients are accepted on the control socket again", "peers are accepted again"] {
        wait_until(again, || b.log().contains(again));
    }
    let events = b.json(&["status"])?["events"].to_string();
    assert!(events.contains("cannot accept a peer: all file descriptors"), "{events}");
    works(quickly(a.socket(), &["conn", "connect", &at_b])?)
}
