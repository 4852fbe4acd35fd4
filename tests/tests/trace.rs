//! The hardware model makes the decisions of the real datapath again, from a trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tiercel::congestion::Placement;
use tiercel::{CongestionControl, CongestionParameters, Tuning};
use tiercel_node::{EngineMode, EngineOptions, NodeError, TraceOptions, TraceReport};
use tiercel_tests::checks::{block_on, settle};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::operations::{BULK, Regions, atomics, sends, there_and_back};
use tiercel_tests::routed::Routed;
use tiercel_tests::veth::MacAddress;
use tiercel_tests::{Pair, need_root};
use trace_replay::{Decisions, Summary, TraceReader};
use transport_common::ids::Cid;
use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};
use transport_common::tape::{Tag, Tape};

/// The default impairments of `cargo xtask run`.
const DEFAULT: &str = "seed=61,loss=1%,reorder=1%,duplicate=0.1%,corrupt=0.1%,scope=udp";

fn options(file: &Path) -> TraceOptions {
    TraceOptions { file: file.to_owned(), runs: None, duration: None }
}

fn replay(file: &Path) -> Result<Summary> {
    let mut reader = TraceReader::new(BufReader::new(File::open(file)?))?;
    Ok(Decisions::replay(&mut reader, |_| {})?)
}

/// Takes traces of both ends during all kinds of operations, and replays them.
fn everything_traced(impairments: &str, setup: Setup) -> Result<[(TraceReport, Summary); 2]> {
    need_root();
    let directory = TempDir::new()?;
    let files = ["a.trace", "b.trace"].map(|name| directory.path().join(name));
    let nodes = TwoNodes::up(Pair::through(impairments.parse()?)?, setup)?;
    let regions = Regions::new(&nodes, BULK)?;
    let tracing_a = nodes.a.trace(options(&files[0]))?;
    let tracing_b = nodes.b.trace(options(&files[1]))?;
    block_on(async {
        there_and_back(&nodes, &regions, BULK).await?;
        sends(&nodes, &regions).await?;
        atomics(&nodes, &regions).await
    })?;
    let reports = [tracing_a.stop().context("at A")?, tracing_b.stop().context("at B")?];
    // The plain programs are back, and continue the work of the recording ones.
    block_on(there_and_back(&nodes, &regions, BULK))?;
    let mut all = Vec::new();
    for (file, report) in files.iter().zip(reports) {
        all.push((report, replay(file).with_context(|| file.display().to_string())?));
    }
    all.try_into().map_err(|_| anyhow::anyhow!("two ends"))
}

