//! Start and end of nodes, as the kernel and the peer see them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use tiercel::{LocalCid, OpenConnection, Picoseconds};
use tiercel_node::{EngineMode, EngineOptions};
use tiercel_tests::checks::{counter, wait_until};
use tiercel_tests::cli::{NodeProcess, tiercel};
use tiercel_tests::nodes::{CID_A, CID_B, Setup, TwoNodes, node};
use tiercel_tests::operations::{Regions, there_and_back};
use tiercel_tests::{Host, Pair, need_root};
use transport_common::counters::Counter;
use transport_common::ids::Cid;

/// Two nodes, one per host, and their connection.
struct TwoProcesses {
    a: NodeProcess,
    b: NodeProcess,
    /// CID at A.
    cid: String,
    directory: TempDir,
    pair: Pair,
}

impl TwoProcesses {
    fn up(options: &[&str]) -> Result<Self> {
        let (pair, directory) = (Pair::direct()?, TempDir::new()?);
        let a = up(&pair.a, &directory, "a", options)?;
        let b = up(&pair.b, &directory, "b", options)?;
        let connection = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?;
        let cid = connection["local_cid"].to_string();
        Ok(Self { a, b, cid, directory, pair })
    }

    /// Makes a WRITE, and reads the data back.
    fn move_data(&self) -> Result<()> {
        let region = self.b.json(&["mr", "register", "4KiB"])?;
        let key = region["key"].to_string();
        self.a.ok(&["write", &self.cid, "--rkey", &key, "--address", "100", "--data", "tiercel"])?;
        assert_eq!(self.b.ok(&["mr", "read", &key, "--offset", "100", "--length", "7", "--raw"])?, "tiercel");
        let read = ["read", &self.cid, "--rkey", &key, "--address", "100", "--length", "7", "--raw"];
        assert_eq!(self.a.ok(&read)?, "tiercel");
        self.b.ok(&["mr", "deregister", &key])?;
        Ok(())
    }
}

fn up(host: &Host, directory: &TempDir, name: &str, options: &[&str]) -> Result<NodeProcess> {
    NodeProcess::on(host, directory.path(), name, options)
}

/// Returns the id and the attachment mode of the XDP program on a host's interface.
fn program_on(host: &Host) -> Result<Option<(u64, u64)>> {
    let shown = host.command("ip", ["-json", "link", "show", Host::INTERFACE])?;
    let links: Value = serde_json::from_str(&shown)?;
    let xdp = &links[0]["xdp"];
    let Some(id) = xdp["prog"]["id"].as_u64() else { return Ok(None) };
    Ok(Some((id, xdp["mode"].as_u64().context("a program is attached in some mode")?)))
}

/// `ip`'s numbers of attachment modes.
const NATIVE: u64 = 1;
const GENERIC: u64 = 2;

/// Returns what a killed node could leave visible on the machine: named namespaces, pins, interfaces.
fn visible() -> Result<BTreeSet<String>> {
    let entries = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect()
    };
    let namespaces = std::process::Command::new("ip").args(["netns", "list"]).output()?.stdout;
    let namespaces = String::from_utf8_lossy(&namespaces).into_owned();
    let all = [entries("/sys/fs/bpf"), entries("/sys/class/net")].concat().into_iter();
    Ok(all.chain(namespaces.lines().map(|line| format!("namespace {line}"))).collect())
}

