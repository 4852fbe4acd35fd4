//! A test that keeps the JSON of every request and answer stable, because programs read its fields by name.
//!
//! The test writes an example of each type as JSON and reads it again. It compares the names and kinds of the
//! fields with `schema.txt`. So it finds fields that were added, renamed or removed. `TIERCEL_WRITE_SCHEMA=1 cargo
//! test schema` writes the file again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use transport_common::ids::{Cid, RKey};

use super::answer::{self, Completed, ReceiveLimits, ReceiveState, TraceEnd, TraceState};
use super::request::{self, AtomicOperation, CopyDirection, Data, Place, Right, Via};
use super::{Call, Envelope, Failure, FailureKind, Hex, Progress, Reply, Request, VERSION};
use crate::congestion::{CongestionChange, CongestionInfo, Placement};
use crate::parameters::device::Device;
use crate::parameters::tunnel::Tunnel;
use crate::parameters::ulp::Ulp;
use crate::status::{
    AdmissionInfo, AttachMode, CardClock, EngineMode, EngineState, EngineStatus, Event, EventQueueInfo,
    FailedAlgorithm, ManagerStatistics, NodeStats, Pools, RateUpdateState, RateUpdateStatus,
    ReceiveTimestamps, Reconnecting, RegionAdvertisement, SessionInfo, StampedPackets, TimestampSource,
    TraceReport, Transmit,
};
use crate::verbs::statistics::ConnectionStatistics;
use crate::{
    Access, Bucket, ConnectionInfo, ConnectionState, DelayHistograms, DelayInfo, DelayStats, DelaysInfo,
    InitiatorState, InitiatorTransaction, Mac, PathInfo, QueueInfo, ReceiveWindowInfo, RegionInfo,
    TargetState, TargetTransaction, TargetWait, TransactionKind, Transactions, TransmitWindowInfo,
};

const SCHEMA: &str = include_str!("schema.txt");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control/protocol/schema.txt");

/// Names and kinds of the fields, one per line.
#[derive(Default)]
struct Schema(String);

impl Schema {
    /// Adds a type by examples that together have every field and every variant.
    fn add<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str, examples: &[T]) {
        let mut lines = BTreeSet::new();
        for example in examples {
            let json = serde_json::to_value(example).expect("plain data");
            let text = json.to_string();
            assert_eq!(serde_json::from_str::<T>(&text).expect("it reads what it wrote"), *example, "{name}");
            describe("", &json, &mut lines);
        }
        for line in lines {
            self.0.push_str(&format!("{name}{line}\n"));
        }
    }

    /// Adds a request and its answer.
    fn call<C>(&mut self, calls: &[C], answers: &[C::Answer])
    where
        C: Call + Clone + PartialEq + Debug,
        C::Answer: PartialEq + Debug,
    {
        let calls: Vec<Request> = calls.iter().cloned().map(Into::into).collect();
        let tag = serde_json::to_value(&calls[0]).expect("plain data");
        let tag = tag["request"].as_str().expect("requests are tagged").to_owned();
        self.add(&format!("{tag} request"), &calls);
        self.add(&format!("{tag} answer"), answers);
    }
}

fn describe(path: &str, value: &Value, lines: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| describe(&format!("{path}.{name}"), value, lines));
            return;
        }
        Value::Array(list) => {
            assert!(!list.is_empty(), "{path}: the example has no element");
            list.iter().for_each(|element| describe(&format!("{path}[]"), element, lines));
            return;
        }
        Value::Null => panic!("{path}: the example leaves it out"),
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
    };
    lines.insert(format!("{path}: {kind}"));
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn receive_timestamps() -> ReceiveTimestamps {
    let packets = StampedPackets { hardware: 1, absent: 2, clock_unknown: 3, in_future: 4, too_old: 5 };
    let clock = CardClock { device: text("/dev/ptp0"), offset_ns: -1, drift_ppb: 2, error_ns: 3 };
    ReceiveTimestamps {
        source: TimestampSource::Hardware,
        reason: Some(text("none")),
        clock: Some(clock),
        packets: Some(packets),
    }
}

