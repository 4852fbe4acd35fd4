//! `conformance`: tests a Falcon peer clause by clause.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bpf_call::{Instruction, LoadXdp, XDP_FLAGS_DRV_MODE, XDP_PASS, link_xdp};
use clap::Args;
use falcon_conformance::{
    Check, Checked, Flow, PacketSocket, Patience, RunError, Start, Subject, Verdict, Wire, capture,
    catalogue, run,
};
use serde::Serialize;
use transport_user::config::{NodeFile, StaticConnection};
use transport_user::control::Progress;
use transport_user::quantity::{parse_duration, parse_u32};
use transport_user::{Initial, RKey};

use crate::exit::Exit;
use crate::output::{Bar, print, print_json};

/// UDP source port of the tester's packets.
const SOURCE_PORT: u16 = 49_152;

/// The arguments of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Address of the peer, as in a table `[[connection]]` of the file.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "list")]
    peer: Option<IpAddr>,
    /// The tester's node file: its interface, its address, and one static connection to the peer, or an
    /// ordered and an unordered one. `tiercel up` reads the same files.
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    config: Option<PathBuf>,
    /// R_Key of a region of the peer that allows WRITE, READ and atomics. The tester overwrites its first 4
    /// KiB.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_u32)]
    rkey: u32,
    /// Check only these clauses; may be repeated [default: all].
    #[arg(long, value_name = "CLAUSE", value_delimiter = ',')]
    only: Vec<String>,
    /// List the clauses, and check nothing.
    #[arg(long)]
    list: bool,
    /// Print the packets of every check, not only of those that fail. `--json` always has them.
    #[arg(long)]
    packets: bool,
    /// Write all packets to this file, as pcapng. Each has the clause as its comment.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// How long to wait for a packet that the peer has to send.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_wait)]
    patience: Duration,
    /// How long to listen until a packet counts as not sent. It has to be longer than the peer's ACK
    /// coalescing time and the round trip.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = parse_wait)]
    silence: Duration,
}

/// The result for programs.
#[derive(Serialize)]
struct Report {
    peer: IpAddr,
    passed: usize,
    failed: usize,
    skipped: usize,
    clauses: Vec<Checked>,
}

/// An entry of `--list`.
#[derive(Serialize)]
struct Listed {
    clause: &'static str,
    title: &'static str,
    /// Whether the check needs an ordered or an unordered connection.
    connection: String,
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text)?;
    if (Duration::from_millis(1)..=Duration::from_secs(600)).contains(&wait) {
        Ok(wait)
    } else {
        Err("allowed: 1ms to 600s".into())
    }
}

pub(crate) fn conformance(arguments: &Conformance, json: bool) -> Result<(), Exit> {
    let checks = chosen(&arguments.only)?;
    let (Some(peer), Some(config), false) = (arguments.peer, &arguments.config, arguments.list) else {
        list(&checks, json);
        return Ok(());
    };
    let file = NodeFile::load(config).map_err(Exit::usage)?;
    let connections: Vec<_> = file.connections.iter().filter(|c| c.peer_address == peer).collect();
    if connections.is_empty() {
        return Err(Exit::usage(format!(
            "{} has no [[connection]] with peer_address = \"{peer}\": add one, or name another --peer",
            config.display()
        )));
    }
    let (interface, address) = (&file.node.interface, file.node.address);
    let cannot = |error| Exit::node(format!("cannot test on {interface}: {error}"));
    let mut socket = PacketSocket::open(interface, address).map_err(cannot)?;
    let mac = socket.mac().map_err(cannot)?;
    let _pass = if socket.is_veth() { Some(pass_all(socket.index()).map_err(cannot)?) } else { None };
    let subjects: Vec<_> =
        connections.iter().map(|c| subject(c, mac, address, RKey(arguments.rkey))).collect();
    let wall_clock = SystemTime::now() - Duration::from_nanos(socket.now().as_nanos());

    let bar = json.then(|| Bar::counting("clauses"));
    let mut clauses = Vec::new();
    let outcome = run(&mut socket, &subjects, patience(arguments), &checks, |checked| {
        match &bar {
            Some(bar) => {
                bar.show(Progress { done: clauses.len() as u64 + 1, total: Some(checks.len() as u64) })
            }
            None => show(&checked, arguments.packets),
        }
        clauses.push(checked);
    });
    drop(bar);
    if let Some(file) = &arguments.pcap {
        write_capture(file, &clauses, wall_clock)?;
    }
    outcome.map_err(|error| match error {
        RunError::Io(_) => Exit::node(error),
        RunError::Silent => Exit::connect(error),
    })?;
    conclude(peer, clauses, json)
}

