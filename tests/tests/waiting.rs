//! Commands that wait: what they say, how they end in time, and what an interrupt leaves behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interrupt_says_what_it_leaves_behind() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let (a, _b, cid) = connected(&pair, &directory)?;
    let mut send = Command::new(program())
        .arg("--socket")
        .arg(a.socket())
        .args(["send", &cid, "--data", "hello"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(send.stderr.take().context("it is piped")?).lines();
    // The first line comes when the operation has waited for a while.
    let waiting = lines.next().context("it says something")??;
    assert!(waiting.starts_with("waiting: the SEND on connection"), "{waiting}");
    // SAFETY: takes no pointer; the child has not been waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(send.id() as i32, libc::SIGINT) }, 0);
    let rest: Vec<String> = lines.collect::<std::io::Result<_>>()?;
    assert_eq!(send.wait()?.code(), Some(130));
    let last = rest.last().context("it says what is left")?;
    assert!(last.starts_with("error: interrupted: the SEND is still outstanding"), "{last}");
    // The node goes on.
    wait_until("the node answers", || a.json(&["status"]).is_ok());
    Ok(())
}
