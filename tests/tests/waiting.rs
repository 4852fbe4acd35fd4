//! Commands that wait: what they say, how they end in time, and what an interrupt leaves behind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel::control::{Failure, Request};
use tiercel_node::control::{Handler, ProgressSender, Server, bind};
use tiercel_tests::checks::{pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, program};
use tiercel_tests::{Pair, need_root};
use tokio::runtime::Builder;

/// Size of a file with a little data and a long hole. Both ends hash the hole, so a copy of it lasts.
const LONG: u64 = 64 << 30;

/// Two nodes and a connection.
fn connected(pair: &Pair, directory: &TempDir) -> Result<(NodeProcess, NodeProcess, String)> {
    let up = |host, name| NodeProcess::on(host, directory.path(), name, &[]);
    let (a, b) = (up(&pair.a, "a")?, up(&pair.b, "b")?);
    let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
    Ok((a, b, cid))
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_send_without_a_receive_says_what_it_waits_for_and_ends_in_time() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (a, b, cid) = connected(&pair, &directory)?;
    let late = a.run(&["send", &cid, "--data", "hello", "--timeout", "5s"])?;
    assert_eq!(late.code, 3, "{}", late.stderr);
    for said in ["has not completed: the peer has posted no receive", "no answer within 5s", "conn close"] {
        assert!(late.stderr.contains(said), "{said} in {}", late.stderr);
    }
    // It is still outstanding, and arrives when there is a receive.
    b.ok(&[
        "recv",
        "post",
        &b.json(&["conn", "list"])?[0]["local_cid"].to_string(),
        "--wait",
        "--timeout",
        "60s",
    ])?;
    // What completes in time says nothing of it.
    let region = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    let write = a.run(&["write", &cid, "--rkey", &region, "--data", "x", "--timeout", "60s"])?;
    assert_eq!((write.code, write.stderr.as_str()), (0, ""));
    Ok(())
}

/// Begins a command at a node.
fn begun(node: &NodeProcess, command: &[&str]) -> Result<Child> {
    let mut program = Command::new(program());
    program.arg("--socket").arg(node.socket()).args(command);
    Ok(program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Sends SIGINT to a child that has not been waited for.
fn interrupt(child: &Child) {
    // SAFETY: takes no pointer; the child has not been waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
}

/// Waits until a command handles SIGINT. Before that, the signal ends it without a word.
fn takes_interrupts(child: &Child) {
    let handled = || -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    let interrupt: u64 = 1 << (libc::SIGINT - 1);
    wait_until("the command handles SIGINT", || handled().is_some_and(|mask| mask & interrupt != 0));
}

/// Interrupts a command that waits, and checks what it says last.
fn ends_with(child: Child, left: &str) -> Result<()> {
    takes_interrupts(&child);
    interrupt(&child);
    let ended = child.wait_with_output()?;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(said.lines().next_back(), Some(format!("error: interrupted: {left}").as_str()), "{said}");
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a plain path")
}

/// Returns how many files are being written in a directory.
fn parts(directory: &Path) -> Result<usize> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(entries.iter().filter(|entry| entry.file_name().to_string_lossy().ends_with(".part")).count())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interrupt_ends_a_watch_between_its_lines() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (a, _b, cid) = connected(&pair, &directory)?;
    let mut watch = begun(&a, &["conn", "watch", &cid, "--interval", "100ms", "--json"])?;
    let mut lines = BufReader::new(watch.stdout.take().context("it is piped")?).lines();
    lines.next().context("it watches")??;
    interrupt(&watch);
    lines.try_for_each(|line| line.map(drop))?; // it ends, so this does
    let ended = watch.wait_with_output()?;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted"), "{ended:?}");
    Ok(())
}

/// A node that is stopped answers nothing: a command has its own end.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn no_command_waits_for_a_stopped_node_for_longer_than_it_was_told() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    a.stop()?;
    for command in [&["status"][..], &["down"], &["conn", "list"], &["stats"]] {
        let late = a.run(&[command, &["--timeout", "300ms"]].concat())?;
        assert_eq!(late.code, 1, "{command:?}: {}", late.stderr);
        assert!(late.stderr.contains("no answer within 300ms"), "{command:?}: {}", late.stderr);
    }
    let late = a.run(&["conn", "connect", &pair.b.ipv4.to_string(), "--timeout", "300ms"])?;
    assert_eq!(late.code, 4, "there is no connection: {}", late.stderr);
    assert!(late.stderr.contains("no answer within 300ms"), "{}", late.stderr);
    a.signal(libc::SIGCONT)
}

