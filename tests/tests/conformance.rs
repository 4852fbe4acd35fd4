//! `tiercel conformance` against a running node, over a veth.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tiercel_cli::decode::{Capture, decode_frame};
use tiercel_tests::cli::{NodeProcess, Outcome, program, tiercel};
use tiercel_tests::{Host, Pair, need_root};

/// The node file of one end, with its address and that of the other. The tester's and the peer's have the same numbers with the
/// two sides exchanged.
fn file([own, other_address]: [&str; 2], peer: &Host, side: usize) -> String {
    let connection = |number: usize, ordered: bool| {
        let (cid, other) = ([5, 10][side] + number, [5, 10][1 - side] + number);
        let (spi, other_spi) = ([7, 8][side], [7, 8][1 - side]);
        let start = |side: usize| {
            let [request_psn, data_psn, rsn] =
                [0xffff_fff0u32, 0xffff_ffe0, 0xffff_ffd0].map(|n| n + side as u32);
            format!("{{ request_psn = {request_psn}, data_psn = {data_psn}, rsn = {rsn} }}")
        };
        format!(
            "\n[[connection]]\nlocal_cid = {cid}\npeer_cid = {other}\npeer_address = \"{}\"\npeer_mac = \"{}\"\n\
             ordered = {ordered}\nlocal_function = {}\npeer_function = {}\n\
             security = {{ mode = \"plaintext\", tx_spi = {spi}, rx_spi = {other_spi} }}\ntx = {}\nrx = {}\n",
            other_address,
            peer.mac,
            side + 1,
            2 - side,
            start(side),
            start(1 - side),
        )
    };
    format!(
        "[node]\ninterface = \"{}\"\naddress = \"{}\"\n\
         [node.congestion]\nplacement = \"constant\"\n\
         [node.tuning]\nrto = \"200ms\"\nmin_rto = \"200ms\"\nmax_retransmit_attempts = 4\n\
         transaction_timeout = \"4s\"\n\
         initial_fcwnd = 8\ninitial_ncwnd = 6\nar_threshold = 2\nar_percent = 20\n{}{}",
        Host::INTERFACE,
        own,
        connection(0, true),
        connection(1, false),
    )
}

/// What the tester is told about the node.
const TOLD: &str =
    "--fcwnd 8 --ncwnd 6 --attempts 4 --transaction-timeout 4s --ar-threshold 2 --ar-percent 20";

/// A node at host A, and the tester's file for host B.
struct Bench {
    node: NodeProcess,
    /// Its address.
    peer: String,
    config: String,
    directory: TempDir,
    pair: Pair,
}

impl Bench {
    fn up() -> Result<Self> {
        let pair = Pair::direct()?;
        let addresses = [&pair.a, &pair.b].map(|host| host.ipv4.to_string());
        Self::on(pair, addresses)
    }

