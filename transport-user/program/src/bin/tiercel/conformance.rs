//! `conformance`: tests a Falcon peer clause by clause.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bpf_call::{Instruction, LoadXdp, XDP_FLAGS_DRV_MODE, XDP_PASS, link_xdp};
use clap::{Args, ValueEnum};
use falcon_conformance::{
    ByHand, Check, Checked, CommandTrigger, Flow, Misfit, PacketSocket, Patience, Role, RunError, Settings,
    Start, Subject, Trigger, Verdict, Wire, capture, catalogue, run,
};
use serde::Serialize;
use tiercel::control::Progress;
use tiercel::quantity::{parse_duration, parse_u32, whole};
use tiercel::{Initial, RKey, ScopedAddress};
use tiercel_node::config::{NodeFile, StaticConnection};
use tiercel_node::{NodeError, has_no_node};

use crate::exit::Exit;
use crate::output::{Bar, print, print_json};

/// UDP source port of the tester's packets.
const SOURCE_PORT: u16 = 49_152;

/// The arguments of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Address of the peer, as in a table `[[connection]]` of the file.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "list")]
    peer: Option<ScopedAddress>,
    /// The tester's node file: its interface, its address, and one static connection to the peer, or an
    /// ordered and an unordered one. `tiercel up` reads the same files.
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    config: Option<PathBuf>,
    /// R_Key of a region of the peer that allows WRITE, READ and atomics. The tester overwrites its first 4
    /// KiB.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_u32)]
    rkey: u32,
    /// The role in which the peer is tested: as target of the tester's operations, as initiator of its own, or
    /// both [default: target; both with --trigger or --by-hand].
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<RoleArgument>,
    /// Command that makes the peer submit an operation, for the role of the initiator. `sh -c` runs it once for
    /// each operation, with FALCON_OPERATION (write or read), FALCON_BYTES and FALCON_CID (the peer's own CID of
    /// the connection) in its environment. It has to end when the operation has completed, with exit code 0 if it
    /// succeeded.
    #[arg(long, value_name = "COMMAND", conflicts_with = "by_hand")]
    trigger: Option<OsString>,
    /// Ask for each operation on stderr, and wait until somebody submits it at the peer. Checks of how operations
    /// end are skipped.
    #[arg(long)]
    by_hand: bool,
    /// How long to wait for the first packet of an operation of the peer [default: 3s; 60s with --by-hand].
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    start_within: Option<Duration>,
    /// The peer's fabric window in packets, if it is constant. Checks that need it are skipped if it is not given,
    /// as with the next five options.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=2047))]
    fcwnd: Option<u32>,
    /// The peer's NIC window in packets, if it is constant.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=2047))]
    ncwnd: Option<u32>,
    /// How often the peer retransmits a packet by timeout before it gives the packet up.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=1000))]
    attempts: Option<u32>,
    /// How long a transaction of the peer may take before the peer ends it with an error.
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    transaction_timeout: Option<Duration>,
    /// The fabric window, in packets, up to which every packet of the peer has AR.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=2047))]
    ar_threshold: Option<u32>,
    /// Percent of the peer's packets that have AR if its fabric window is larger.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=100))]
    ar_percent: Option<u32>,
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

/// The roles of `--role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArgument {
    /// The peer is the target of the tester's operations.
    Target,
    /// The peer is the initiator of its own operations.
    Initiator,
    /// One after the other.
    Both,
}

