//! The program `tiercel`, and the example of a user-defined algorithm.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel_tests::checks::pattern;
use tiercel_tests::cli::{NodeProcess, example};
use tiercel_tests::{Host, Pair, need_root};

const PROFILES: &str = r#"
[node.rate_update]
thresholds = [256, 512, 768]

[node.congestion]
algorithm = "newreno"

[profile.rack]
base_delay_target = "80us"
max_fcwnd = 100
"#;

/// Two nodes with node files, connected by the command line.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    cid: String,
    connection: Value,
    directory: TempDir,
    pair: Pair,
}

impl Nodes {
    fn up(connect: &[&str]) -> Result<Self> {
        need_root();
        let (pair, directory) = (Pair::direct()?, TempDir::new()?);
        let up = |host: &Host, name: &str| {
            let file = directory.path().join(format!("{name}.toml"));
            let (interface, address) = (Host::INTERFACE, host.ipv4);
            let node = format!("[node]\ninterface = \"{interface}\"\naddress = \"{address}\"\n{PROFILES}");
            std::fs::write(&file, node)?;
            let inbox = directory.path().join(format!("inbox-{name}"));
            std::fs::create_dir(&inbox)?;
            let plain = |path: &std::path::Path| path.to_str().map(str::to_owned).context("a plain path");
            let options = ["--config", &plain(&file)?, "--receive-dir", &plain(&inbox)?];
            NodeProcess::up(host, directory.path(), name, &options)
        };
        let (a, b) = (up(&pair.a, "a")?, up(&pair.b, "b")?);
        let peer = pair.b.ipv4.to_string();
        let connection = a.json(&[&["conn", "connect", &peer], connect].concat())?;
        let cid = connection["local_cid"].to_string();
        Ok(Self { a, b, cid, connection, directory, pair })
    }

    fn cc(&self, arguments: &[&str]) -> Result<Value> {
        self.a.json(&[&["conn", "cc", &self.cid], arguments].concat())
    }

    fn refused(&self, arguments: &[&str], text: &str) -> Result<()> {
        let outcome = self.a.run(&[&["conn", "cc", &self.cid], arguments].concat())?;
        ensure!(outcome.code == 2 && outcome.stderr.contains(text), "{arguments:?}: {outcome:?}");
        Ok(())
    }