fn engine() -> EngineStatus {
    let state = EngineState::Sleeping;
    let mode = EngineMode::Sleeping;
    EngineStatus { mode, cpu: Some(1), batch: 8, state, frames: 1, idle_frames: 2, wakeups: 3 }
}

fn rate_update() -> RateUpdateStatus {
    RateUpdateStatus {
        state: RateUpdateState::Running,
        starts: 1,
        connections: 2,
        events: 3,
        results: 4,
        unanswered: 5,
        panics: 6,
        result_queue_full: 7,
        results_waiting: 8,
        admission: AdmissionInfo { capacity: 1, thresholds: [1, 2, 3], elapsed_ns: 4, packets: 5 },
        queues: vec![EventQueueInfo { events: 1, occupancy: 2 }],
        verdicts: BTreeMap::from([(text("NAME"), 1)]),
        repaired: 9,
        lost: 10,
        unexpected: 11,
        failed: vec![FailedAlgorithm { cid: 1, reason: text("panic") }],
    }
}

fn trace_report() -> TraceReport {
    TraceReport { runs: 1, lost: 2, bytes: 3, elapsed_ms: 4 }
}

fn status() -> answer::NodeStatus {
    answer::NodeStatus {
        name: text("veth0"),
        version: text("0.1.0"),
        control_version: VERSION,
        pid: 1,
        uptime_s: 2,
        device: Device::for_tests(),
        attach: AttachMode::Native,
        transmit: Transmit::Stack,
        engine: engine(),
        connection_manager: answer::ManagerInfo {
            address: "10.7.0.1:4792".parse().expect("an address"),
            sessions: 1,
            reconnecting: vec![Reconnecting {
                cid: 5,
                peer: "10.7.0.2:4792".parse().expect("an address"),
                since_s: 1,
                attempts: 2,
                error: Some(text("refused")),
            }],
        },
        receive_timestamps: receive_timestamps(),
        receive_directory: Some("/srv".into()),
        receive_limits: Some(ReceiveLimits { overwrite: true, max_file: Some(1), max_total: Some(1) }),
        trace: Some(answer::RunningTrace {
            file: "/a.trace".into(),
            state: TraceState::Recording,
            report: trace_report(),
        }),
        algorithms: vec![text("swift")],
        profiles: vec![text("rack")],
        pools: Pools::default(),
        rate_update: rate_update(),
        events: vec![Event { time_ms: 1, text: text("connected") }],
    }
}

fn stats() -> answer::Stats {
    let delay = || DelayStats {
        count: 1,
        p50_ns: 2,
        p90_ns: 3,
        p99_ns: 4,
        max_ns: 5,
        buckets: vec![Bucket { from_ns: 1, count: 1 }],
    };
    let node = NodeStats {
        attach: AttachMode::Generic,
        transmit: Transmit::XdpRedirect,
        engine: EngineStatus { state: EngineState::Failed(text("reason")), ..engine() },
        rate_update: rate_update(),
        delays: DelayHistograms {
            full: delay(),
            fabric: delay(),
            forward: Some(delay()),
            reverse: Some(delay()),
            one_way_refused: Some(text("clocks")),
        },
        counters: BTreeMap::from([(text("NAME"), 1)]),
        pools: Pools::default(),
        connections: ConnectionStatistics::default(),
    };
    answer::Stats { node, connection_manager: ManagerStatistics::default() }
}

fn tunnel() -> Tunnel {
    let address = |text: &str| text.parse().expect("an address");
    Tunnel { local: address("fd01::1"), peer: address("fd01::2") }
}