impl RoleArgument {
    fn has(self, role: Role) -> bool {
        match self {
            Self::Target => role == Role::Target,
            Self::Initiator => role == Role::Initiator,
            Self::Both => true,
        }
    }
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
    role: Role,
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
    let checks = chosen(arguments)?;
    let (Some(peer), Some(config), false) = (&arguments.peer, &arguments.config, arguments.list) else {
        list(&checks, json);
        return Ok(());
    };
    let file = NodeFile::load(config).map_err(Exit::usage)?;
    let peer = peer.on(&file.node.interface).map_err(Exit::usage)?;
    let connections: Vec<_> = file.connections.iter().filter(|c| c.peer_address == peer).collect();
    if connections.is_empty() {
        return Err(Exit::usage(format!(
            "{} has no [[connection]] with peer_address = \"{peer}\": add one, or name another --peer",
            config.display()
        )));
    }
    let (interface, address) = (&file.node.interface, file.node.address);
    match has_no_node(interface) {
        Err(NodeError::NodeRunning { .. }) => {
            return Err(Exit::usage(format!(
                "a node runs on {interface} and takes the peer's packets: end it with `tiercel down`, or name another \
                 interface in {}",
                config.display()
            )));
        }
        other => other.map_err(Exit::node)?,
    }
    let cannot = |error| Exit::node(format!("cannot test on {interface}: {error}"));
    let mut socket = PacketSocket::open(interface, address).map_err(cannot)?;
    let mac = socket.mac().map_err(cannot)?;
    let _pass = if socket.is_veth() { Some(pass_all(socket.index()).map_err(cannot)?) } else { None };
    let subjects: Vec<_> = connections.iter().map(|c| subject(c, mac, address, arguments)).collect();
    let mut trigger = trigger(arguments);
    let trigger = trigger.as_mut().map(|trigger| &mut **trigger as &mut dyn Trigger);
    let wall_clock = SystemTime::now() - Duration::from_nanos(socket.now().as_nanos());

