//! Commands that wait: what they say, how they end in time, and what an interrupt leaves behind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tiercel_tests::checks::wait_until;
use tiercel_tests::cli::{NodeProcess, program};
use tiercel_tests::{Pair, need_root};

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
    a.signal(libc::SIGSTOP)?;
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
    a.signal(libc::SIGSTOP)?;
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