    /// The addresses are those of host A and of host B.
    fn on(pair: Pair, addresses: [String; 2]) -> Result<Self> {
        let directory = TempDir::new()?;
        let [at_a, at_b] = &addresses;
        let write = |name: &str, text: &str| -> Result<String> {
            let path = directory.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.to_str().context("a plain path")?.to_owned())
        };
        let peer = write("peer.toml", &file([at_a, at_b], &pair.b, 0))?;
        let config = write("tester.toml", &file([at_b, at_a], &pair.a, 1))?;
        let node = NodeProcess::up(&pair.a, directory.path(), "peer", &["--config", &peer])?;
        assert_eq!(node.json(&["mr", "register", "8KiB"])?["key"], 1);
        let [peer, _] = addresses;
        Ok(Self { node, peer, config, directory, pair })
    }

    /// Writes a script that makes the node submit what the tester wants.
    fn trigger(&self) -> Result<String> {
        let script = self.directory.path().join("submit.sh");
        let tiercel = format!("{} --socket {}", program().display(), self.node.socket().display());
        let text = format!(
            "case $FALCON_OPERATION in\n\
             write) head -c $FALCON_BYTES /dev/zero | {tiercel} write $FALCON_CID --rkey 1 --file - ;;\n\
             read) {tiercel} read $FALCON_CID --rkey 1 --length $FALCON_BYTES --raw ;;\n\
             esac\n"
        );
        std::fs::write(&script, text)?;
        Ok(format!("sh {}", script.display()))
    }

    /// Runs the tester at host B.
    fn test(&self, options: &[&str]) -> Result<Outcome> {
        let mut command = std::process::Command::new(program());
        command.args(["conformance", "--peer", &self.peer, "--config", &self.config]);
        command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.pair.b.spawn(command)?.wait_with_output()?.try_into()
    }
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_xdp_datapath_passes_every_check() -> Result<()> {
    need_root();
    let bench = Bench::up()?;
    let pcap = bench.directory.path().join("run.pcapng");
    let trigger = bench.trigger()?;
    let options = ["--json", "--pcap", pcap.to_str().context("a plain path")?, "--trigger", &trigger];
    let outcome = bench.test(&options.into_iter().chain(TOLD.split(' ')).collect::<Vec<_>>())?;
    let report: Value = serde_json::from_str(&outcome.stdout).with_context(|| format!("{outcome:?}"))?;
    let clauses = report["clauses"].as_array().context("a list")?;
    let wrong: Vec<_> = clauses.iter().filter(|clause| clause["verdict"] != "pass").collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", bench.node.ok(&["stats"])?);
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""));
    assert_eq!(report["passed"].as_u64(), Some(clauses.len() as u64));
    for role in ["target", "initiator"] {
        assert!(clauses.iter().filter(|clause| clause["role"] == role).count() > 100, "{role}");
    }

    // The capture has the packets of the report, and each is readable.
    let packets: usize = clauses.iter().filter_map(|clause| clause["packets"].as_array()).map(Vec::len).sum();
    let frames: Vec<_> = Capture::open(&pcap)?.collect::<Result<_, _>>()?;
    assert_eq!(frames.len(), packets);
    assert!(frames.iter().filter(|frame| decode_frame(&frame.data).error.is_none()).count() * 2 > packets);
    assert!(frames.windows(2).all(|two| two[0].timestamp <= two[1].timestamp));

    // The last checks have ended both connections (F-11-6). After a reset the tester can use them again.
    for cid in ["5", "6"] {
        bench.node.ok(&["conn", "reset", cid])?;
    }
    let again = bench.test(&["--only", "F-7.2-2"])?;
    assert_eq!(again.code, 0, "{again:?}");
    Ok(())
}

