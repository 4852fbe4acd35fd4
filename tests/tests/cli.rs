//! The program `tiercel` between two hosts, from `up` to `down`, and its error messages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use falcon_nic::Parameters;
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel_node::config::DEFAULT_CONTROL_PORT;
use tiercel_tests::checks::{PATIENCE, pattern, wait_until};
use tiercel_tests::cli::{NodeProcess, Outcome, tiercel};
use tiercel_tests::{Host, Pair, need_root};
use trace_replay::Request;

/// Two nodes, each a `tiercel up`, connected by the connection manager.
struct Nodes {
    a: NodeProcess,
    b: NodeProcess,
    /// CIDs as text for the command line.
    cid_a: String,
    cid_b: String,
    directory: TempDir,
    pair: Pair,
}

impl Nodes {
    fn up(ipv6: bool) -> Result<Self> {
        let (pair, directory) = (Pair::direct()?, TempDir::new()?);
        let address = |host: &Host| if ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let up = |host: &Host, name: &str| {
            let inbox = directory.path().join(format!("inbox-{name}"));
            std::fs::create_dir(&inbox)?;
            let inbox = inbox.to_str().context("a plain path")?;
            let address = address(host);
            let receive = ["--receive-dir", inbox, "--receive-overwrite"];
            let options = [&["--interface", Host::INTERFACE, "--address", &address][..], &receive].concat();
            NodeProcess::up(host, directory.path(), name, &options)
        };
        let (a, b) = (up(&pair.a, "a")?, up(&pair.b, "b")?);
        let connection = a.json(&["conn", "connect", &address(&pair.b)])?;
        let (cid_a, cid_b) = (connection["local_cid"].to_string(), connection["peer_cid"].to_string());
        assert_eq!(connection["state"], "open");
        Ok(Self { a, b, cid_a, cid_b, directory, pair })
    }

    /// Makes a file with a pattern, in the common directory.
    fn file(&self, name: &str, length: usize) -> Result<(String, Vec<u8>)> {
        let (path, bytes) = (self.path(name)?, pattern(length, length as u64));
        std::fs::write(&path, &bytes)?;
        Ok((path, bytes))
    }

    fn path(&self, name: &str) -> Result<String> {
        Ok(self.directory.path().join(name).to_str().context("a plain path")?.to_owned())
    }

    /// Runs a command that must fail with this code and this text.
    fn refused(&self, arguments: &[&str], code: i32, text: &str) -> Result<()> {
        expect(self.a.run(arguments)?, arguments, code, text)
    }

    fn everything_is_given_back(&self) -> Result<()> {
        for node in [&self.a, &self.b] {
            wait_until("every queue and pool is empty", || {
                let pools = node.json(&["status"]).map(|status| status["pools"].clone()).unwrap_or_default();
                ["cells_in_use", "send_entries", "receive_entries", "completions"]
                    .iter()
                    .all(|pool| pools[pool] == 0)
            });
        }
        Ok(())
    }
}