fn connection() -> ConnectionInfo {
    let delay = DelayInfo { last_ns: 1, smoothed_ns: 2, minimum_ns: 3 };
    let transmit =
        TransmitWindowInfo { base_psn: 1, next_psn: 2, size: 3, unacknowledged: 4, to_retransmit: 5 };
    let receive = ReceiveWindowInfo { base_psn: 1, received: 2, acknowledged: 3 };
    let queue = QueueInfo { used: 1, depth: 2 };
    ConnectionInfo {
        local_cid: Cid(5),
        peer_cid: Cid(10),
        state: ConnectionState::Open,
        generation: 1,
        ordered: true,
        drops_requests: true,
        rack_tlp: true,
        ulp: Ulp::Rdma,
        tunnel: Some(tunnel()),
        peer_address: "10.7.0.2".parse().expect("an address"),
        peer_mac: Mac([2, 0, 0, 0, 0, 2]),
        source_port: 49152,
        flow_label: 1,
        psp_version: 15,
        tx_spi: 1,
        rx_spi: 2,
        max_segment: 3264,
        fcwnd: 1.5,
        ncwnd: 64,
        receive_buffer_level: 1,
        rto_ns: 1,
        rtt_ns: 2,
        min_rtt_ns: 3,
        path: PathInfo {
            floor_ns: 5,
            variation_ns: 6,
            longest_rtt_ns: 7,
            delay_target_ns: 8,
            draining: false,
        },
        inter_packet_gap_ns: 4,
        congestion: CongestionInfo {
            algorithm: text("swift"),
            placement: Placement::Kernel,
            event_queue: 1,
            failure: Some(text("panic")),
            parameters: BTreeMap::from([(text("NAME"), Value::from(1.5))]),
        },
        delays: DelaysInfo {
            full: delay,
            fabric: delay,
            forward: Some(delay),
            reverse: Some(delay),
            one_way_refused: Some(text("clocks")),
        },
        bytes_completed: 1,
        base_rsn: 2,
        next_rsn: 3,
        request_tx: transmit,
        data_tx: transmit,
        request_rx: receive,
        data_rx: receive,
        responses: queue,
        send_queue: queue,
        receive_queue: queue,
        completion_queue: queue,
        operations_waiting: 4,
        statistics: ConnectionStatistics::default(),
    }
}

fn transactions() -> Transactions {
    let initiator = InitiatorTransaction {
        rsn: 1,
        kind: TransactionKind::Push,
        state: InitiatorState::PushDataAckd,
        code: Some(2),
        ulp_code: Some(3),
    };
    let target = TargetTransaction {
        rsn: 1,
        psn: Some(2),
        kind: TransactionKind::Push,
        state: TargetState::PushReqUlpTx,
        waits_for: Some(TargetWait::Ulp),
        ulp_code: Some(3),
        rnr_timeout_code: Some(4),
    };
    Transactions { initiator: vec![initiator], target: vec![target] }
}

fn shown() -> answer::ShownConnection {
    let region = RegionAdvertisement { name: Some(text("table")), rkey: 1, length: 2, access: 7 };
    answer::ShownConnection {
        info: connection(),
        receive_timestamps: receive_timestamps(),
        managed: true,
        transactions: transactions(),
        session: Some(SessionInfo {
            local_cid: 5,
            peer_cid: 10,
            peer: "10.7.0.2:4792".parse().expect("an address"),
            connected_here: true,
            patience_ms: 5000,
            reconnects: true,
            mtu: 1400,
            path_mtu: Some(1400),
            peer_regions: vec![region],
        }),
    }
}

fn region() -> answer::Region {
    let info = RegionInfo { key: RKey(1), length: 2, offset: 3, access: Access::ALL };
    answer::Region { info, name: Some(text("table")) }
}

fn receive() -> answer::Receive {
    answer::Receive {
        id: 1,
        state: ReceiveState::Received,
        length: 64,
        bytes: Some(2),
        immediate: Some(3),
        by_write: Some(false),
        hex: Some(Hex(vec![1, 2])),
        error: Some(text("reason")),
        status: Some(1),
        ulp_code: Some(2),
    }
}