/// A link-local address of IPv6 is valid on one interface only. The tester binds its own with that interface.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_peer_with_a_link_local_address_is_tested() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    for (number, host) in [(1, &pair.a), (2, &pair.b)] {
        host.ip(&format!("addr add fe80::{number}/64 dev veth0 nodad\n"))?;
    }
    let bench = Bench::on(pair, [1, 2].map(|number| format!("fe80::{number}%veth0")))?;
    let outcome = bench.test(&["--only", "F-7.2-2"])?;
    assert_eq!(outcome.code, 0, "{outcome:?}");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_violation_and_a_silent_peer_have_their_exit_codes() -> Result<()> {
    need_root();
    let bench = Bench::up()?;
    // To this tester the peer's SPI is wrong. The peer obeys the clause, so the tester's file is at fault here, but
    // nothing else makes a sound peer fail.
    let good = std::fs::read_to_string(&bench.config)?;
    std::fs::write(&bench.config, good.replace("rx_spi = 7", "rx_spi = 9"))?;
    let outcome = bench.test(&["--only", "F-6.5-2"])?;
    assert_eq!(outcome.code, 7, "{outcome:?}");
    for text in [
        "FAIL     target    F-6.5-2",
        "expected: SPI 9",
        "found:    7",
        "tester  Push Data",
        "0 passed, 1 failed",
    ] {
        assert!(outcome.stdout.contains(text), "no \"{text}\" in {}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("violates 1 clause"), "{}", outcome.stderr);

    std::fs::write(&bench.config, good.replace("peer_cid = 5", "peer_cid = 77"))?;
    let outcome = bench.test(&["--patience", "100ms"])?;
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(outcome.stderr.contains("did not answer"), "{}", outcome.stderr);
    Ok(())
}

/// What is wrong with the preparation is named, and the peer is not accused.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_wrong_preparation_is_diagnosed() -> Result<()> {
    need_root();
    let bench = Bench::up()?;
    let diagnosed = |options: &[&str], text: &str| -> Result<()> {
        let outcome = bench.test(options)?;
        ensure!(outcome.code == 2 && outcome.stderr.contains(text), "no \"{text}\" in {outcome:?}");
        ensure!(!outcome.stdout.contains("FAIL"), "{outcome:?}");
        Ok(())
    };
    let reset =
        || ["5", "6"].into_iter().try_for_each(|cid| bench.node.ok(&["conn", "reset", cid]).map(drop));
    let few = ["--role", "target", "--only", "F-7.2-2,F-7.7.1-3,F-6.6.6-1"];
    assert_eq!(bench.test(&few)?.code, 0);
    diagnosed(&few, "connection 5 is not fresh")?;
    reset()?;
    diagnosed(&["--rkey", "77"], "refuses a WRITE in the first 4096 bytes of the region with R_Key 77")?;
    reset()?;
    let key = bench.node.json(&["mr", "register", "8KiB", "--access", "write,read"])?["key"].to_string();
    diagnosed(&["--rkey", &key], "refuses a fetch-and-add")?;
    reset()?;

    let own = NodeProcess::on(&bench.pair.b, bench.directory.path(), "own", &[])?;
    diagnosed(&[], "a node runs on veth0")?;
    own.ok(&["down"])?;
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_that_do_not_come_are_explained() -> Result<()> {
    need_root();
    let bench = Bench::up()?;
    let options = ["--role", "initiator", "--start-within", "300ms", "--only"];
    let by_hand = bench.test(&[&options[..], &["F-9-6,F-6.4-3", "--by-hand"]].concat())?;
    assert_eq!(by_hand.code, 0, "{by_hand:?}");
    let asked = "submit now at the peer: write of 64 bytes on its connection 5";
    assert!(by_hand.stderr.contains(asked), "{by_hand:?}");
    for text in ["nobody has submitted the write in 300 ms", "give a --trigger", "0 failed, 2 skipped"] {
        assert!(by_hand.stdout.contains(text), "no \"{text}\" in {}", by_hand.stdout);
    }
    // A command that fails is the user's mistake, and no clause is judged by it. It is named once.
    let all = ["--role", "initiator", "--start-within", "300ms", "--trigger"];
    for (command, how) in [("exit 3", "exit status: 3"), ("/nonexistent/submit.sh", "exit status: 127")] {
        let failing = bench.test(&[&all[..], &[command]].concat())?;
        assert_eq!(failing.code, 2, "{failing:?}");
        for text in [how, "the command of --trigger", "FALCON_OPERATION="] {
            assert!(failing.stderr.contains(text), "no \"{text}\" in {failing:?}");
        }
        assert!(!failing.stdout.contains("FAIL"), "{failing:?}");
    }
    Ok(())
}

#[test]
fn wrong_arguments_are_explained() -> Result<()> {
    let listed = tiercel(&["conformance", "--list"])?;
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains("F-7.2-2 "), "{}", listed.stdout);
    let listed: Value = serde_json::from_str(&tiercel(&["conformance", "--list", "--json"])?.stdout)?;
    assert!(listed.as_array().is_some_and(|all| all.iter().any(|one| one["clause"] == "F-7.2-2")));

    let directory = TempDir::new()?;
    let config = directory.path().join("tester.toml");
    std::fs::write(&config, "[node]\ninterface = \"veth9\"\naddress = \"10.7.0.2\"\n")?;
    let config = config.to_str().context("a plain path")?;
    let peer = ["conformance", "--peer", "10.7.0.1"];
    for (options, text) in [
        (&["--config", "/nonexistent"][..], "/nonexistent"),
        (&["--config", config], "no [[connection]] with peer_address"),
        (&["--config", config, "--only", "unknown"], "--list"),
        (&[], "--config"),
        (&["--config", config, "--role", "initiator"], "--trigger"),
        (&["--config", config, "--trigger", "true", "--by-hand"], "cannot be used with"),
        // A clause of the other role.
        (&["--config", config, "--only", "F-11-21"], "of this role"),
        (&["--config", config, "--silence", "0s"], "1ms to 600s"),
        (&["--config", config, "--transaction-timeout", "3600s"], "1ms to 600s"),
    ] {
        let outcome = tiercel(&[&peer, options].concat())?;
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains(text), "{options:?}: no \"{text}\" in {}", outcome.stderr);
    }
    Ok(())
}
