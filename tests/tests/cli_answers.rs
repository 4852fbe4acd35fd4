//! The output of `tiercel` as text and with `--json`, the priority of its settings, and what remains after it
//! ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel_tests::checks::{pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, Outcome, model, program, tiercel};
use tiercel_tests::{Host, Pair, need_root};
use trace_replay::{Decisions, TraceReader};

/// Two connected nodes, each a `tiercel up`.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    /// CIDs as text for the command line.
    cid_a: String,
    cid_b: String,
    directory: TempDir,
    _pair: Pair,
}

impl Nodes {
    fn up() -> Result<Self> {
        let (pair, directory) = (Pair::direct()?, TempDir::new()?);
        let [a, b] = [up(&pair.a, &directory, "a", &[])?, up(&pair.b, &directory, "b", &[])?];
        let connection = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?;
        let (cid_a, cid_b) = (connection["local_cid"].to_string(), connection["peer_cid"].to_string());
        Ok(Self { a, b, cid_a, cid_b, directory, _pair: pair })
    }

    fn path(&self, name: &str) -> Result<String> {
        Ok(self.directory.path().join(name).to_str().context("a plain path")?.to_owned())
    }
}

fn up(host: &Host, directory: &TempDir, name: &str, options: &[&str]) -> Result<NodeProcess> {
    NodeProcess::on(host, directory.path(), name, options)
}

/// Returns the JSON output of a command that must fail with `code`.
fn error(outcome: &Outcome, code: i32) -> Result<Value> {
    ensure!(outcome.code == code, "exit code {}, not {code}: {outcome:?}", outcome.code);
    let said: Value = serde_json::from_str(&outcome.stdout).with_context(|| format!("{outcome:?}"))?;
    let error = said["error"].clone();
    assert_eq!(error["exit_code"], code, "{said}");
    ensure!(error["text"].as_str().is_some_and(|text| outcome.stderr.contains(text)), "{outcome:?}");
    Ok(error)
}

#[test]
fn an_option_outranks_the_environment() -> Result<()> {
    let asked = |options: &[&str]| -> Result<Outcome> {
        let mut command = Command::new(program());
        command.env("TIERCEL_SOCKET", "/nonexistent/environment.sock").args(options).arg("status");
        command.stdin(Stdio::null()).output()?.try_into()
    };
    for (options, socket) in [
        (&["--node", "no-such-node"][..], "/run/tiercel/no-such-node.sock"),
        (&["--socket", "/nonexistent/option.sock"], "/nonexistent/option.sock"),
        (&[], "/nonexistent/environment.sock"),
    ] {
        let outcome = asked(options)?;
        assert_eq!(outcome.code, 6, "{options:?}: {outcome:?}");
        assert!(outcome.stderr.contains(socket), "{options:?}: {outcome:?}");
    }
    // Two options conflict.
    let both = asked(&["--node", "a", "--socket", "b"])?;
    assert_eq!(both.code, 2, "{both:?}");
    Ok(())
}

#[test]
fn what_is_wrong_with_the_command_line_is_told_as_json_too() -> Result<()> {
    let usage = error(&tiercel(&["write", "5", "--rkey", "1", "--json"])?, 2)?;
    assert_eq!((&usage["kind"], &usage["status"]), (&json!("usage"), &Value::Null));
    let both = error(&tiercel(&["mr", "read", "1", "--raw", "--json"])?, 2)?;
    assert!(both["text"].as_str().is_some_and(|text| text.contains("--raw")), "{both}");
    let nobody = error(&tiercel(&["--socket", "/nonexistent/x.sock", "status", "--json"])?, 6)?;
    assert_eq!(nobody["kind"], "no_node");
    let file = error(&tiercel(&["decode", "/nonexistent.pcap", "--json"])?, 5)?;
    assert_eq!(file["kind"], "file");
    Ok(())
}