fn expect(outcome: Outcome, arguments: &[&str], code: i32, text: &str) -> Result<()> {
    let Outcome { code: got, stdout, stderr } = outcome;
    ensure!(got == code, "{arguments:?}: exit code {got}, not {code}: {stderr}{stdout}");
    ensure!(stderr.contains(text), "{arguments:?} does not say \"{text}\" but: {stderr}");
    ensure!(stdout.is_empty() || code == 0, "{arguments:?}: errors go to stderr: {stdout}");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_session_from_up_to_down() -> Result<()> {
    need_root();
    let mut nodes = Nodes::up(false)?;
    status_and_connections(&nodes)?;
    let key = regions(&nodes)?;
    one_sided(&nodes, &key)?;
    trace(&nodes, &key)?;
    messages(&nodes)?;
    atomics(&nodes, &key)?;
    function_reset(&nodes, &key)?;
    refusals(&nodes, &key)?;
    tables_for_people(&nodes)?;
    nodes.everything_is_given_back()?;
    nodes.a.ok(&["conn", "close", &nodes.cid_a])?;
    assert_eq!(nodes.a.json(&["conn", "list"])?, json!([]));
    wait_until("the peer has closed as well", || {
        nodes.b.json(&["conn", "list"]).is_ok_and(|list| list == json!([]))
    });
    assert!(nodes.a.ok(&["down"])?.contains("is down"));
    assert_eq!(nodes.a.ended()?.code(), Some(0));
    Ok(())
}

/// F-7.1.2-1: every combination of outer and inner IP version, by the options of `conn connect`.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn connections_in_tunnels() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let nodes = Nodes::up(ipv6)?;
        let key = nodes.b.json(&["mr", "register", "4KiB"])?["key"].to_string();
        let peer = if ipv6 { nodes.pair.b.ipv6.to_string() } else { nodes.pair.b.ipv4.to_string() };
        let connect = ["conn", "connect", &peer];
        for (own, other) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let inner = ["--inner-local", own, "--inner-peer", other];
            let there = nodes.a.json(&[&connect[..], &inner].concat())?;
            let back = nodes.b.json(&["conn", "show", &there["peer_cid"].to_string()])?;
            assert_eq!(there["tunnel"], json!({ "local": own, "peer": other }));
            assert_eq!(back["tunnel"], json!({ "local": other, "peer": own }), "the peer takes what A names");
            let data = format!("over {own}");
            nodes.a.ok(&["write", &there["local_cid"].to_string(), "--rkey", &key, "--data", &data])?;
            let length = data.len().to_string();
            assert_eq!(nodes.b.ok(&["mr", "read", &key, "--length", &length, "--raw"])?, data);
        }
        for (inner, text) in [
            (&["--inner-local", "192.0.2.1"][..], "--inner-peer"),
            (&["--inner-local", "192.0.2.1", "--inner-peer", "2001:db8::2"], "differ in IP version"),
            (&["--inner-local", "here", "--inner-peer", "192.0.2.2"], "here"),
        ] {
            nodes.refused(&[&connect[..], inner].concat(), 2, text)?;
        }
    }
    Ok(())
}

fn status_and_connections(nodes: &Nodes) -> Result<()> {
    let status = nodes.a.json(&["status"])?;
    assert_eq!(status["pid"], nodes.a.id());
    assert_eq!(status["device"]["interface"], Host::INTERFACE);
    assert_eq!(status["device"]["address"], nodes.pair.a.ipv4.to_string());
    assert_eq!((&status["attach"], &status["pools"]["connections"]), (&json!("native"), &json!(1)));
    let list = nodes.a.json(&["conn", "list"])?;
    let rows = list.as_array().context("a list")?;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["local_cid"].to_string(), nodes.cid_a);
    assert_eq!((&rows[0]["managed"], &rows[0]["ordered"]), (&json!(true), &json!(true)));
    // The end that is connected to notes it a moment after the other end has its answer.
    let mut shown = Value::Null;
    wait_until("B has noted the connection", || {
        shown = nodes.b.json(&["conn", "show", &nodes.cid_b]).unwrap_or_default();
        shown["managed"] == true
    });
    assert_eq!(shown["peer_cid"].to_string(), nodes.cid_a);
    assert_eq!(shown["peer_address"], nodes.pair.a.ipv4.to_string());
    assert_eq!(shown["data_tx"]["unacknowledged"], 0);
    let mtu = &status["device"]["mtu"];
    assert_eq!((&shown["session"]["mtu"], &shown["session"]["path_mtu"]), (mtu, mtu));
    Ok(())
}

/// Registers a region at B and returns the R_Key. The connection managers tell A about it.
fn regions(nodes: &Nodes) -> Result<String> {
    let region = nodes.b.json(&["mr", "register", "1MiB", "--name", "table"])?;
    let key = region["key"].to_string();
    assert_eq!(region["length"], 1 << 20);
    wait_until("the peer's region is announced", || {
        let shown = nodes.a.json(&["conn", "show", &nodes.cid_a]).unwrap_or_default();
        shown["session"]["peer_regions"][0]["name"] == "table"
    });
    let list = nodes.b.json(&["mr", "list"])?;
    assert!(list.as_array().is_some_and(|rows| rows.iter().any(|row| row["key"] == region["key"])));
    nodes.b.ok(&["mr", "write", &key, "--offset", "16", "--hex", "00 01 fe ff"])?;
    let read = nodes.b.json(&["mr", "read", &key, "--offset", "14", "--length", "8"])?;
    assert_eq!(read["hex"], "00000001feff0000");
    let other = nodes.b.json(&["mr", "register", "4096", "--access", "none"])?["key"].to_string();
    nodes.b.ok(&["mr", "deregister", &other])?;
    Ok(key)
}