/// Returns whether a BPF program with this id is loaded, attached or not.
fn is_loaded(id: u64) -> bool {
    aya::programs::loaded_programs().flatten().any(|program| u64::from(program.id()) == id)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn kill_9_leaves_nothing_and_the_peer_goes_on() -> Result<()> {
    need_root();
    let before = visible()?;
    let mut nodes = TwoProcesses::up(&[])?;
    nodes.move_data()?;
    let (id, mode) = program_on(&nodes.pair.b)?.context("B's program is attached")?;
    assert_eq!(mode, NATIVE);

    // The SEND waits for a receive that will never be posted.
    let send = std::thread::scope(|scope| {
        let sender = scope.spawn(|| nodes.a.run(&["send", &nodes.cid, "--data", "into the void"]));
        wait_until("the SEND is under way", || {
            nodes.a.json(&["conn", "show", &nodes.cid]).is_ok_and(|c| c["send_queue"]["used"] != 0)
        });
        let killed = nodes.b.kill();
        killed.and(sender.join().expect("no panic"))
    })?;
    assert_eq!(send.code, 3, "{}", send.stderr);
    assert!(send.stderr.contains("kCmplDeadConn"), "{}", send.stderr); // D-89

    assert_eq!(program_on(&nodes.pair.b)?, None, "the kernel detached it");
    wait_until("the kernel unloads the program", || !is_loaded(id));
    // Other programs of the machine make and remove things as well.
    wait_until("nothing is left behind", || visible().is_ok_and(|now| now.is_subset(&before)));
    wait_until("A has noticed", || {
        nodes.a.json(&["stats"]).is_ok_and(|stats| stats["connection_manager"]["peer_died"] == 1)
    });
    // First it is counted. Then there is a grace period for its packets, and after that it is gone.
    wait_until("A has given the connection up", || {
        nodes.a.run(&["conn", "show", &nodes.cid]).is_ok_and(|shown| shown.code == 2)
    });
    wait_until("nothing of it is in use", || {
        nodes.a.json(&["status"]).is_ok_and(|status| {
            let pools = &status["pools"];
            (&pools["connections"], &pools["cells_in_use"]) == (&0.into(), &0.into())
        })
    });

    // The socket's file still exists. The next node replaces it.
    assert!(nodes.b.socket().exists());
    let unanswered = nodes.b.run(&["status"])?;
    assert_eq!(unanswered.code, 6, "{}", unanswered.stderr);
    nodes.b = up(&nodes.pair.b, &nodes.directory, "b", &[])?;
    let connection = nodes.a.json(&["conn", "connect", &nodes.pair.b.ipv4.to_string()])?;
    nodes.cid = connection["local_cid"].to_string();
    nodes.move_data()
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn terminate_and_down_end_in_order() -> Result<()> {
    need_root();
    let mut nodes = TwoProcesses::up(&[])?;
    nodes.b.terminate()?;
    let status = nodes.b.ended()?;
    assert_eq!(status.code(), Some(0), "{}", nodes.b.log());
    assert_eq!(program_on(&nodes.pair.b)?, None);
    assert!(!nodes.b.socket().exists());
    // The node closed the connection properly, which differs from a crash.
    wait_until("A has noticed", || {
        nodes.a.json(&["stats"]).is_ok_and(|stats| stats["connection_manager"]["closed_by_peer"] == 1)
    });
    // Then there is a grace period for its packets, and after that it is gone.
    wait_until("A has given the connection up", || {
        nodes.a.json(&["conn", "list"]).is_ok_and(|list| list == Value::Array(Vec::new()))
    });

    nodes.a.ok(&["down"])?;
    // When `down` returns, the interface and the name are free.
    assert_eq!(program_on(&nodes.pair.a)?, None);
    assert!(!nodes.a.socket().exists());
    assert_eq!(nodes.a.ended()?.code(), Some(0), "{}", nodes.a.log());
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_that_cannot_start_leaves_nothing() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let mut first = up(&pair.a, &directory, "first", &[])?;
    let program = program_on(&pair.a)?;
    // The interface is in use, and the name is in use.
    for (name, reason) in [("second", "another Tiercel node"), ("first", "a node already answers")] {
        let address = pair.a.ipv4.to_string();
        let options = ["--interface", Host::INTERFACE, "--address", &address];
        let refused = NodeProcess::refused(&pair.a, directory.path(), name, &options)?;
        assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
    }
    assert!(!directory.path().join("second.sock").exists());
    assert_eq!(program_on(&pair.a)?, program, "the first node is none the worse for it");
    assert_eq!(first.json(&["status"])?["pid"], first.id());
    // With --force the node is replaced. It notices this and ends, because it could send but not receive.
    let second = up(&pair.a, &directory, "second", &["--force", "--control-port", "4900"])?;
    let taken = program_on(&pair.a)?;
    assert_ne!(taken, program);
    assert_eq!(second.json(&["status"])?["pid"], second.id());
    assert_eq!(first.ended()?.code(), Some(1), "{}", first.log());
    assert!(first.log().contains("error: the node's XDP program was detached"), "{}", first.log());
    assert!(!first.socket().exists());
    assert_eq!(program_on(&pair.a)?, taken, "and takes nothing away from its successor");
    assert_eq!(second.json(&["status"])?["pid"], second.id());
    Ok(())
}

/// A node whose interface is removed ends.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_ends_with_its_interface() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let mut node = up(&pair.a, &directory, "a", &[])?;
    pair.a.ip("link delete veth0\n")?;
    assert_eq!(node.ended()?.code(), Some(1), "{}", node.log());
    assert!(node.log().contains("no longer exists"), "{}", node.log());
    assert!(!node.socket().exists());
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn nodes_of_one_machine_are_found_by_their_names() -> Result<()> {
    need_root();
    let nodes = TwoProcesses::up(&[])?;
    let sockets = [nodes.a.socket(), nodes.b.socket()].map(|socket| socket.display().to_string());
    let pids = [nodes.a.id(), nodes.b.id()];
    for (socket, pid) in sockets.iter().zip(pids) {
        let status: Value =
            serde_json::from_str(&tiercel(&["--socket", socket, "status", "--json"])?.stdout)?;
        assert_eq!(status["pid"], pid);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(socket)?.permissions());
        assert_eq!(mode & 0o777, 0o600, "for its owner only");
    }
    let nobody = tiercel(&["--node", "tiercel-test-nobody", "status"])?;
    assert_eq!(nobody.code, 6, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("tiercel up"), "it says what to do: {}", nobody.stderr);
    Ok(())
}

/// A sleeping engine sleeps, a busy one does not, and both move data.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn engines_sleep_or_are_busy() -> Result<()> {
    need_root();
    let sleeping = TwoProcesses::up(&["--sleep"])?;
    sleeping.move_data()?;
    wait_until("the engine goes to sleep", || {
        sleeping.a.json(&["status"]).is_ok_and(|status| status["engine"]["state"] == "sleeping")
    });
    assert_eq!(sleeping.a.json(&["status"])?["engine"]["mode"], "sleeping");
    drop(sleeping);

    let busy = TwoProcesses::up(&["--busy"])?;
    busy.move_data()?;
    let engine = || -> Result<Value> { Ok(busy.a.json(&["status"])?["engine"].clone()) };
    let first = engine()?;
    assert_eq!((&first["mode"], &first["state"]), (&"busy".into(), &"running".into()));
    wait_until("a busy engine goes on without anything to do", || {
        engine().is_ok_and(|now| now["frames"].as_u64() > first["frames"].as_u64())
    });
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn generic_mode_moves_data() -> Result<()> {
    need_root();
    let nodes = TwoProcesses::up(&["--generic"])?;
    assert_eq!(program_on(&nodes.pair.a)?.map(|(_, mode)| mode), Some(GENERIC));
    assert_eq!(nodes.a.json(&["status"])?["attach"], "generic");
    nodes.move_data()
}

/// D-89: the connection manager notices a peer that becomes silent without closing anything.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_silent_peer_is_given_up() -> Result<()> {
    need_root();
    let nodes = TwoProcesses::up(&[])?;
    nodes.pair.b.ip("link set veth0 down\n")?;
    wait_until("A gives the connection up", || {
        nodes.a.json(&["conn", "list"]).is_ok_and(|list| list == Value::Array(Vec::new()))
    });
    // A connection that is being closed is not listed any more, but keeps its slot until its work has ended.
    wait_until("A has its slot and its session back", || {
        nodes.a.json(&["status"]).is_ok_and(|status| {
            status["pools"]["connections"] == 0 && status["connection_manager"]["sessions"] == 0
        })
    });
    Ok(())
}