#[test]
fn up_says_all_that_it_wants() -> Result<()> {
    let nothing = tiercel(&["up"])?;
    assert_eq!(nothing.code, 2, "{nothing:?}");
    for wanted in ["--config", "--interface", "--address"] {
        assert!(nothing.stderr.contains(wanted), "{wanted}: {nothing:?}");
    }
    for (given, missing) in
        [(["--interface", "veth0"], "--address"), (["--address", "10.7.0.1"], "--interface")]
    {
        let outcome = tiercel(&[&["up"], &given[..]].concat())?;
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains(missing), "{outcome:?}");
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_command_answers_as_json() -> Result<()> {
    need_root();
    let mut nodes = Nodes::up()?;
    let Nodes { a, cid_a, .. } = &nodes;
    let key = a.json(&["mr", "register", "4KiB"])?["key"].to_string();
    assert_eq!(a.json(&["mr", "write", &key, "--data", "12345"])?["bytes"], 5);
    assert_eq!(a.json(&["mr", "deregister", &key])?["deregistered"].to_string(), key);
    // The codes of an operation that failed.
    let refused = a.run(&["write", cid_a, "--rkey", "999", "--data", "x", "--json"])?;
    let refused = error(&refused, 3)?;
    assert_eq!((&refused["kind"], &refused["ulp_code"]), (&json!("operation"), &json!(2)));
    assert!(refused["status"].as_u64().is_some_and(|status| status != 0), "{refused}");
    let unknown = error(&a.run(&["conn", "show", "999", "--json"])?, 2)?;
    assert_eq!((&unknown["kind"], &unknown["status"]), (&json!("invalid"), &Value::Null));
    // D-45: a pull that the peer's ULP refused has no Falcon error.
    let read = error(&a.run(&["read", cid_a, "--rkey", "999", "--length", "8", "--json"])?, 3)?;
    assert_eq!((&read["status"], &read["ulp_code"]), (&json!(0), &json!(2)));

    // Only static connections can be reset.
    let managed = error(&a.run(&["conn", "reset", cid_a, "--json"])?, 2)?;
    assert_eq!(managed["kind"], json!("invalid"));
    assert!(managed["text"].as_str().is_some_and(|text| text.contains("connection manager")), "{managed}");

    assert_eq!(a.json(&["conn", "close", cid_a])?["closed"].to_string(), *cid_a);
    assert!(a.json(&["down"])?["down"].is_string());
    assert_eq!(nodes.a.ended()?.code(), Some(0));
    Ok(())
}

/// F-8.4.1-3, F-8.4.1-4, F-8.5.1-3, F-8.5.1-4: a SEND without a receive, and a READ behind it, in the tables of both
/// ends. When a receive is posted they end, and leave the tables.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn transactions_that_wait_are_shown() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let Nodes { a, b, cid_a, cid_b, .. } = &nodes;
    let key = b.json(&["mr", "register", "4KiB", "--access", "read"])?["key"].to_string();
    let tables =
        |node: &NodeProcess, cid: &str| node.json(&["conn", "show", cid]).unwrap()["transactions"].clone();
    let idle = json!({ "initiator": [], "target": [] });
    assert_eq!(tables(a, cid_a), idle);
    let states = |transactions: &Value| -> Vec<String> {
        let rows = transactions.as_array().expect("a list").iter();
        rows.map(|row| row["state"].as_str().expect("a state").to_owned()).collect()
    };
    std::thread::scope(|scope| {
        let send = scope.spawn(|| a.ok(&["send", cid_a, "--data", "waits"]));
        wait_until("the SEND waits for its ULP", || {
            states(&tables(b, cid_b)["target"]) == ["PushReqUlpTx"]
                && states(&tables(a, cid_a)["initiator"]) == ["PushDataTx"]
        });
        let read = scope.spawn(|| a.ok(&["read", cid_a, "--rkey", &key, "--length", "8"]));
        wait_until("the READ waits behind it", || {
            states(&tables(b, cid_b)["target"]) == ["PullReqRx", "PushReqUlpTx"]
                && states(&tables(a, cid_a)["initiator"]) == ["PushDataTx", "PullReqAckd"]
        });
        let waits = tables(b, cid_b)["target"].clone();
        assert_eq!((&waits[0]["waits_for"], &waits[1]["waits_for"]), (&json!("order"), &json!("ulp")));
        let text = b.ok(&["conn", "show", cid_b])?;
        for shown in ["Transactions of the peer:", "PullReqRx", "PushReqUlpTx"] {
            ensure!(text.contains(shown), "{text}");
        }
        b.ok(&["recv", "post", cid_b])?;
        send.join().expect("no panic")?;
        read.join().expect("no panic")?;
        wait_until("both tables are empty", || tables(a, cid_a) == idle && tables(b, cid_b) == idle);
        Ok(())
    })
}