fn one_sided(nodes: &Nodes, key: &str) -> Result<()> {
    let cid = &nodes.cid_a;
    let written = nodes.a.json(&["write", cid, "--rkey", key, "--address", "0x1000", "--data", "hello"])?;
    assert_eq!((&written["bytes"], &written["status"]), (&json!(5), &json!(0)));
    assert_eq!(nodes.b.ok(&["mr", "read", key, "--offset", "4096", "--length", "5", "--raw"])?, "hello");
    let read = nodes.a.json(&["read", cid, "--rkey", key, "--address", "4096", "--length", "5"])?;
    assert_eq!(read["hex"], "68656c6c6f");

    let (path, bytes) = nodes.file("image.bin", 700_000)?;
    nodes.a.ok(&["write", cid, "--rkey", key, "--file", &path])?;
    let copy = nodes.path("copy.bin")?;
    nodes.a.ok(&["read", cid, "--rkey", key, "--length", "700000", "--out", &copy])?;
    assert!(std::fs::read(&copy)? == bytes);
    // From a region to a region, and back into a region.
    let local = nodes.a.json(&["mr", "register", "64KiB"])?["key"].to_string();
    nodes.a.ok(&["mr", "write", &local, "--data", "from a region"])?;
    nodes.a.ok(&["write", cid, "--rkey", key, "--region", &format!("{local}:0:13")])?;
    nodes.a.ok(&["read", cid, "--rkey", key, "--length", "13", "--region", &format!("{local}:100")])?;
    let back = nodes.a.ok(&["mr", "read", &local, "--offset", "100", "--length", "13", "--raw"])?;
    assert_eq!(back, "from a region");
    nodes.a.ok(&["mr", "deregister", &local])?;
    Ok(())
}

/// A trace taken while a file crosses, and its replay in the blocks of the card.
fn trace(nodes: &Nodes, key: &str) -> Result<()> {
    let (file, (image, _)) = (nodes.path("b.trace")?, nodes.file("traced.bin", 300_000)?);
    let socket = nodes.b.socket().to_str().context("a plain path")?.to_owned();
    let outcome = std::thread::scope(|scope| {
        let taken = scope.spawn(|| {
            tiercel(&[
                "--socket",
                &socket,
                "trace",
                "--out",
                &file,
                "--runs",
                "300",
                "--duration",
                "60s",
                "--json",
            ])
        });
        while !taken.is_finished() {
            nodes.a.ok(&["write", &nodes.cid_a, "--rkey", key, "--file", &image])?;
        }
        taken.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    ensure!(outcome.code == 0, "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout)?;
    assert!(report["runs"].as_u64().is_some_and(|runs| runs >= 300), "{report}");
    assert_eq!(
        (&report["lost"], report["bytes"].as_u64()),
        (&json!(0), Some(std::fs::metadata(&file)?.len()))
    );
    let request = Request { trace: file.clone().into(), parameters: Parameters::default(), events: None };
    let tables = trace_replay::report(&request, |_, _| {})?;
    assert_eq!(tables.len(), 4);
    assert!(tables.iter().flat_map(|table| &table.verdicts).all(|verdict| verdict.holds), "{tables:#?}");
    let events = tables[0].cases[0].value("events");
    assert!(events.is_some_and(|events| events > 200.0), "{events:?}");
    let again = tiercel(&["--socket", &socket, "trace", "--out", &file])?;
    expect(again, &["trace"], 5, "Name a new file")
}

fn messages(nodes: &Nodes) -> Result<()> {
    let posted = nodes.b.json(&["recv", "post", &nodes.cid_b, "--count", "2", "--length", "64"])?;
    assert!(posted.as_array().is_some_and(|rows| rows.iter().all(|row| row["state"] == "posted")));
    nodes.a.ok(&["send", &nodes.cid_a, "--data", "first", "--immediate", "0x2a"])?;
    nodes.a.ok(&["send", &nodes.cid_a, "--hex", "ff00"])?;
    let received = || nodes.b.json(&["recv", "list", &nodes.cid_b]).unwrap_or_default();
    wait_until("both messages are listed", || received()[1]["state"] == "received");
    let rows = received();
    assert_eq!((&rows[0]["hex"], &rows[0]["immediate"]), (&json!("6669727374"), &json!(42)));
    assert_eq!((&rows[1]["bytes"], &rows[1]["immediate"]), (&json!(2), &Value::Null));
    // A waiting receive returns with its message.
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| nodes.b.json(&["recv", "post", &nodes.cid_b, "--wait"]));
        nodes.a.ok(&["send", &nodes.cid_a, "--data", "awaited"])?;
        let rows = wait.join().expect("no panic")?;
        assert_eq!((&rows[0]["state"], &rows[0]["bytes"]), (&json!("received"), &json!(7)));
        Ok(())
    })
}