    let bar = json.then(|| Bar::counting("clauses"));
    let mut clauses = Vec::new();
    let outcome = run(&mut socket, trigger, &subjects, patience(arguments), &checks, |checked| {
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
    outcome.map_err(failure)?;
    conclude(peer, clauses, json)
}

/// Returns the failure of a run that came to no end. No Falcon device is there, or what the user named does not fit it.
fn failure(error: RunError) -> Exit {
    match error {
        RunError::Io(_) => Exit::node(error),
        RunError::Misfit(Misfit::Silent | Misfit::Unreachable | Misfit::Echo) => Exit::connect(error),
        RunError::Misfit(Misfit::NotFresh { .. } | Misfit::Region { .. } | Misfit::Trigger { .. }) => {
            Exit::usage(error)
        }
    }
}

/// Attaches an XDP program that passes everything, until the value is dropped. A veth needs it: it drops or
/// delays frames that XDP sends at its other end as long as it has no program.
fn pass_all(interface: u32) -> io::Result<OwnedFd> {
    let instructions = &[Instruction::set_result(XDP_PASS), Instruction::EXIT];
    let program =
        LoadXdp { name: c"pass", license: c"Dual MIT/GPL", instructions, bound_to: None }.load(&mut [])?;
    link_xdp(program.as_fd(), interface, XDP_FLAGS_DRV_MODE)
}

/// Returns what makes the peer submit operations, if the user gave something.
fn trigger(arguments: &Conformance) -> Option<Box<dyn Trigger>> {
    match &arguments.trigger {
        Some(command) => Some(Box::new(CommandTrigger::new(command.clone()))),
        None if arguments.by_hand => Some(Box::new(ByHand::default())),
        None => None,
    }
}

/// Returns the role in which the peer is tested.
fn role(arguments: &Conformance) -> Result<RoleArgument, Exit> {
    let has_trigger = arguments.trigger.is_some() || arguments.by_hand;
    match arguments.role {
        // The list needs no peer, so it shows everything.
        None if has_trigger || arguments.list => Ok(RoleArgument::Both),
        None => Ok(RoleArgument::Target),
        Some(RoleArgument::Initiator | RoleArgument::Both) if !has_trigger && !arguments.list => {
            Err(Exit::usage(
                "the role of the initiator needs --trigger COMMAND or --by-hand: the peer has to submit operations",
            ))
        }
        Some(role) => Ok(role),
    }
}

/// Returns the checks of the chosen role with the chosen clauses.
fn chosen(arguments: &Conformance) -> Result<Vec<Check>, Exit> {
    let (role, only) = (role(arguments)?, &arguments.only);
    let mut all = catalogue();
    all.retain(|check| role.has(check.role));
    if let Some(unknown) = only.iter().find(|clause| !all.iter().any(|check| check.clause == **clause)) {
        let text = format!(
            "no check of this role has the clause \"{unknown}\": `tiercel conformance --list` shows all"
        );
        return Err(Exit::usage(text));
    }
    all.retain(|check| only.is_empty() || only.iter().any(|clause| clause == check.clause));
    Ok(all)
}

fn list(checks: &[Check], json: bool) {
    if json {
        let listed = |check: &Check| Listed {
            clause: check.clause,
            title: check.title,
            role: check.role,
            connection: format!("{:?}", check.needs).to_lowercase(),
        };
        return print_json(&checks.iter().map(listed).collect::<Vec<_>>());
    }
    for check in checks {
        print(format!("{:<9} {:<13} {}", check.role, check.clause, check.title));
    }
}

fn subject(connection: &StaticConnection, mac: [u8; 6], address: IpAddr, arguments: &Conformance) -> Subject {
    let c = connection;
    let start = |Initial { request_psn, data_psn, rsn }: Initial| Start { request_psn, data_psn, rsn };
    Subject {
        flow: Flow {
            source_mac: mac,
            destination_mac: c.peer_mac.0,
            vlan: None,
            source: address,
            destination: c.peer_address,
            source_port: SOURCE_PORT,
            inner: None,
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
        rkey: RKey(arguments.rkey),
        settings: Settings {
            fcwnd: arguments.fcwnd,
            ncwnd: arguments.ncwnd,
            attempts: arguments.attempts,
            transaction_timeout: arguments.transaction_timeout,
            ack_request_threshold: arguments.ar_threshold,
            ack_request_percent: arguments.ar_percent,
        },
    }
}

fn patience(arguments: &Conformance) -> Patience {
    let default = Duration::from_secs(if arguments.by_hand { 60 } else { 3 });
    Patience::new(arguments.patience, arguments.start_within.unwrap_or(default), arguments.silence)
}

fn write_capture(file: &Path, clauses: &[Checked], wall_clock: SystemTime) -> Result<(), Exit> {
    let written = File::create(file).and_then(|out| capture(BufWriter::new(out), clauses, wall_clock));
    written.map_err(|error| Exit::file(format!("cannot write {}: {error}", file.display())))
}

/// Prints one clause: its verdict, and the packets that show a failure.
fn show(checked: &Checked, packets: bool) {
    let Checked { clause, title, role, verdict, .. } = checked;
    let failed = match verdict {
        Verdict::Pass => {
            print(format!("pass     {role:<9} {clause:<13} {title}"));
            false
        }
        Verdict::Skipped { reason } => {
            print(format!("skipped  {role:<9} {clause:<13} {title}: {reason}"));
            false
        }
        Verdict::Fail { expected, found } => {
            print(format!("FAIL     {role:<9} {clause:<13} {title}"));
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

#[cfg(test)]
mod tests {
    use tiercel::{Cid, Psn};

    use super::*;

    #[test]
    fn each_diagnosis_has_its_documented_exit_code() {
        let psns = |first| (Psn(first), Psn(first + 1));
        let fresh = Misfit::NotFresh { peer_cid: Cid(5), found: psns(7), expected: psns(1) };
        let trigger =
            Misfit::Trigger { operation: "write", bytes: 64, cid: Cid(5), how: "exit code 1".to_owned() };
        let region = Misfit::Region { operation: "READ", rkey: RKey(1) };
        for (misfit, code) in [
            (Misfit::Silent, 4),
            (Misfit::Unreachable, 4),
            (Misfit::Echo, 4),
            (fresh, 2),
            (trigger, 2),
            (region, 2),
        ] {
            let (name, text) = (format!("{misfit:?}"), misfit.to_string());
            let told = failure(misfit.into()).value();
            assert_eq!(told["exit_code"], code, "{name}");
            assert_eq!(told["text"], text, "{name}: its sentence is told as it is");
        }
        let broken = failure(io::Error::from(io::ErrorKind::NetworkDown).into()).value();
        assert_eq!(broken["exit_code"], 1);
    }
}