/// An outage that is shorter than the patience ends no idle connection, though TCP is late by as long as the outage was.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_idle_connection_survives_an_outage_of_four_fifths_of_its_patience() -> Result<()> {
    need_root();
    const OUTAGE: Duration = Duration::from_secs(4);
    /// An outage may take so much longer, which leaves the rest of the patience to the signs of life.
    const SLACK: Duration = Duration::from_millis(300);
    for _ in 0..5 {
        let nodes = TwoProcesses::up(&[])?;
        nodes.move_data()?;
        assert_eq!(nodes.a.json(&["conn", "show", &nodes.cid])?["session"]["patience_ms"], 5000);
        let begun = Instant::now();
        nodes.pair.b.ip("link set veth0 down\n")?;
        // The length of the outage is what is tried here.
        std::thread::sleep(OUTAGE.saturating_sub(begun.elapsed()));
        nodes.pair.b.ip("link set veth0 up\n")?;
        let took = begun.elapsed();
        if took > OUTAGE + SLACK {
            println!("the machine made it an outage of {took:?}: another try");
            continue;
        }
        // Longer than the patience after the last sign of life before the outage.
        std::thread::sleep(Duration::from_secs(3));
        for node in [&nodes.a, &nodes.b] {
            let status = node.json(&["status"])?;
            assert_eq!(status["connection_manager"]["sessions"], 1, "{}", status["events"]);
        }
        return nodes.move_data();
    }
    panic!("each outage was longer than {OUTAGE:?} by more than {SLACK:?}");
}

