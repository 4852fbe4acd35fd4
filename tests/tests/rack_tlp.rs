//! The RACK-TLP extension between two nodes, switched by node file and command line.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tiercel_tests::checks::{PATIENCE, pattern};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::{Host, Pair, need_root};

/// The fabric between the hosts. It spares the handshake, which goes over TCP.
const LOSSY: &str = "loss=10%,scope=udp";
/// Bytes of an operation: five packets, so that losses at its end and before it occur.
const BYTES: usize = 15_000;

/// Two nodes. The extension is on in the node file of B, and in that of A if the test says so.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    pair: Pair,
    directory: TempDir,
}

impl Nodes {
    fn up(pair: Pair, at_a: bool) -> Result<Self> {
        let directory = TempDir::new()?;
        let up = |host: &Host, name: &str, rack_tlp: bool| {
            let file = directory.path().join(format!("{name}.toml"));
            // A probe is sent after two round trips, and only if that is below the timeout. This timeout is far above them,
            // on a busy machine too.
            let text = format!(
                "[node]\ninterface = \"{}\"\naddress = \"{}\"\n\
                 [node.tuning]\nrack_tlp = {rack_tlp}\nrto = \"100ms\"\nmin_rto = \"100ms\"\n",
                Host::INTERFACE,
                host.ipv4
            );
            std::fs::write(&file, text)?;
            let file = file.to_str().context("a plain path")?;
            NodeProcess::up(host, directory.path(), name, &["--config", file])
        };
        let (a, b) = (up(&pair.a, "a", at_a)?, up(&pair.b, "b", true)?);
        Ok(Self { a, b, pair, directory })
    }

    /// Connects A to B. Returns what `conn show` says at both ends.
    fn connect(&self, options: &[&str]) -> Result<[Value; 2]> {
        let peer = self.pair.b.ipv4.to_string();
        let connection = self.a.json(&[&["conn", "connect", &peer], options].concat())?;
        let show = |node: &NodeProcess, cid: &str| node.json(&["conn", "show", &connection[cid].to_string()]);
        Ok([show(&self.a, "local_cid")?, show(&self.b, "peer_cid")?])
    }

    /// Connects over the lossy fabric. WRITEs and READs go over the connection until `counter` of A is not 0. What they
    /// carried is what was posted. Returns what `conn show` says at A in the end.
    fn operate(&self, options: &[&str], counter: &str) -> Result<Value> {
        let cid = self.connect(options)?[0]["local_cid"].to_string();
        let key = self.b.json(&["mr", "register", &BYTES.to_string()])?["key"].to_string();
        let path = |name: &str| {
            let path = self.directory.path().join(name);
            anyhow::Ok(path.to_str().context("a plain path")?.to_owned())
        };
        let (source, back) = (path("source")?, path("back")?);
        let deadline = Instant::now() + PATIENCE;
        for seed in 0.. {
            let bytes = pattern(BYTES, seed);
            std::fs::write(&source, &bytes)?;
            self.a.ok(&["write", &cid, "--rkey", &key, "--file", &source])?;
            self.a.ok(&["read", &cid, "--rkey", &key, "--length", &BYTES.to_string(), "--out", &back])?;
            ensure!(std::fs::read(&back)? == bytes, "operation {seed}: other bytes came back");
            std::fs::remove_file(&back)?;
            let shown = self.a.json(&["conn", "show", &cid])?;
            if shown["statistics"][counter] != 0 {
                return Ok(shown);
            }
            ensure!(Instant::now() < deadline, "{counter} stays 0: {}", shown["statistics"]);
        }
        unreachable!("the loop has no end")
    }
}

/// The option of a connection overrides the tuning of its node.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_option_of_a_connection_overrides_the_node_file() -> Result<()> {
    need_root();
    let nodes = Nodes::up(Pair::direct()?, true)?;
    for (options, on) in [(&[][..], true), (&["--rack-tlp=false"], false), (&["--rack-tlp"], true)] {
        let shown = nodes.connect(options)?.map(|end| end["rack_tlp"].clone());
        assert_eq!(shown, [on, on].map(Value::from), "{options:?}");
    }
    let cid = nodes.connect(&["--rack-tlp=false"])?[0]["local_cid"].to_string();
    let text = nodes.a.ok(&["conn", "show", &cid])?;
    let says_no = |line: &str| line.split_whitespace().eq(["rack_tlp", "no"]);
    assert!(text.lines().any(says_no), "{text}");
    Ok(())
}

/// The option alone has the extension on where the node file does not. Probes repair the ends of operations.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_lossy_link_is_probed() -> Result<()> {
    need_root();
    let nodes = Nodes::up(Pair::through(format!("seed=91,{LOSSY}").parse()?)?, false)?;
    let shown = nodes.operate(&["--rack-tlp"], "tail_probes")?;
    assert_eq!((&shown["rack_tlp"], &shown["state"]), (&Value::from(true), &Value::from("open")));
    Ok(())
}

/// Without the extension, the timeout repairs the ends of operations, and nothing is probed, whatever the node file has.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_connection_without_the_extension_sends_no_probes() -> Result<()> {
    need_root();
    let nodes = Nodes::up(Pair::through(format!("seed=92,{LOSSY}").parse()?)?, true)?;
    let shown = nodes.operate(&["--rack-tlp=false"], "retransmitted_timeout")?;
    assert_eq!((&shown["rack_tlp"], &shown["state"]), (&Value::from(false), &Value::from("open")));
    assert_eq!(shown["statistics"]["tail_probes"], 0);
    Ok(())
}