/// Attaches an XDP program that passes everything, until the value is dropped. A veth needs it: it drops or
/// delays frames that XDP sends at its other end as long as it has no program.
fn pass_all(interface: u32) -> io::Result<OwnedFd> {
    let instructions = &[Instruction::set_result(XDP_PASS), Instruction::EXIT];
    let program =
        LoadXdp { name: c"pass", license: c"Dual MIT/GPL", instructions, bound_to: None }.load(&mut [])?;
    link_xdp(program.as_fd(), interface, XDP_FLAGS_DRV_MODE)
}

/// Returns the checks with these clauses, or all.
fn chosen(only: &[String]) -> Result<Vec<Check>, Exit> {
    let all = catalogue();
    if let Some(unknown) = only.iter().find(|clause| !all.iter().any(|check| check.clause == **clause)) {
        let text = format!("no check has the clause \"{unknown}\": `tiercel conformance --list` shows all");
        return Err(Exit::usage(text));
    }
    Ok(all.into_iter().filter(|check| only.is_empty() || only.iter().any(|o| o == check.clause)).collect())
}

fn list(checks: &[Check], json: bool) {
    if json {
        let listed = |check: &Check| Listed {
            clause: check.clause,
            title: check.title,
            connection: format!("{:?}", check.needs).to_lowercase(),
        };
        return print_json(&checks.iter().map(listed).collect::<Vec<_>>());
    }
    for check in checks {
        print(format!("{:<13} {}", check.clause, check.title));
    }
}

fn subject(connection: &StaticConnection, mac: [u8; 6], address: IpAddr, rkey: RKey) -> Subject {
    let c = connection;
    let start = |Initial { request_psn, data_psn, rsn }: Initial| Start { request_psn, data_psn, rsn };
    Subject {
        flow: Flow {
            source_mac: mac,
            destination_mac: c.peer_mac.0,
            source: address,
            destination: c.peer_address,
            source_port: SOURCE_PORT,
        },
        local_cid: c.local_cid,
        peer_cid: c.peer_cid,
        local_function: c.local_function,
        peer_function: c.peer_function,
        ordered: c.ordered,
        tx_spi: c.security.tx_spi,
        rx_spi: c.security.rx_spi,
        tx: start(c.tx),
        rx: start(c.rx),
        rkey,
    }
}

fn patience(arguments: &Conformance) -> Patience {
    Patience::new(arguments.patience, arguments.silence)
}

fn write_capture(file: &Path, clauses: &[Checked], wall_clock: SystemTime) -> Result<(), Exit> {
    let written = File::create(file).and_then(|out| capture(BufWriter::new(out), clauses, wall_clock));
    written.map_err(|error| Exit::file(format!("cannot write {}: {error}", file.display())))
}

/// Prints one clause: its verdict, and the packets that show a failure.
fn show(checked: &Checked, packets: bool) {
    let Checked { clause, title, verdict, .. } = checked;
    let failed = match verdict {
        Verdict::Pass => {
            print(format!("pass     {clause:<13} {title}"));
            false
        }
        Verdict::Skipped { reason } => {
            print(format!("skipped  {clause:<13} {title}: {reason}"));
            false
        }
        Verdict::Fail { expected, found } => {
            print(format!("FAIL     {clause:<13} {title}"));
            print(format!("         expected: {expected}"));
            print(format!("         found:    {found}"));
            true
        }
    };
    if failed || packets {
        for line in &checked.packets {
            print(format!("         {line}"));
        }
    }
}

fn conclude(peer: IpAddr, clauses: Vec<Checked>, json: bool) -> Result<(), Exit> {
    let count = |is: fn(&Verdict) -> bool| clauses.iter().filter(|checked| is(&checked.verdict)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Pass));
    let failed = count(|verdict| matches!(verdict, Verdict::Fail { .. }));
    let skipped = clauses.len() - passed - failed;
    if json {
        print_json(&Report { peer, passed, failed, skipped, clauses });
    } else {
        print(format!("{passed} passed, {failed} failed, {skipped} skipped"));
    }
    match failed {
        0 => Ok(()),
        1 => Err(Exit::violation(format!("{peer} violates 1 clause"))),
        more => Err(Exit::violation(format!("{peer} violates {more} clauses"))),
    }
}