fn atomics(nodes: &Nodes, key: &str) -> Result<()> {
    let cid = &nodes.cid_a;
    nodes.b.ok(&["mr", "write", key, "--offset", "64", "--hex", "0500000000000000"])?;
    let add = nodes.a.json(&["atomic", "fetch-add", cid, "--rkey", key, "--address", "64", "--add", "7"])?;
    assert_eq!(add["original"], 5);
    let swap = |compare: &str| {
        let place = ["atomic", "compare-swap", cid, "--rkey", key, "--address", "64"];
        nodes.a.json(&[&place[..], &["--compare", compare, "--swap", "100"]].concat())
    };
    assert_eq!(swap("5")?["swapped"], false);
    let swapped = swap("12")?;
    assert_eq!((&swapped["swapped"], &swapped["original"]), (&json!(true), &json!(12)));
    Ok(())
}

/// F-11-17, F-11-20, F-11-23: while the function behind B's end is being reset, new requests of both ends are dropped.
fn function_reset(nodes: &Nodes, key: &str) -> Result<()> {
    let write = ["--rkey", key, "--data", "x"];
    let of_a = [&["write", nodes.cid_a.as_str()], &write[..]].concat();
    let of_b = [&["write", nodes.cid_b.as_str()], &write[..]].concat();
    let printed = nodes.b.ok(&["conn", "xlr", &nodes.cid_b, "begin"])?;
    assert!(printed.contains("drops new requests"), "{printed}");
    assert_eq!(nodes.b.json(&["conn", "show", &nodes.cid_b])?["drops_requests"], true);
    nodes.refused(&of_a, 3, "kCmplRemoteErr")?;
    let own = nodes.b.run(&of_b)?;
    assert_eq!(own.code, 3, "{own:?}");
    assert!(own.stderr.contains("kCmplLocalXlr"), "{own:?}");
    // Once more changes nothing.
    assert_eq!(nodes.b.json(&["conn", "xlr", &nodes.cid_b, "begin"])?["drops_requests"], true);
    assert_eq!(nodes.b.json(&["conn", "xlr", &nodes.cid_b, "end"])?["drops_requests"], false);
    nodes.a.ok(&of_a)?;
    nodes.refused(&["conn", "xlr", "999", "begin"], 2, "no connection has CID 999")?;
    nodes.refused(&["conn", "xlr", &nodes.cid_a, "off"], 2, "begin")
}

