//! `tiercel cp` after an earlier copy was killed in the middle.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tiercel_tests::checks::{pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, program};
use tiercel_tests::{Host, Pair, need_root};

/// Size of a file with a little data and a long hole. Both ends hash the hole, which takes long enough to be killed in the
/// middle, also on a machine that pauses.
const LONG: u64 = 64 << 30;
/// Its data, bytes.
const DATA: usize = 1 << 20;

fn up(host: &Host, directory: &Path, name: &str) -> Result<NodeProcess> {
    let inbox = directory.join(format!("inbox-{name}"));
    std::fs::create_dir_all(&inbox)?;
    let inbox = inbox.to_str().context("a plain path")?;
    NodeProcess::on(host, directory, name, &["--receive-dir", inbox])
}

/// Connects `a` to `b` and returns the CID at `a`.
fn connect(a: &NodeProcess, b: &Host) -> Result<String> {
    Ok(a.json(&["conn", "connect", &b.ipv4.to_string()])?["local_cid"].to_string())
}

fn long_file(path: &Path) -> Result<()> {
    std::fs::write(path, pattern(DATA, 3))?;
    Ok(File::options().write(true).open(path)?.set_len(LONG)?)
}

/// Returns the `.part` files in a directory that are not empty.
fn parts(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let written = entries.into_iter().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".part") && path.metadata().is_ok_and(|metadata| metadata.len() > 0)
    });
    Ok(written.collect())
}

/// Starts `tiercel cp` at a node and returns once its `.part` file in `directory` grows.
fn begin_copy(node: &NodeProcess, from: &str, to: &str, directory: &Path) -> Result<Child> {
    let mut command = Command::new(program());
    command.arg("--socket").arg(node.socket()).args(["cp", from, to]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let ended = std::cell::Cell::new(false);
    wait_until("the copy is under way", || {
        ended.set(child.try_wait().is_ok_and(|status| status.is_some()));
        ended.get() || parts(directory).is_ok_and(|parts| !parts.is_empty())
    });
    if ended.get() {
        bail!("the copy did not last: {}", String::from_utf8_lossy(&child.wait_with_output()?.stderr));
    }
    Ok(child)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_next_copy_cleans_up_after_a_killed_one() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let directory = directory.path();
    let text = |path: &Path| path.to_str().context("a plain path").map(str::to_owned);
    let (inbox, desk) = (directory.join("inbox-b"), directory.join("desk"));
    std::fs::create_dir(&desk)?;
    let mut a = up(&pair.a, directory, "a")?;
    let mut b = up(&pair.b, directory, "b")?;
    let cid = connect(&a, &pair.b)?;
    let long = directory.join("long.bin");
    long_file(&long)?;

    // Only the command is killed. The nodes notice this and leave no file.
    let mut command = begin_copy(&a, &text(&long)?, &format!("{cid}:cancelled.bin"), &inbox)?;
    command.kill()?;
    command.wait()?;
    wait_until("the nodes give the copy up", || parts(&inbox).is_ok_and(|parts| parts.is_empty()));

    // The node that stores the file is killed.
    let mut command = begin_copy(&a, &text(&long)?, &format!("{cid}:"), &inbox)?;
    b.kill()?;
    command.kill()?;
    command.wait()?;
    let left = parts(&inbox)?;
    assert_eq!(left.len(), 1, "what is to be cleaned up");
    b = up(&pair.b, directory, "b")?;
    let cid = connect(&a, &pair.b)?;
    let short = directory.join("short.bin");
    let bytes = pattern(100_000, 7);
    std::fs::write(&short, &bytes)?;
    a.ok(&["cp", &text(&short)?, &format!("{cid}:other.bin")])?;
    assert_eq!(parts(&inbox)?, left, "another file's is left alone");
    a.ok(&["cp", &text(&short)?, &format!("{cid}:long.bin")])?;
    assert!(std::fs::read(inbox.join("long.bin"))? == bytes);
    assert_eq!(parts(&inbox)?, [] as [PathBuf; 0]);
    let told = format!("removed {}: an earlier copy left it, because its node was killed", left[0].display());
    // A restarted node has a log of its own. Its thread writes a little later.
    wait_until("the node tells what it removed", || b.log().contains(&told));

    // The same for a fetched file. Here the command itself reports it.
    long_file(&inbox.join("kept.bin"))?;
    let target = text(&desk.join("fetched.bin"))?;
    let mut command = begin_copy(&a, &format!("{cid}:kept.bin"), &target, &desk)?;
    a.kill()?;
    command.wait()?;
    let left = parts(&desk)?;
    assert_eq!(left.len(), 1);
    a = up(&pair.a, directory, "a")?;
    let cid = connect(&a, &pair.b)?;
    let said = a.ok(&["cp", &format!("{cid}:other.bin"), &target])?;
    assert!(said.contains(&format!("removed {}", left[0].display())), "{said}");
    assert!(std::fs::read(&target)? == bytes);
    assert_eq!(parts(&desk)?, [] as [PathBuf; 0]);
    Ok(())
}