/// A node that is stopped does not say that it ends a trace. One interrupt ends the command all the same, and the node ends the
/// trace when it goes on.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interrupt_ends_a_trace_of_a_stopped_node() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    let file = directory.path().join("a.trace");
    let file = file.to_str().context("a plain path")?;
    let mut trace = begun(&a, &["trace", "--duration", "3000s", "--out", file])?;
    let traced = || a.json(&["status"]).map(|status| status["trace"].clone());
    wait_until("it is recorded", || traced().is_ok_and(|trace| trace["state"] == "recording"));
    takes_interrupts(&trace);
    a.stop()?;
    interrupt(&trace);
    wait_until("the command ends", || trace.try_wait().is_ok_and(|ended| ended.is_some()));
    let ended = trace.wait_with_output()?;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("interrupted: the node does not answer"), "{said}");
    a.signal(libc::SIGCONT)?;
    wait_until("the node ends the trace", || traced().is_ok_and(|trace| trace.is_null()));
    Ok(())
}

/// A node that is stopped, or ends, as soon as it has said that it ends a trace.
#[derive(Default)]
struct Stopping(AtomicBool);

impl Handler for Stopping {
    async fn handle(
        &self,
        request: Request,
        _: Vec<OwnedFd>,
        progress: ProgressSender,
    ) -> Result<Value, Failure> {
        match request {
            Request::Trace(_) => progress.report(1, None),
            Request::StopTrace(_) => {
                self.0.store(true, Relaxed);
                return Ok(json!({ "stopping": "/a.trace" }));
            }
            _ => {}
        }
        std::future::pending().await
    }
}