/// Exit codes show the kind of failure, and the text says what to do.
fn refusals(nodes: &Nodes, key: &str) -> Result<()> {
    let cid = &nodes.cid_a;
    nodes.refused(&["write", cid, "--rkey", key], 2, "--data")?;
    nodes.refused(&["write", "999", "--rkey", key, "--data", "x"], 2, "no connection has CID 999")?;
    nodes.refused(&["conn", "show", "999"], 2, "tiercel conn list")?;
    nodes.refused(&["conn", "close", "999"], 2, "no connection has CID 999")?;
    nodes.refused(&["mr", "deregister", "999"], 2, "999")?;
    nodes.refused(&["mr", "register", "0"], 2, "at least 1 byte")?;
    nodes.refused(&["mr", "register", "1GiB"], 2, "register less")?;
    nodes.refused(&["write", cid, "--rkey", "999", "--data", "x"], 3, "unknown R_Key")?;
    nodes.refused(
        &["read", cid, "--rkey", key, "--address", "1MiB", "--length", "1"],
        3,
        "outside the region",
    )?;
    let misaligned = ["atomic", "fetch-add", cid, "--rkey", key, "--address", "4", "--add", "1"];
    nodes.refused(&misaligned, 2, "not a multiple of 8")?;
    nodes.refused(&["write", cid, "--rkey", key, "--file", "/nonexistent"], 5, "/nonexistent")?;
    let existing = nodes.path("copy.bin")?;
    nodes.refused(&["read", cid, "--rkey", key, "--length", "1", "--out", &existing], 5, "copy.bin")?;
    nodes.refused(&["cp", "/nonexistent", &format!("{cid}:")], 5, "/nonexistent")?;
    nodes.refused(&["cp", &existing, &format!("{cid}:../escape")], 2, "../escape")?;
    nodes.refused(&["conn", "connect", "10.7.0.77:1"], 4, "10.7.0.77")?;
    nodes.refused(&["conn", "connect", &format!("{}:1", nodes.pair.b.ipv4)], 4, "refused")?;
    nodes.refused(&["conn", "connect", &nodes.pair.a.ipv4.to_string()], 4, "")?;
    // The connection still works.
    nodes.a.ok(&["write", cid, "--rkey", key, "--data", "still here"])?;
    Ok(())
}