/// D-84: peers that are set up in another way rely on it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_first_region_has_key_1_unless_it_is_given_another() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let (a, cid) = (&nodes.a, &nodes.cid_a);
    nodes.b.ok(&["recv", "post", &nodes.cid_b, "--count", "2"])?;
    a.ok(&["send", cid, "--data", "staged"])?;
    a.ok(&["recv", "post", cid])?;
    assert_eq!(a.json(&["mr", "list"])?, json!([]), "what the command line needs for itself is no region");
    assert_eq!(a.json(&["mr", "register", "4KiB", "--rkey", "0x4d"])?["key"], 0x4d);
    assert_eq!(a.json(&["mr", "register", "4KiB"])?["key"], 1);
    let taken = error(&a.run(&["mr", "register", "4KiB", "--rkey", "77", "--json"])?, 2)?;
    assert!(taken["text"].as_str().is_some_and(|text| text.contains("in use")), "{taken}");
    // Every number may be hexadecimal.
    a.ok(&["mr", "write", "0x4d", "--offset", "0x10", "--data", "hex"])?;
    assert_eq!(a.ok(&["mr", "read", "77", "--offset", "16", "--length", "0x3", "--raw"])?, "hex");
    let hexadecimal = format!("{:#x}", cid.parse::<u32>()?);
    assert_eq!(a.json(&["conn", "show", &hexadecimal])?["local_cid"].to_string(), *cid);
    a.ok(&["recv", "list", &hexadecimal])?;
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn received_messages_are_given_whole() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    // Longer than one answer of the control socket.
    let (long, short) = (pattern(700_000, 3), b"short".to_vec());
    for (length, message) in [("700000", &long), ("64", &short)] {
        let file = nodes.path(length)?;
        std::fs::write(&file, message)?;
        nodes.b.ok(&["recv", "post", &nodes.cid_b, "--length", length])?;
        nodes.a.ok(&["send", &nodes.cid_a, "--file", &file])?;
    }
    let list = || nodes.b.json(&["recv", "list", &nodes.cid_b]).unwrap_or_default();
    wait_until("both messages are listed", || list()[1]["state"] == "received");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let list = list();
    for (row, message) in [long, short].iter().enumerate() {
        assert!(list[row]["hex"] == hex(message), "message {row} is whole");
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn totals_outlive_the_connections() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let key = nodes.b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    nodes.a.ok(&["write", &nodes.cid_a, "--rkey", &key, "--data", "counted"])?;
    let totals = |node: &NodeProcess| Ok::<_, anyhow::Error>(node.json(&["stats"])?["connections"].clone());
    let before = totals(&nodes.a)?;
    assert!(before["packets_sent"].as_u64() > Some(0), "{before}");
    nodes.a.ok(&["conn", "close", &nodes.cid_a])?;
    let after = totals(&nodes.a)?;
    for (name, count) in before.as_object().context("counters")? {
        assert!(after[name].as_u64() >= count.as_u64(), "{name}: {count}, then {}", after[name]);
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_smallest_retransmission_timeout_has_one_name() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let changed = nodes.a.json(&["conn", "cc", &nodes.cid_a, "--set", "min_rto=5ms"])?;
    assert_eq!(changed["parameters"]["min_rto"], "5ms");
    Ok(())
}

/// Starts `tiercel trace` of a node in the background.
fn start_trace(node: &NodeProcess, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(program());
    command.arg("--socket").arg(node.socket()).arg("trace").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// Reads the output of a child up to this text.
fn wait_for_line(child: &mut Child, text: &str) -> Result<String> {
    let said = BufReader::new(child.stderr.as_mut().context("stderr is piped")?);
    let mut all = String::new();
    for line in said.lines() {
        let line = line?;
        if line.contains(text) {
            return Ok(line);
        }
        all.push_str(&line);
    }
    Err(anyhow::anyhow!("it does not say \"{text}\" but: {all}"))
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_trace_says_when_it_is_on_and_when_it_has_ended() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let key = nodes.b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    let file = nodes.path("a.trace")?;
    let mut taken = start_trace(&nodes.a, &["--out", &file, "--duration", "1min", "--json"])?;
    wait_for_line(&mut taken, "recording")?;
    let running = nodes.a.json(&["status"])?["trace"].clone();
    assert_eq!((&running["file"], &running["state"]), (&json!(file), &json!("recording")));
    nodes.a.ok(&["write", &nodes.cid_a, "--rkey", &key, "--data", "traced"])?;
    let unfinished = TraceReader::new(std::fs::File::open(&file)?)
        .map_err(anyhow::Error::from)
        .and_then(|mut reader| Ok(Decisions::replay(&mut reader, |_| {})?));
    let unfinished = unfinished.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(unfinished.contains("still being written"), "{unfinished}");

    // Ctrl-C ends it, and it reports when the file is complete.
    // SAFETY: takes no pointer; the child has not been waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(taken.id() as i32, libc::SIGINT) }, 0);
    let mut said = String::new();
    taken.stdout.take().context("stdout is piped")?.read_to_string(&mut said)?;
    let status = taken.wait()?;
    assert_eq!(status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_str(&said)?;
    assert_eq!((&report["file"], &report["ended_by"]), (&json!(file), &json!("request")));
    assert_eq!(report["bytes"].as_u64(), Some(std::fs::metadata(&file)?.len()));
    Decisions::replay(&mut TraceReader::new(std::fs::File::open(&file)?)?, |_| {})?;
    assert_eq!(nodes.a.json(&["status"])?["trace"], Value::Null);
    let words = nodes.a.ok(&["trace", "--out", &nodes.path("b.trace")?, "--duration", "10ms"])?;
    assert!(words.contains("ended") && words.contains("b.trace"), "{words}");
    Ok(())
}

/// A command behind `--` runs while everything is recorded, and what it does is in the trace.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_trace_of_a_command_has_what_the_command_does() -> Result<()> {
    need_root();
    let nodes = Nodes::up()?;
    let key = nodes.b.json(&["mr", "register", "64KiB"])?["key"].to_string();
    let (file, data) = (nodes.path("a.trace")?, nodes.path("data")?);
    std::fs::write(&data, pattern(65_536, 1))?;
    let tiercel = program().to_str().context("a plain path")?;
    let socket = nodes.a.socket().to_str().context("a plain path")?;
    let write = [tiercel, "--socket", socket, "write", &nodes.cid_a, "--rkey", &key, "--file", &data];
    let traced = nodes.a.run(&[&["trace", "--out", &file, "--json", "--"], &write[..]].concat())?;
    ensure!(traced.code == 0, "{traced:?}");
    ensure!(traced.stderr.contains("bytes written"), "the command's output goes to stderr: {traced:?}");
    let report: Value = serde_json::from_str(&traced.stdout).with_context(|| format!("{traced:?}"))?;
    // The first connection with these packets: each of them and its acknowledgement is a run, and more are.
    ensure!(report["runs"].as_u64().is_some_and(|runs| runs >= 20), "{report}");
    replays_and_misses_budgets(&file)?;

    let nothing = nodes.a.run(&["trace", "--out", &nodes.path("b.trace")?, "--", "/nonexistent/command"])?;
    ensure!(nothing.code == 2 && nothing.stderr.contains("cannot start /nonexistent/command"), "{nothing:?}");
    let failing = nodes.a.run(&["trace", "--out", &nodes.path("c.trace")?, "--json", "--", "false"])?;
    ensure!(
        error(&failing, 1)?["text"].as_str().is_some_and(|text| text.contains("false failed")),
        "{failing:?}"
    );
    Ok(())
}

/// A good trace is replayed without an error, also in a card that is too slow for it.
fn replays_and_misses_budgets(file: &str) -> Result<()> {
    let replay = |options: &[&str]| -> Result<Outcome> {
        let slow = ["replay", file, "--clock", "1MHz", "--rate", "400Gbps"];
        Command::new(model()?).args(slow).args(options).stdin(Stdio::null()).output()?.try_into()
    };
    let said = replay(&["--json"])?;
    ensure!(said.code == 0, "{said:?}");
    let report: Value = serde_json::from_str(&said.stdout)?;
    let experiments = report["experiments"].as_array().context("a report")?;
    let verdicts = experiments.iter().filter_map(|of| of["verdicts"].as_array()).flatten();
    ensure!(verdicts.into_iter().any(|verdict| verdict["holds"] == false), "the card is too slow: {report}");
    let strict = replay(&["--strict"])?;
    ensure!(strict.code == 1, "{strict:?}");
    Ok(())
}

/// A trace without traffic is called empty, also by the replay.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_empty_trace_is_called_empty() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let node = up(&pair.a, &directory, "a", &[])?;
    let file = directory.path().join("a.trace");
    let file = file.to_str().context("a plain path")?;
    let words = node.ok(&["trace", "--out", file, "--duration", "10ms"])?;
    ensure!(words.contains("is empty"), "{words}");
    let replayed: Outcome = Command::new(model()?).args(["replay", file]).output()?.try_into()?;
    ensure!(replayed.code == 1 && replayed.stderr.contains("the trace is empty"), "{replayed:?}");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_refused_trace_leaves_no_file() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let node = up(&pair.a, &directory, "a", &["--hardware-timestamps", "true"])?;
    let file = directory.path().join("refused.trace");
    let refused = node.run(&["trace", "--out", file.to_str().context("a plain path")?])?;
    ensure!(refused.code == 2 && refused.stderr.contains("hardware_timestamps = false"), "{refused:?}");
    assert!(!file.exists(), "nothing is left behind");
    Ok(())
}