fn change() -> CongestionChange {
    CongestionChange {
        algorithm: Some(text("swift")),
        placement: Some(Placement::User),
        event_queue: Some(1),
        profile: Some(text("rack")),
        set: vec![(text("max_fcwnd"), text("64"))],
    }
}

fn conversation(schema: &mut Schema) {
    let request = Request::Status(request::Status {});
    schema.add("envelope", &[Envelope { version: VERSION, request }]);
    let failure =
        Failure { kind: FailureKind::Operation, text: text("denied"), status: Some(5), ulp_code: Some(2) };
    let progress = Reply::Progress(Progress { done: 1, total: Some(2) });
    schema.add("reply", &[progress, Reply::Done { result: Value::from("ANSWER") }, Reply::Failed(failure)]);
}

fn about_the_node(schema: &mut Schema) {
    schema.call(&[request::Status {}], &[status()]);
    schema.call(&[request::Stats {}], &[stats()]);
    schema.call(&[request::Down {}], &[answer::WentDown { down: text("veth0") }]);
    let trace = request::Trace { file: "/a.trace".into(), runs: Some(1), duration_ms: Some(2) };
    let traced =
        answer::Traced { file: "/a.trace".into(), ended_by: TraceEnd::Limit, report: trace_report() };
    schema.call(&[trace], &[traced]);
    schema.call(&[request::StopTrace {}], &[answer::Stopping { stopping: "/a.trace".into() }]);
}

fn about_connections(schema: &mut Schema) {
    let listed = answer::ListedConnection { info: connection(), managed: true };
    schema.call(&[request::Connections {}], &[vec![listed]]);
    schema.call(&[request::Connection { cid: 5 }], &[shown()]);
    let address = "10.7.0.2".parse().expect("an address");
    let connect = request::Connect {
        address,
        scope: Some("eth0".into()),
        port: 4792,
        ordered: true,
        rack_tlp: Some(true),
        ulp: Ulp::Block,
        tunnel: Some(tunnel()),
        patience_ms: Some(5000),
        reconnect: true,
        congestion: change(),
    };
    schema.call(&[connect], &[shown()]);
    schema.call(&[request::SetCongestion { cid: 5, congestion: change() }], &[shown()]);
    schema.call(&[request::Reset { cid: 5 }], &[shown()]);
    schema.call(&[request::DropRequests { cid: 5, dropped: true }], &[shown()]);
    schema.call(&[request::Close { cid: 5 }], &[answer::Closed { closed: 5 }]);
}

fn about_memory(schema: &mut Schema) {
    schema.call(&[request::Regions {}], &[vec![region()]]);
    let access = vec![Right::RemoteRead, Right::RemoteWrite, Right::RemoteAtomic];
    let register = request::RegisterRegion { length: 1, access, name: Some(text("table")), rkey: Some(7) };
    schema.call(&[register], &[region()]);
    schema.call(&[request::DeregisterRegion { rkey: 1 }], &[answer::Deregistered { deregistered: 1 }]);
    let places = [Place::Reply, Place::File("/a".into()), Place::Region { rkey: 1, offset: 2 }];
    let reads = places.map(|to| request::ReadRegion { rkey: 1, offset: 2, length: Some(3), to });
    schema.call(&reads, &[answer::Content { bytes: 2, hex: Some(Hex(vec![1, 2])) }]);
    let data =
        [Data::Hex(Hex(vec![1, 2])), Data::File("/a".into()), Data::Region { rkey: 1, offset: 2, length: 3 }];
    let writes = data.map(|data| request::WriteRegion { rkey: 1, offset: 2, data });
    schema.call(&writes, &[answer::Written { bytes: 2 }]);
}

