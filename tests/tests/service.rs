//! The notices that a node sends to its service manager.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tiercel_tests::checks::PATIENCE;
use tiercel_tests::cli::program;
use tiercel_tests::{Host, Pair, need_root};

/// A node, and the socket on which its service manager would receive notices.
struct Service {
    node: Child,
    notices: UnixDatagram,
    directory: TempDir,
}

impl Service {
    fn start(host: &Host, address: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let notices = UnixDatagram::bind(directory.path().join("notify"))?;
        notices.set_read_timeout(Some(PATIENCE))?;
        let mut command = Command::new(program());
        command.arg("--socket").arg(directory.path().join("control"));
        command.args(["up", "--interface", Host::INTERFACE, "--address", address]);
        command.env("NOTIFY_SOCKET", directory.path().join("notify"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { node: host.spawn(command)?, notices, directory })
    }

    /// Waits for the next notice and returns it.
    fn notice(&self) -> Result<String> {
        let mut buffer = [0; 4096];
        let length = self.notices.recv(&mut buffer).context("no notice came")?;
        Ok(String::from_utf8(buffer[..length].to_vec())?)
    }

    /// Returns whether there is an unread notice.
    fn has_notice(&self) -> Result<bool> {
        self.notices.set_nonblocking(true)?;
        Ok(self.notices.recv(&mut [0]).is_ok())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// Runs a command against a control socket and returns its exit code.
fn tiercel(socket: &Path, command: &str) -> Result<Option<i32>> {
    let mut tiercel = Command::new(program());
    tiercel.arg("--socket").arg(socket).arg(command).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(tiercel.stderr(Stdio::null()).status()?.code())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_is_ready_when_it_serves_and_says_that_it_stops() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let mut service = Service::start(&pair.a, &pair.a.ipv4.to_string())?;
    let ready = service.notice()?;
    assert_eq!(ready, format!("READY=1\nSTATUS=serving {} on {}\n", Host::INTERFACE, pair.a.ipv4));
    // The node answers at once, its XDP program is attached, and it listens for peers.
    let socket = service.directory.path().join("control");
    assert_eq!(tiercel(&socket, "status")?, Some(0));
    let attached = pair.a.command("ip", ["link", "show", Host::INTERFACE])?;
    ensure!(attached.contains("prog/xdp"), "{attached}");
    let listening = pair.a.command("ss", ["--listening", "--tcp", "--numeric"])?;
    ensure!(listening.contains(":4792"), "{listening}");
    assert_eq!(tiercel(&socket, "down")?, Some(0));
    assert_eq!(service.notice()?, "STOPPING=1\nSTATUS=going down: requested by a client\n");
    assert_eq!(service.node.wait()?.code(), Some(0));
    ensure!(!service.has_notice()?, "more than that is said");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_that_does_not_come_up_is_never_ready() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let mut service = Service::start(&pair.a, "10.7.99.99")?;
    assert_ne!(service.node.wait()?.code(), Some(0));
    ensure!(!service.has_notice()?, "it said that it is ready");
    Ok(())
}