/// With `--reconnect`, another connection takes the place of one that was lost.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_lost_connection_is_set_up_again_on_request() -> Result<()> {
    need_root();
    let mut nodes = TwoProcesses::up(&[])?;
    nodes.a.ok(&["conn", "close", &nodes.cid])?;
    let peer = nodes.pair.b.ipv4.to_string();
    let connect = ["conn", "connect", &peer, "--reconnect", "--patience", "3s", "--cc", "newreno"];
    let lost = nodes.a.json(&connect)?["local_cid"].to_string();
    nodes.pair.b.ip("link set veth0 down\n")?;
    let number: u64 = lost.parse()?;
    let away = |status: &Value| status["connection_manager"]["reconnecting"][0]["cid"] == number;
    wait_until("A gives the connection up and tries again", || {
        nodes.a.json(&["status"]).is_ok_and(|status| away(&status))
    });
    nodes.pair.b.ip("link set veth0 up\n")?;
    let mut other = String::new();
    wait_until("another takes its place", || {
        nodes.a.json(&["conn", "list"]).is_ok_and(|list| {
            let one = &list[0];
            other = one["local_cid"].to_string();
            other != lost && one["managed"] == true && one["congestion"]["algorithm"] == "newreno"
        })
    });
    nodes.cid = other;
    nodes.move_data()?;
    let old = nodes.a.run(&["conn", "show", &lost])?;
    assert!(old.stderr.contains(&format!("connection {} took its place", nodes.cid)), "{}", old.stderr);
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// The slot of a connection that ends is empty for a grace period, before it is free. What is in it then is no connection.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_list_has_only_connections() -> Result<()> {
    need_root();
    let nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    for round in 0..20 {
        let cids = [Cid(20 + round), Cid(60 + round)];
        let ends = nodes.connect(cids, Setup::default())?;
        for (node, end, own) in [(&nodes.a, &ends[0], CID_A), (&nodes.b, &ends[1], CID_B)] {
            end.close();
            // Lists and questions as fast as they can be answered, until the connection is gone.
            loop {
                if let Ok(info) = end.info() {
                    assert_eq!((info.local_cid, info.peer_cid), (end.cid(), end.peer_cid()));
                }
                let listed: Vec<Cid> = node.connections().iter().map(|info| info.local_cid).collect();
                if listed == [own] {
                    break;
                }
                assert_eq!(listed, [own, end.cid()]);
            }
        }
    }
    Ok(())
}

/// A restarted peer counts PSNs, RSNs and IVs from the beginning. Its static connection works again after a
/// reset of this end.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_static_connection_comes_back_after_a_new_start_of_its_peer() -> Result<()> {
    need_root();
    let mut nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let regions = Regions::new(&nodes, 4096)?;
    block_on(async {
        there_and_back(&nodes, &regions, 4096).await?;
        nodes.at_b = nodes.b.reset(CID_B).await?;
        nodes.at_a = nodes.a.reset(CID_A).await?;
        assert_eq!((nodes.at_a.cid(), nodes.at_b.cid()), (CID_A, CID_B));
        there_and_back(&nodes, &regions, 4096).await?;
        for node in [&nodes.a, &nodes.b] {
            assert_eq!(node.stats()?.pools.connections, 1);
        }
        let unknown = nodes.a.reset(CID_B).await.expect_err("A has no such connection");
        assert!(matches!(unknown, tiercel::Error::UnknownCid(_)), "{unknown}");
        Ok(())
    })
}

/// While a static connection is reset, a handshake cannot take its CID, though no other is free.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_connection_keeps_its_slot_while_it_is_reset() -> Result<()> {
    need_root();
    let mut nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let mut taken = Vec::new();
    while let Ok(reservation) = nodes.a.reserve_cid() {
        taken.push(reservation);
    }
    let (ended, stolen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let handshake = nodes.a.clone();
        let (ended, stolen) = (&ended, &stolen);
        scope.spawn(move || {
            while !ended.load(Relaxed) {
                match handshake.reserve_cid() {
                    Ok(_given_back) => drop(stolen.fetch_add(1, Relaxed)),
                    // The resets need a CPU as well.
                    Err(_) => std::thread::yield_now(),
                }
            }
        });
        let reset = block_on(async {
            for _ in 0..50 {
                nodes.at_a = nodes.a.reset(CID_A).await?;
                assert_eq!(nodes.at_a.cid(), CID_A);
            }
            Ok::<_, tiercel::Error>(())
        });
        ended.store(true, Relaxed);
        reset
    })?;
    assert_eq!(stolen.into_inner(), 0);
    drop(taken);
    let regions = Regions::new(&nodes, 4096)?;
    block_on(async {
        nodes.at_b = nodes.b.reset(CID_B).await?;
        there_and_back(&nodes, &regions, 4096).await
    })
}

