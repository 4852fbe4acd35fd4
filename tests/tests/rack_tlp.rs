//! The RACK-TLP extension between two nodes, switched by node file and command line.

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::{Host, Pair, need_root};

/// Two nodes whose node files have the extension on.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    pair: Pair,
    _directory: TempDir,
}

impl Nodes {
    fn up(pair: Pair) -> Result<Self> {
        let directory = TempDir::new()?;
        let up = |host: &Host, name: &str| {
            let file = directory.path().join(format!("{name}.toml"));
            std::fs::write(
                &file,
                format!(
                    "[node]\ninterface = \"{}\"\naddress = \"{}\"\n[node.tuning]\nrack_tlp = true\n",
                    Host::INTERFACE,
                    host.ipv4
                ),
            )?;
            NodeProcess::up(
                host,
                directory.path(),
                name,
                &["--config", file.to_str().context("a plain path")?],
            )
        };
        let (a, b) = (up(&pair.a, "a")?, up(&pair.b, "b")?);
        Ok(Self { a, b, pair, _directory: directory })
    }

    /// Connects A to B. Returns what `conn show` says at both ends.
    fn connect(&self, options: &[&str]) -> Result<[Value; 2]> {
        let peer = self.pair.b.ipv4.to_string();
        let connection = self.a.json(&[&["conn", "connect", &peer], options].concat())?;
        let show = |node: &NodeProcess, cid: &str| node.json(&["conn", "show", &connection[cid].to_string()]);
        Ok([show(&self.a, "local_cid")?, show(&self.b, "peer_cid")?])
    }
}

/// The option of a connection overrides the tuning of its node.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_option_of_a_connection_overrides_the_node_file() -> Result<()> {
    need_root();
    let nodes = Nodes::up(Pair::direct()?)?;
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