/// Without `--json` the output is words and tables.
fn tables_for_people(nodes: &Nodes) -> Result<()> {
    let cid = &nodes.cid_a;
    for (arguments, words) in [
        (&["status"][..], &["device.interface", "veth0", "engine.mode", "Latest events"][..]),
        (&["conn", "list"], &["CID", "STATE", "open", "managed"]),
        (
            &["conn", "show", cid],
            &["data_tx.base_psn", "crosses the path", "Regions the peer offers", "table"],
        ),
        (&["stats"], &["counters.received", "connections.packets_sent"]),
        (&["stats", "--all"], &["counters.drop_replay"]),
    ] {
        let printed = nodes.a.ok(arguments)?;
        for word in words {
            assert!(printed.contains(word), "{arguments:?} does not show {word}: {printed}");
        }
    }
    assert!(nodes.b.ok(&["mr", "list"])?.contains("read,write,atomic"));
    let stats = nodes.a.json(&["stats"])?;
    assert!(stats["counters"]["received"].as_u64() > Some(0) && stats["counters"]["drop_replay"] == 0);
    assert_eq!(stats["connection_manager"]["established"], 1);
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn files_cross_both_ways_by_every_verb() -> Result<()> {
    need_root();
    let nodes = Nodes::up(true)?;
    let (path, bytes) = nodes.file("picture.bin", 3_000_001)?;
    let inbox = nodes.directory.path().join("inbox-b");
    for via in ["write", "read", "send"] {
        let there = nodes.a.json(&["cp", &path, &format!("{}:{via}.bin", nodes.cid_a), "--via", via])?;
        assert_eq!((&there["bytes"], &there["via"]), (&json!(bytes.len()), &json!(via)));
        assert!(std::fs::read(inbox.join(format!("{via}.bin")))? == bytes, "{via}: there");
        let back = nodes.path(&format!("back-{via}.bin"))?;
        let fetched = nodes.a.json(&["cp", &format!("{}:{via}.bin", nodes.cid_a), &back, "--via", via])?;
        assert_eq!(fetched["sha256"], there["sha256"]);
        assert!(std::fs::read(&back)? == bytes, "{via}: back");
    }
    let again = format!("{}:send.bin", nodes.cid_a);
    nodes.refused(&["cp", &path, &again], 5, "--overwrite")?;
    nodes.a.ok(&["cp", &path, &again, "--overwrite"])?;
    nodes.refused(&["cp", &format!("{}:missing.bin", nodes.cid_a), &nodes.path("")?], 5, "missing.bin")?;
    let (empty, _) = nodes.file("empty.bin", 0)?;
    nodes.a.ok(&["cp", &empty, &format!("{}:", nodes.cid_a)])?;
    assert_eq!(std::fs::metadata(inbox.join("empty.bin"))?.len(), 0);
    wait_until("there are three copies and an empty one, and no remains of what failed", || {
        std::fs::read_dir(&inbox).is_ok_and(|entries| entries.count() == 4)
    });
    nodes.everything_is_given_back()
}

/// Sends garbage to the connection manager's port and to the control socket.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn garbage_on_both_sockets_harms_nobody() -> Result<()> {
    need_root();
    let nodes = Nodes::up(false)?;
    let key = nodes.b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    let port = SocketAddr::from((nodes.pair.b.ipv4, DEFAULT_CONTROL_PORT));
    let say = |bytes: &[u8]| -> Result<()> {
        let mut stream = nodes.pair.a.run(|| TcpStream::connect_timeout(&port, PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // It may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.read_to_end(&mut Vec::new());
        Ok(())
    };
    let framed = |text: &[u8]| [&(text.len() as u32).to_be_bytes(), text].concat();
    say(&framed(b"GET / HTTP/1.1"))?;
    say(&framed(br#"{"type":"heartbeat"}"#))?;
    say(&framed(br#"{"type":"hello","protocol":"tiercel-connection-manager","version":99,"offer":{}}"#))?;
    say(&pattern(100_000, 1))?;
    say(&u32::MAX.to_be_bytes())?;
    say(&0u32.to_be_bytes())?;
    nodes.pair.a.run(|| TcpStream::connect_timeout(&port, PATIENCE)).map(drop)?;
    let counted = |name: &str| {
        let stats = nodes.b.json(&["stats"]).unwrap_or_default();
        stats["connection_manager"][name].as_u64().unwrap_or(0)
    };
    wait_until("the garbage is counted", || counted("garbage") >= 2 && counted("oversize") >= 2);

    let socket = nodes.b.socket();
    let long = vec![b'x'; 3 << 20];
    for line in [
        &b"\n"[..],
        b"hello\n",
        b"{}\n",
        b"[1]\n",
        b"{\"version\":2}\n",
        b"{\"version\":2,\"request\":{\"request\":\"close\",\"cid\":5,\"force\":true}}\n",
        b"\xff\xfe\n",
        b"{\"version\":1}\n",
        &long,
    ] {
        answer_or_hang_up(socket, line)?;
    }
    let good = br#"{"version":2,"request":{"request":"status"}}"#;
    let answer = answer_or_hang_up(socket, &[b"nonsense\n", &good[..], b"\n"].concat())?;
    assert!(answer.contains("failed") && answer.contains("\"done\""), "the next line is answered: {answer}");

    nodes.a.ok(&["write", &nodes.cid_a, "--rkey", &key, "--data", "alive"])?;
    assert_eq!(nodes.b.ok(&["mr", "read", &key, "--length", "5", "--raw"])?, "alive");
    let second = nodes.a.json(&["conn", "connect", &nodes.pair.b.ipv4.to_string(), "--unordered"])?;
    assert_eq!(second["ordered"], false);
    nodes.everything_is_given_back()
}

/// Sends text to a control socket and returns the answer up to the end of the connection.
fn answer_or_hang_up(socket: &Path, line: &[u8]) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A line that is too long is not read to its end.
    let _ = stream.write_all(line);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn node_files_bring_up_static_connections_and_are_refused_by_line() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let write = |name: &str, text: &str| -> Result<String> {
        let path = directory.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_str().context("a plain path")?.to_owned())
    };
    let file = |own: &Host, peer: &Host, cids: [u32; 2], spis: [u32; 2]| {
        format!(
            "[node]\ninterface = \"veth0\"\naddress = \"{}\"\n\n[[connection]]\nlocal_cid = {}\npeer_cid = {}\n\
             peer_address = \"{}\"\npeer_mac = \"{}\"\nordered = true\n\
             security = {{ mode = \"plaintext\", tx_spi = {}, rx_spi = {} }}\n\
             tx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\n\
             rx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\n",
            own.ipv4, cids[0], cids[1], peer.ipv4, peer.mac, spis[0], spis[1]
        )
    };
    let file_a = write("a.toml", &file(&pair.a, &pair.b, [5, 10], [1, 2]))?;
    let file_b = write("b.toml", &file(&pair.b, &pair.a, [10, 5], [2, 1]))?;
    let a = NodeProcess::up(&pair.a, directory.path(), "a", &["--config", &file_a])?;
    let b = NodeProcess::up(&pair.b, directory.path(), "b", &["--config", &file_b])?;
    let key = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    a.ok(&["write", "5", "--rkey", &key, "--data", "static"])?;
    assert_eq!(b.ok(&["mr", "read", &key, "--length", "6", "--raw"])?, "static");
    assert_eq!(a.json(&["conn", "show", "5"])?["managed"], false);
    // The peer restarts, so this end is reset as well.
    drop(b);
    let b = NodeProcess::up(&pair.b, directory.path(), "b", &["--config", &file_b])?;
    assert_eq!(a.json(&["conn", "reset", "5"])?["local_cid"], 5);
    let key = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    a.ok(&["write", "5", "--rkey", &key, "--data", "again"])?;
    assert_eq!(b.ok(&["mr", "read", &key, "--length", "5", "--raw"])?, "again");
    drop((a, b));

    let good = std::fs::read_to_string(&file_a)?;
    for (from, to, complaints) in [
        ("address = \"10.7.0.1\"", "address = \"10.7.0\"", &["line 3", "node.address"][..]),
        ("local_cid = 5", "local_cid = 99999999", &["line 6", "local_cid"]),
        ("peer_mac", "peer_mac_address", &["peer_mac_address", "peer_mac"]),
        ("rx_spi = 2", "rx_spi = 0", &["rx_spi"]),
        ("[node]", "[node", &["line 1"]),
        ("interface = \"veth0\"", "", &["interface"]),
    ] {
        let bad = write("bad.toml", &good.replacen(from, to, 1))?;
        let arguments = ["up", "--config", &bad];
        let outcome = tiercel(&arguments)?;
        for complaint in complaints {
            assert!(outcome.stderr.contains(complaint), "{to}: no \"{complaint}\" in {}", outcome.stderr);
        }
        expect(outcome, &arguments, 2, "bad.toml")?;
    }
    // A duplicate CID is reported before anything is changed.
    let connection = good.split_once("[[connection]]").context("one connection")?.1;
    let twice = write("twice.toml", &format!("{good}\n[[connection]]{connection}"))?;
    expect(tiercel(&["up", "--config", &twice])?, &["up"], 2, "local_cid")?;
    expect(tiercel(&["up", "--config", "/nonexistent"])?, &["up"], 2, "/nonexistent")?;
    for (interface, text) in [("veth9", "there is no interface"), ("lo", "loopback")] {
        let options = ["--interface", interface, "--address", "10.7.0.1"];
        let refused =
            NodeProcess::up(&pair.a, directory.path(), "c", &options).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|said| said.contains(text)), "{refused:?}");
    }
    Ok(())
}

/// The beginning of a frame: Ethernet, and part of an IPv4 header.
const FRAME: &str = "02 00 00 00 00 02 02 00 00 00 00 01 08 00 45 00 00 48 00 00 40 00 ff 11";

#[test]
fn packets_are_decoded_without_a_node() -> Result<()> {
    // BACK for connection 5: bases 100 and 200.
    let mut back = [0u8; 32];
    back[..8].copy_from_slice(&[0x10, 0, 0, 5, 0, 0, 0, 9 << 1]);
    back[11] = 100;
    back[15] = 200;
    let hex: String = back.iter().map(|byte| format!("{byte:02x}")).collect();
    let decoded = tiercel(&["decode", "--falcon", "--hex", &hex, "--json"])?;
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    let value: Value = serde_json::from_str(&decoded.stdout)?;
    assert!(value["error"].is_null(), "{value}");
    let words = tiercel(&["decode", "--falcon", "--hex", &hex])?.stdout;
    assert!(words.contains("BACK") && words.contains("100") && words.contains("200"), "{words}");

    // For a frame that ends too early, the output shows its fields and reports the early end.
    let cut = tiercel(&["decode", "--hex", FRAME])?;
    assert_eq!(cut.code, 5, "{cut:?}");
    assert!(cut.stdout.contains("02:00:00:00:00:01") && !cut.stderr.is_empty(), "{cut:?}");
    assert!(!cut.stdout.contains("Error"), "said once: {cut:?}");
    let no_bytes = tiercel(&["decode", "--hex", "xyz"])?;
    assert_eq!(no_bytes.code, 2, "{no_bytes:?}");
    let no_file = tiercel(&["decode", "/nonexistent.pcap"])?;
    assert_eq!(no_file.code, 5, "{no_file:?}");
    Ok(())
}