fn about_operations(schema: &mut Schema) {
    let (cid, rkey, address) = (5, 1, 2);
    let data = || Data::Hex(Hex(vec![1, 2]));
    let completed = || Completed::new(2, 0.5);
    let write = request::Write { cid, rkey, address, data: data(), immediate: Some(7) };
    schema.call(&[write], &[completed()]);
    let read = request::Read { cid, rkey, address, length: 2, to: Place::Reply };
    schema.call(&[read], &[answer::ReadCompleted { completed: completed(), hex: Some(Hex(vec![1, 2])) }]);
    schema.call(&[request::Send { cid, data: data(), immediate: Some(7) }], &[completed()]);
    schema.call(&[request::PostReceive { cid, length: 64, count: 1, wait: true }], &[vec![receive()]]);
    schema.call(&[request::Receives { cid }], &[vec![receive()]]);
    let message = answer::Content { bytes: 2, hex: Some(Hex(vec![1, 2])) };
    schema.call(&[request::Message { cid, id: 1, offset: 2, length: 2 }], &[message]);
    let operations =
        [AtomicOperation::FetchAdd { add: 1 }, AtomicOperation::CompareSwap { compare: 1, swap: 2 }];
    let atomics = operations.map(|operation| request::Atomic { cid, rkey, address, operation });
    let original = answer::AtomicCompleted { completed: completed(), original: 1, swapped: Some(true) };
    schema.call(&atomics, &[original]);
    let copy = request::Copy {
        cid,
        direction: CopyDirection::ToPeer,
        file: "/a".into(),
        name: text("a"),
        via: Via::Send,
        overwrite: true,
    };
    let copied = answer::Copied {
        file: "/a".into(),
        name: text("a"),
        via: Via::Send,
        bytes: 1,
        sha256: text("00"),
        seconds: 0.5,
        removed: vec!["/.a.part".into()],
    };
    schema.call(&[copy], &[copied]);
}

fn schema() -> String {
    let mut schema = Schema::default();
    conversation(&mut schema);
    about_the_node(&mut schema);
    about_connections(&mut schema);
    about_memory(&mut schema);
    about_operations(&mut schema);
    schema.0
}

#[test]
fn the_schema_is_what_programs_rely_on() {
    let now = schema();
    if std::env::var_os("TIERCEL_WRITE_SCHEMA").is_some() {
        std::fs::write(FILE, &now).expect("the file can be written");
        return;
    }
    let (before, now): (BTreeSet<&str>, BTreeSet<&str>) = (SCHEMA.lines().collect(), now.lines().collect());
    let (lost, new): (Vec<_>, Vec<_>) =
        (before.difference(&now).collect(), now.difference(&before).collect());
    assert!(
        lost.is_empty() && new.is_empty(),
        "the JSON has changed: lost {lost:#?}, new {new:#?}. If this is intended, raise VERSION if a field was lost, and \
         write schema.txt again (TIERCEL_WRITE_SCHEMA=1)"
    );
}

/// Checks that every request is in the schema. The list of requests and the list of examples are separate.
#[test]
fn every_request_is_in_the_schema() {
    // The error for an unknown tag lists all known tags.
    let error = serde_json::from_str::<Request>(r#"{"request":"?"}"#).expect_err("unknown").to_string();
    let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(names.len() > 20, "{error}");
    for name in names {
        for part in ["request", "answer"] {
            let begin = format!("{name} {part}");
            assert!(SCHEMA.lines().any(|line| line.starts_with(&begin)), "{begin} is missing");
        }
    }
}

#[test]
fn what_has_drifted_is_no_answer() {
    let mut json = serde_json::to_value(trace_report()).expect("plain data");
    let fields = json.as_object_mut().expect("an object");
    let runs = fields.remove("runs").expect("a field");
    fields.insert("events".to_owned(), runs);
    let error = serde_json::from_value::<TraceReport>(json).expect_err("no number is made up").to_string();
    assert!(error.contains("missing field `runs`"), "{error}");
    let misspelt = r#"{"request":"close","cid":5,"force":true}"#;
    let error = serde_json::from_str::<Request>(misspelt).expect_err("unknown").to_string();
    assert!(error.contains("unknown field `force`"), "{error}");
}