    /// Copies a file to the peer. The program compares it.
    fn copy(&self, name: &str) -> Result<()> {
        let path = self.directory.path().join(name);
        std::fs::write(&path, pattern(4 << 20, name.len() as u64))?;
        let place = format!("{}:", self.cid);
        self.a.ok(&["cp", path.to_str().context("a plain path")?, &place, "--via", "write"])?;
        Ok(())
    }
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn congestion_control_by_the_command_line() -> Result<()> {
    let nodes = Nodes::up(&["--profile", "rack", "--placement", "user"])?;
    let congestion = &nodes.connection["congestion"];
    assert_eq!((&congestion["algorithm"], &congestion["placement"]), (&json!("newreno"), &json!("user")));
    assert_eq!(congestion["parameters"]["base_delay_target"], "80us");
    nodes.copy("first")?;
    let status = nodes.a.json(&["status"])?;
    assert_eq!(status["rate_update"]["connections"], 1);
    assert_eq!(status["rate_update"]["admission"]["thresholds"], json!([256, 512, 768]));
    assert!(status["rate_update"]["results"].as_u64() > Some(0), "{status}");
    assert_eq!(status["profiles"], json!(["auto", "datacenter", "rack"]));

    let set = nodes.cc(&["--cc", "swift", "--placement", "kernel", "--set", "base_delay_target=40us"])?;
    assert_eq!((&set["algorithm"], &set["placement"]), (&json!("swift"), &json!("kernel")));
    // Settings that the command does not name stay.
    assert_eq!(
        (&set["parameters"]["base_delay_target"], &set["parameters"]["max_fcwnd"]),
        (&json!("40us"), &json!(100.0))
    );
    nodes.copy("second")?;
    assert_eq!(nodes.cc(&[])?, set);
    assert_eq!(nodes.a.json(&["status"])?["rate_update"]["connections"], 0);

    nodes.refused(&["--set", "max_fcwnd=4000"], "max_fcwnd must be min_fcwnd to 2047.999 packets")?;
    nodes.refused(&["--set", "delay_select=forward"], "synchronised_clocks")?;
    nodes.refused(&["--set", "window=3"], "window: no such parameter; there are max_fcwnd")?;
    nodes.refused(&["--cc", "bbr"], "there are swift, dcqcn, newreno, fixed")?;
    nodes.refused(&["--profile", "wan"], "choose from auto, datacenter, rack")?;
    assert_eq!(nodes.cc(&[])?, set, "what was refused has changed nothing");
    let text = nodes.a.ok(&["conn", "cc", &nodes.cid])?;
    assert!(text.contains("parameters.dcqcn.gain"), "{text}");
    drop(nodes.b);
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn delays_and_a_connection_over_time_by_the_command_line() -> Result<()> {
    let nodes = Nodes::up(&["--cc", "swift"])?;
    nodes.copy("file")?;
    let shown = nodes.a.json(&["conn", "show", &nodes.cid])?;
    assert!(shown["delays"]["full"]["last_ns"].as_u64() > Some(0), "{shown}");
    assert!(
        shown["delays"]["forward"].is_null() && shown["bytes_completed"].as_u64() >= Some(4 << 20),
        "{shown}"
    );
    let text = nodes.a.ok(&["conn", "show", &nodes.cid])?;
    for field in
        ["delays.fabric.minimum_ns", "delays.one_way_refused", "congestion.placement", "inter_packet_gap_ns"]
    {
        assert!(text.contains(field), "no {field} in {text}");
    }
    let stats = nodes.a.json(&["stats"])?;
    assert!(
        stats["delays"]["full"]["buckets"].as_array().is_some_and(|buckets| !buckets.is_empty()),
        "{stats}"
    );
    let text = nodes.a.ok(&["stats"])?;
    assert!(text.contains("P99") && text.contains("no forward and reverse delay"), "{text}");

    let watch = ["conn", "watch", &nodes.cid, "--interval", "20ms", "--count", "3"];
    let lines = nodes.a.ok(&[&watch[..], &["--json"]].concat())?;
    let samples: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(samples.len(), 3);
    for sample in &samples {
        assert!(sample["fcwnd"].as_f64() > Some(0.0) && sample["goodput_bps"].is_number(), "{sample}");
    }
    let table = nodes.a.ok(&watch)?;
    assert_eq!(table.lines().count(), 4, "a title and three lines: {table}");
    drop((nodes.b, nodes.pair));
    Ok(())
}

/// `examples/delay_aimd.rs` at host A: its algorithm can be chosen by name, in the node file, for a new
/// connection, and for a connection with traffic.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_example_of_an_algorithm_of_ones_own_runs() -> Result<()> {
    need_root();
    let (pair, directory, program) = (Pair::direct()?, TempDir::new()?, example("delay_aimd")?);
    let inbox = directory.path().join("inbox");
    std::fs::create_dir(&inbox)?;
    let file = |host: &Host, name: &str, rest: &str| -> Result<std::path::PathBuf> {
        let (file, address) = (directory.path().join(name), host.ipv4);
        let interface = Host::INTERFACE;
        std::fs::write(
            &file,
            format!("[node]\ninterface = \"{interface}\"\naddress = \"{address}\"\n{rest}"),
        )?;
        Ok(file)
    };
    let own = "[node.congestion]\nalgorithm = \"delay-aimd\"\n";
    let a = NodeProcess::own(&pair.a, directory.path(), "a", &program, &file(&pair.a, "a.toml", own)?)?;
    let file_b = file(&pair.b, "b.toml", "")?;
    let [file_b, inbox] = [&file_b, &inbox].map(|path| path.to_str().expect("a plain path"));
    let options = ["--config", file_b, "--receive-dir", inbox];
    let b = NodeProcess::up(&pair.b, directory.path(), "b", &options)?;
    let status = a.json(&["status"])?;
    assert_eq!(status["algorithms"], json!(["swift", "dcqcn", "newreno", "fixed", "delay-aimd"]));

    let peer = pair.b.ipv4.to_string();
    let of_the_file = a.json(&["conn", "connect", &peer])?;
    let of_the_command = a.json(&["conn", "connect", &peer, "--cc", "delay-aimd"])?;
    let sent = directory.path().join("sent");
    std::fs::write(&sent, pattern(4 << 20, 1))?;
    let sent = sent.to_str().context("a plain path")?;
    for connection in [&of_the_file, &of_the_command] {
        let congestion = &connection["congestion"];
        assert_eq!(
            (&congestion["algorithm"], &congestion["placement"]),
            (&json!("delay-aimd"), &json!("user"))
        );
        let cid = connection["local_cid"].to_string();
        let results = || -> Result<u64> {
            let shown = a.json(&["conn", "show", &cid])?;
            shown["statistics"]["congestion_results"].as_u64().context("a number")
        };
        let copied = |name: &str| a.ok(&["cp", sent, &format!("{cid}:{name}"), "--via", "write"]);
        copied(&format!("first-{cid}"))?;
        let decided = results()?;
        assert!(decided > 0, "it decided over the first file");
        a.ok(&["conn", "cc", &cid, "--cc", "swift", "--placement", "kernel"])?;
        assert_eq!(a.json(&["conn", "cc", &cid])?["algorithm"], "swift");
        a.ok(&["conn", "cc", &cid, "--cc", "delay-aimd"])?;
        copied(&format!("second-{cid}"))?;
        assert!(results()? > decided, "it decides again");
        assert!(a.ok(&["conn", "show", &cid])?.contains("delay-aimd"));
        let watched = a.ok(&["conn", "watch", &cid, "--interval", "5ms", "--count", "1"])?;
        assert!(watched.contains("delay-aimd"), "{watched}");
        let refused = a.run(&["conn", "cc", &cid, "--cc", "bbr"])?;
        let known = "there are swift, dcqcn, newreno, fixed, delay-aimd";
        assert!(refused.code == 2 && refused.stderr.contains(known), "{refused:?}");
    }
    let status = a.json(&["status"])?;
    assert_eq!(
        (&status["rate_update"]["connections"], &status["rate_update"]["panics"]),
        (&json!(2), &json!(0))
    );
    // Another node does not have this algorithm.
    let refused = b.run(&["conn", "connect", &pair.a.ipv4.to_string(), "--cc", "delay-aimd"])?;
    assert!(
        refused.code == 2 && refused.stderr.contains("there are swift, dcqcn, newreno, fixed"),
        "{refused:?}"
    );
    a.ok(&["down"])?;
    Ok(())
}