/// The node has said that it ends a trace, and is stopped or ends before it has. One interrupt ends the command all the same.
#[test]
fn an_interrupted_trace_ends_with_its_node() -> Result<()> {
    for (ends, code, said) in
        [(false, 130, "interrupted: the node does not answer"), (true, 6, "the connection to the node")]
    {
        let directory = TempDir::new()?;
        let (socket, file) = (directory.path().join("a.sock"), directory.path().join("a.trace"));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let node = Arc::new(Stopping::default());
        let _server = runtime.block_on(async {
            anyhow::Ok(Server::start(bind(&socket)?, socket.clone(), Arc::clone(&node)))
        })?;
        let mut program = Command::new(program());
        program.arg("--socket").arg(&socket).args(["trace", "--duration", "3000s", "--out", text(&file)?]);
        let mut trace = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(trace.stderr.take().context("it is piped")?).lines();
        while !lines.next().context("it says that it records")??.starts_with("recording to") {}
        interrupt(&trace);
        wait_until("the node knows", || node.0.load(Relaxed));
        if ends {
            runtime.shutdown_background();
        }
        wait_until("the command ends", || trace.try_wait().is_ok_and(|ended| ended.is_some()));
        let rest = lines.collect::<std::io::Result<Vec<_>>>()?;
        assert_eq!(trace.wait()?.code(), Some(code), "{rest:?}");
        assert!(rest.iter().any(|line| line.contains(said)), "{rest:?}");
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interrupt_says_what_it_leaves_behind() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (a, _b, cid) = connected(&pair, &directory)?;
    let mut send = begun(&a, &["send", &cid, "--data", "hello"])?;
    let mut lines = BufReader::new(send.stderr.take().context("it is piped")?).lines();
    // The first line comes when the operation has waited for a while.
    let waiting = lines.next().context("it says something")??;
    assert!(waiting.starts_with("waiting: the SEND on connection"), "{waiting}");
    interrupt(&send);
    let rest: Vec<String> = lines.collect::<std::io::Result<_>>()?;
    assert_eq!(send.wait()?.code(), Some(130));
    let last = rest.last().context("it says what is left")?;
    assert!(last.starts_with("error: interrupted: the SEND is still outstanding"), "{last}");
    // The node goes on.
    wait_until("the node answers", || a.json(&["status"]).is_ok());
    Ok(())
}

/// A copy for which nobody waits any more, by a timeout and by SIGINT, in both directions: it is stopped, the destination is
/// as before, and the next copy goes over the same connection.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_copy_that_nobody_waits_for_is_stopped() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (inbox, desk) = (directory.path().join("inbox"), directory.path().join("desk"));
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    for (place, long, old) in [(&inbox, "kept", "sent"), (&desk, "long", "fetched")] {
        fs::create_dir(place)?;
        fs::write(place.join(long), pattern(1 << 20, 1))?;
        File::options().write(true).open(place.join(long))?.set_len(LONG)?;
        fs::write(place.join(old), "as before")?;
    }
    let receive = ["--receive-dir", text(&inbox)?, "--receive-overwrite"];
    let _b = NodeProcess::on(&pair.b, directory.path(), "b", &receive)?;
    let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
    let left = format!("the copy over connection {cid} is stopped, and the destination is as it was before");

    let (long, fetched) = (desk.join("long"), desk.join("fetched"));
    let (to_peer, from_peer) = (format!("{cid}:sent"), format!("{cid}:kept"));
    for (from, to, place, old) in
        [(text(&long)?, &to_peer[..], &inbox, "sent"), (&from_peer[..], text(&fetched)?, &desk, "fetched")]
    {
        let copy = ["cp", "--overwrite", from, to];
        let late = a.run(&[&copy[..], &["--timeout", "2s"]].concat())?;
        assert_eq!(late.code, 3, "{}", late.stderr);
        assert!(late.stderr.contains(&format!("no answer within 2s; {left}")), "{}", late.stderr);
        wait_until("the nodes give the late copy up", || parts(place).is_ok_and(|parts| parts == 0));

        let child = begun(&a, &copy)?;
        wait_until("the copy is under way", || parts(place).is_ok_and(|parts| parts == 1));
        ends_with(child, &left)?;
        wait_until("the nodes give the interrupted copy up", || parts(place).is_ok_and(|parts| parts == 0));
        assert_eq!(fs::read_to_string(place.join(old))?, "as before");
    }
    let short = desk.join("short");
    fs::write(&short, "short")?;
    // The peer counts a copy that was given up until its last operations have ended, and serves two at a time.
    let (copy, mut answer) = (["cp", "--overwrite", text(&short)?, &format!("{cid}:")], String::new());
    wait_until("the next copy is served", || {
        a.run(&copy).is_ok_and(|copied| {
            answer = copied.stderr;
            copied.code == 0 || !answer.contains("wait for one to end, then copy again")
        })
    });
    assert_eq!(fs::read_to_string(inbox.join("short")).context(answer)?, "short");
    Ok(())
}

/// Messages for which nobody waits any more, after a timeout and after SIGINT: the receives stay posted, and `recv list` shows
/// what arrives in them.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn receives_that_nobody_waits_for_stay_posted() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (a, b, cid) = connected(&pair, &directory)?;
    let left = format!("the receives stay posted: `tiercel recv list {cid}` shows what arrives");
    let late = a.run(&["recv", "post", &cid, "--wait", "--timeout", "1s"])?;
    assert_eq!(late.code, 3, "{}", late.stderr);
    assert!(late.stderr.contains(&format!("no answer within 1s; {left}")), "{}", late.stderr);

    let in_state = |state: &str| -> Result<usize> {
        let list = a.json(&["recv", "list", &cid])?;
        Ok(list.as_array().into_iter().flatten().filter(|receive| receive["state"] == state).count())
    };
    assert_eq!(in_state("posted")?, 1);
    let child = begun(&a, &["recv", "post", &cid, "--wait"])?;
    wait_until("the second receive is posted", || in_state("posted").is_ok_and(|posted| posted == 2));
    ends_with(child, &left)?;
    assert_eq!(in_state("posted")?, 2);

    let mut there = None;
    wait_until("B has noted the connection", || {
        there = b.json(&["conn", "list"]).ok().and_then(|list| list[0]["local_cid"].as_u64());
        there.is_some()
    });
    let there = there.context("it is known")?.to_string();
    for message in ["one", "two"] {
        b.ok(&["send", &there, "--data", message, "--timeout", "60s"])?;
    }
    wait_until("both have arrived", || in_state("received").is_ok_and(|received| received == 2));
    let shown = a.ok(&["recv", "list", &cid])?;
    assert!(shown.contains("one") && shown.contains("two"), "{shown}");
    Ok(())
}