fn nothing_differs(impairments: &str, setup: Setup) -> Result<()> {
    for (report, summary) in everything_traced(impairments, setup)? {
        println!("{report:?}\n{summary:?}");
        assert_eq!((report.lost, summary.abandoned), (0, 0));
        assert!(summary.events > 1000 && summary.steps > summary.events / 2, "too few to say anything");
        let (before, after) = (summary.before, summary.after);
        assert_eq!(summary.events + before + after, report.runs, "every run was made again");
        assert!(before + after < report.runs / 10, "the connection was told in time");
        assert!(summary.connections_compared >= 2, "tables were compared");
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn ordered_with_constant_windows() -> Result<()> {
    nothing_differs(DEFAULT, Setup::default())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn unordered_over_ipv6() -> Result<()> {
    nothing_differs(DEFAULT, Setup { ordered: false, ipv6: true, ..Setup::default() })
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn with_swift_in_the_datapath_and_behind_the_queues() -> Result<()> {
    for placement in [Placement::Kernel, Placement::User] {
        // For Swift's default target, the fabric of the tests, which is a thread, is always congested.
        let parameters = CongestionParameters {
            base_delay_target: Duration::from_millis(50),
            ..CongestionParameters::DEFAULT
        };
        let congestion = CongestionControl { placement, parameters, ..CongestionControl::SWIFT };
        let tuning = Tuning { congestion, ..Tuning::DEFAULT };
        nothing_differs(DEFAULT, Setup { tuning, ..Setup::default() })?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn one_trace_at_a_time_into_new_files() -> Result<()> {
    need_root();
    let directory = TempDir::new()?;
    let nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let file = directory.path().join("a.trace");
    // The second trace is tried while the thread of the first begins: a trace owns the ring from the first moment.
    for number in 0..8 {
        let first = nodes.a.trace(options(&directory.path().join(format!("a.trace{number}"))))?;
        let second = nodes.a.trace(options(&directory.path().join(format!("other{number}"))));
        assert!(matches!(second, Err(NodeError::TraceRunning)), "{second:?}");
        first.stop()?;
    }
    nodes.a.trace(options(&file))?.stop()?;
    let again = nodes.a.trace(options(&file));
    assert!(
        matches!(&again, Err(NodeError::TraceFile { hint, .. }) if hint.contains("new file")),
        "{again:?}"
    );
    let third = nodes.a.trace(TraceOptions { runs: Some(1), ..options(&directory.path().join("third")) })?;
    nodes.a.down();
    third.stop().context("a node that went down ends its trace")?;
    Ok(())
}

/// Runs small operations as fast as possible, on two connections. One is opened while the trace is taken. A
/// million runs in all.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_million_events_of_a_fast_link() -> Result<()> {
    const EVENTS: u64 = 1_000_000;
    const PATIENCE: Duration = Duration::from_secs(300);
    need_root();
    let directory = TempDir::new()?;
    let file = directory.path().join("trace");
    let busy = EngineOptions { mode: EngineMode::Busy, ..EngineOptions::default() };
    let nodes = TwoNodes::up(Pair::direct()?, Setup { engine_a: busy, ..Setup::default() })?;
    let regions = Regions::new(&nodes, BULK)?;
    let limits = TraceOptions { runs: Some(EVENTS), duration: Some(PATIENCE), file: file.clone() };
    let tracing = nodes.b.trace(limits)?;
    let second = nodes.connect([Cid(6), Cid(11)], Setup { ordered: false, ..Setup::default() })?;
    let work = |opcode, flags| {
        Ok::<_, anyhow::Error>(WorkRequest {
            opcode,
            flags,
            length: 64,
            local_offset: regions.local.local_offset(0, 64)?,
            rkey: regions.remote.key().0,
            ..WorkRequest::default()
        })
    };
    let list = [
        work(Verb::WRITE, WorkFlags::empty())?,
        work(Verb::WRITE, WorkFlags::empty())?,
        work(Verb::READ, WorkFlags::SIGNALED)?,
    ];
    let mut completions = [Completion::default(); 64];
    while !tracing.is_done() {
        for connection in [&nodes.at_a, &second[0]] {
            while connection.post_list(&list).is_ok() {}
            let taken = connection.poll(&mut completions);
            assert!(completions[..taken].iter().all(|completion| completion.status == 0));
        }
    }
    let report = tracing.stop()?;
    let summary = replay(&file)?;
    println!("{report:?}\n{summary:?}");
    assert!(report.runs >= EVENTS, "{report:?}");
    assert_eq!(summary.events + summary.before + summary.after + summary.abandoned, report.runs);
    assert!(summary.events > EVENTS * 9 / 10 && summary.connections_compared >= 4, "{summary:?}");
    Ok(())
}

/// The next hop of a connection changes while a trace is taken. That is no decision of the datapath, and the replay follows it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_next_hop_that_changes_is_replayed() -> Result<()> {
    need_root();
    let directory = TempDir::new()?;
    let file = directory.path().join("trace");
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    let tracing = a.node.trace(options(&file))?;
    a.there_and_back(&b)?;
    routed.take_over([0x98, 0x99].map(|last| MacAddress([2, 0, 0, 0, 0, last])))?;
    a.wait_for_event(" is now 02:00:00:00:00:98 instead of ");
    a.there_and_back(&b)?;
    let report = tracing.stop()?;
    let summary = replay(&file)?;
    println!("{report:?}\n{summary:?}");
    assert_eq!((report.lost, summary.abandoned), (0, 0));
    assert!(summary.events > 100 && summary.connections_compared >= 2, "too few to say anything");
    Ok(())
}

/// Checks that the replay reports any change in a trace, and its place. A replay that cannot fail would prove
/// nothing.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_trace_that_was_changed_diverges() -> Result<()> {
    need_root();
    let directory = TempDir::new()?;
    let file = directory.path().join("trace");
    let nodes = TwoNodes::up(Pair::through(DEFAULT.parse()?)?, Setup::default())?;
    let regions = Regions::new(&nodes, BULK)?;
    let tracing = nodes.b.trace(options(&file))?;
    block_on(there_and_back(&nodes, &regions, BULK))?;
    settle(&nodes.a);
    settle(&nodes.b);
    tracing.stop()?;
    let trace = std::fs::read(&file)?;
    let whole = Decisions::replay(&mut TraceReader::new(&*trace)?, |_| {})?;
    let mut told = Vec::new();
    assert_eq!(whole.after, 0, "both ends were idle at the end");
    let last = whole.before + whole.events - 1;
    // A run of another connection is missed wherever it is, also behind the last state that the trace recorded.
    for event in last.saturating_sub(32)..=last {
        let Some(changed) = changed(&trace, event, Tag::Lock) else { continue };
        Decisions::replay(&mut TraceReader::new(&*changed)?, |_| {}).expect_err("a run is missing");
    }
    for event in [whole.before, whole.before + whole.events / 2, last] {
        for tag in [Tag::Context, Tag::Step, Tag::NextHop, Tag::Lock, Tag::Count, Tag::End] {
            let Some(changed) = changed(&trace, event, tag) else { continue };
            let replayed = Decisions::replay(&mut TraceReader::new(&*changed)?, |_| {});
            let error = replayed.expect_err(tag.name()).to_string();
            told.push(format!("{}, event {event}: {error}", tag.name()));
        }
    }
    println!("{}", told.join("\n"));
    assert!(told.len() >= 13, "{told:?}");
    let named = |text: &&String| text.contains(": event ");
    assert!(told.iter().filter(named).count() * 2 > told.len(), "most are found in the run itself: {told:?}");
    Ok(())
}

/// Returns the trace with one flipped bit in the first note of this kind in a run.
fn changed(trace: &[u8], event: u64, tag: Tag) -> Option<Vec<u8>> {
    let mut changed = trace.to_vec();
    let (mut at, mut runs) = (Head::LEN, 0);
    loop {
        let head = ChunkHead::from_bytes(trace.get(at..at + ChunkHead::LEN)?.try_into().ok()?);
        at += ChunkHead::LEN;
        if head.kind == ChunkKind::RUN {
            if runs == event {
                break;
            }
            runs += 1;
        }
        at += head.bytes as usize;
    }
    let mut word = at + Tape::HEAD_BYTES;
    loop {
        let [number, words, ..] = *trace.get(word..word + 4)? else { return None };
        if number == tag as u8 {
            // In a note without words, the bit is in the small value; in one with two words, in the higher word.
            changed[word + if words == 0 { 2 } else { 4 * usize::from(words) }] ^= 1;
            return Some(changed);
        }
        if number == Tag::End as u8 {
            return None;
        }
        word += 4 + 4 * usize::from(words);
    }
}