/// D-87: a reset also clears the newest IV of an end. A restarted host may have a clock that
/// is behind the IVs that it sent before.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_peer_whose_clock_began_anew_is_heard_again() -> Result<()> {
    need_root();
    let mut nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let regions = Regions::new(&nodes, 4096)?;
    nodes.at_a.close();
    block_on(async {
        nodes.at_a.closed().await;
        let device = nodes.b.device();
        let mut open = OpenConnection::new(CID_B, device.address, device.mac);
        open.local_cid = LocalCid::Given(CID_A);
        let info = nodes.at_b.info()?;
        assert_eq!(info.local_cid, CID_B);
        [open.tx, open.rx] = tiercel_tests::nodes::initials();
        open.tuning = Setup::CONSTANT;
        // Hours ahead of B's clock.
        open.security.remote_time = Some(Picoseconds(u64::MAX / 4).into());
        nodes.at_a = nodes.a.open(open)?;
        let deaf = nodes.at_a.clone();
        let write = deaf.write(&regions.local, 0, regions.remote.key(), 0, 64);
        let both = async {
            while counter(&nodes.a, Counter::DropReplay) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // The order matters: packets that A still sends must not reach the restarted B.
            Ok::<_, tiercel::Error>((nodes.a.reset(CID_A).await?, nodes.b.reset(CID_B).await?))
        };
        let (write, both) = tokio::join!(write, both);
        assert!(write.is_err(), "its acknowledgements look old");
        (nodes.at_a, nodes.at_b) = both?;
        there_and_back(&nodes, &regions, 4096).await
    })
}

/// The runtime does other work while it searches a peer's MAC address.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn looking_for_a_neighbour_holds_up_nobody() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = node(&pair.a, EngineOptions::default(), Setup::default())?;
    let absent = "10.7.0.77".parse()?;
    let turns = std::cell::Cell::new(0);
    let others = async {
        loop {
            turns.set(turns.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    let found = block_on(async {
        tokio::select! {
            found = node.next_hop(absent) => found,
            () = others => unreachable!("it goes on"),
        }
    });
    assert!(found.is_err_and(|error| error.to_string().contains("does not answer")));
    assert!(turns.get() > 100, "{}", turns.get());
    let found = block_on(node.next_hop(pair.b.ipv4.into()))?;
    assert_eq!(found, node.resolve(pair.b.ipv4.into())?);
    Ok(())
}

/// A process that the application forks has copies of all its descriptors. Nevertheless the interface is free when `down` returns.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_forked_process_does_not_keep_the_program_attached() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = node(&pair.a, EngineOptions::default(), Setup::default())?;
    assert!(program_on(&pair.a)?.is_some());
    // SAFETY: the child makes two kinds of system calls, which are async-signal-safe, and ends with its parent.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
        child
    };
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    node.down();
    let left = program_on(&pair.a);
    // SAFETY: the status is not asked for; the child has not been waited for, so the number is its own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(left?, None);
    Ok(())
}

/// The library uses no signal that the application handles, and an engine can be stopped whatever signals the
/// application blocks.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_applications_signals_stay_its_own() -> Result<()> {
    extern "C" fn handler(_: libc::c_int) {}
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let handler_of = |signal| {
        // SAFETY: the action is on the stack, and the call fills it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut action), 0);
            action.sa_sigaction
        }
    };
    need_root();
    // SAFETY: the handler does nothing, and the set on the stack is filled before it is used.
    unsafe {
        assert_ne!(libc::signal(libc::SIGUSR1, ours), libc::SIG_ERR);
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        // Threads that are started from now on inherit it.
        assert_eq!(libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut()), 0);
    }
    let pair = Pair::direct()?;
    let engine = EngineOptions { mode: EngineMode::Busy, ..EngineOptions::default() };
    let node = node(&pair.a, engine, Setup::default())?;
    assert_eq!(handler_of(libc::SIGUSR1), ours);
    node.down();
    let refused = EngineOptions { signal: Some(libc::SIGUSR1), ..engine };
    let Err(refused) = tiercel_tests::nodes::node(&pair.a, refused, Setup::default()) else {
        panic!("no real-time signal")
    };
    assert!(refused.to_string().contains("real-time"), "{refused}");
    Ok(())
}
