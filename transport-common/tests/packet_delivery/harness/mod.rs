//! The two ends of a connection without a network or a kernel: two cards on the host. The test carries each packet, so it
//! decides what is lost, reordered or late.

#![allow(
    dead_code,
    unused_imports,
    reason = "every test crate that includes this file uses its own part of it"
)]

use transport_common::congestion::settings::Settings;
use transport_common::connection::{
    Cold, Config, Connection, Initial, Outgoing, PACKETS, Parameters, RESPONSES, Snapshot, Statistics,
    TRANSACTIONS, Tables,
};
use transport_common::datapath::Scratch;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::packet_delivery::{DeliveryTables, NackState, Rack, TxPacket, Window};
use transport_common::queues::{Domain, Verb, WorkFlags, WorkRequest};
use transport_common::transaction::{RequestState, Response, TargetRequest, Transaction};
use transport_common::units::{Fcwnd, PicosecondSpan, Picoseconds, Ticks};
use transport_common::wire::PacketType;
use transport_common::wire::nack::NackCode;

mod node;
mod pair;
mod wire;

pub(crate) use node::Node;
pub(crate) use pair::Pair;
pub(crate) use wire::{Wire, back, nack};

/// Bytes of a node's memory.
pub(crate) const MEMORY: usize = 1 << 16;
/// R_Key of the region that covers the whole memory.
pub(crate) const RKEY: u32 = 1;
/// Receive cells of a node.
pub(crate) const CELLS: usize = 64;
/// Largest segment of the connections opened here.
pub(crate) const MAX_SEGMENT: u32 = 1024;
/// Retransmission timeout of the connections opened here, in microseconds.
pub(crate) const RTO_MICROS: u64 = 1000;

pub(crate) const PULL_REQUEST: PacketType = PacketType::PullRequest;
pub(crate) const PULL_DATA: PacketType = PacketType::PullData;
pub(crate) const PUSH_DATA: PacketType = PacketType::PushData;
pub(crate) const RESYNC: PacketType = PacketType::Resync;
pub(crate) const NACK: PacketType = PacketType::Nack;
pub(crate) const BACK: PacketType = PacketType::Back;
pub(crate) const EACK: PacketType = PacketType::Eack;
pub(crate) const RNR: NackCode = NackCode::RNR;
pub(crate) const CIE: NackCode = NackCode::COMPLETE_IN_ERROR;
pub(crate) const NO_RESOURCES: NackCode = NackCode::INSUFFICIENT_RESOURCES;

/// Returns the instant `micros` after the start, which is well after 0 of the clock.
pub(crate) fn at(micros: u64) -> Picoseconds {
    Picoseconds::from_nanos(1_000_000_000 + micros * 1000)
}

/// Returns a closed entry as in the kernel's map: zero bytes.
pub(crate) fn closed_entry() -> Box<Snapshot> {
    bytemuck::zeroed_box()
}

/// Returns the same value, built field by field.
pub(crate) fn default_entry() -> Snapshot {
    Snapshot {
        connection: Connection::default(),
        tables: Tables {
            steps: 0,
            delivery: DeliveryTables {
                packets: [[TxPacket::default(); PACKETS]; 2],
                rack: Rack::default(),
                nack: NackState::default(),
            },
            transactions: [Transaction::default(); TRANSACTIONS],
            requests: [TargetRequest::default(); TRANSACTIONS],
            responses: [Response::default(); RESPONSES],
            statistics: Statistics::default(),
        },
        settings: bytemuck::Zeroable::zeroed(),
        cold: Cold::default(),
    }
}

fn zeroed_scratch() -> Box<Scratch> {
    bytemuck::zeroed_box()
}

/// Returns the parameters of one end: CID 5 towards us, 10 towards the peer. Only the last push of a burst carries
/// AR.
pub(crate) fn parameters(ordered: bool, tx: Initial, rx: Initial) -> Parameters {
    Parameters {
        config: Config {
            local_cid: Cid(5),
            peer_cid: Cid(10),
            local_function: 3,
            peer_function: 7,
            ordered: ordered as u8,
            rnr_timeout_code: 14, // 1.28 ms
            ooo_threshold: 3,
            max_retransmit_attempts: 2,
            ack_coalescing: Ticks::from_nanos(8_000),
            transaction_timeout: Ticks::from_nanos(2_000_000_000),
            max_segment: MAX_SEGMENT,
            domain: Domain::of_node(1 << 28),
            replay_margin: PicosecondSpan::from_nanos(100_000_000),
            ..Config::default()
        },
        psp_version: 15,
        tx_spi: Spi(2),
        rx_spi: Spi(1),
        remote_time: None,
        tx,
        rx,
        request_window: 64,
        data_window: 128,
        fcwnd: Fcwnd::from_packets(32),
        ncwnd: 64,
        rto: Ticks::from_nanos(RTO_MICROS * 1000),
        settings: Settings::CONSTANT,
    }
}

/// Returns the other end's parameters.
pub(crate) fn mirrored(p: &Parameters) -> Parameters {
    let mut q = *p;
    (q.config.local_cid, q.config.peer_cid) = (p.config.peer_cid, p.config.local_cid);
    (q.config.local_function, q.config.peer_function) = (p.config.peer_function, p.config.local_function);
    (q.tx_spi, q.rx_spi) = (p.rx_spi, p.tx_spi);
    (q.tx, q.rx) = (p.rx, p.tx);
    q
}

pub(crate) fn initial(request_psn: u32, data_psn: u32, rsn: u32) -> Initial {
    Initial { request_psn: Psn(request_psn), data_psn: Psn(data_psn), rsn: Rsn(rsn) }
}

/// Returns a signaled work request of `length` bytes between offset 0 here and offset `remote` at the peer.
pub(crate) fn work(code: Verb, remote: u64, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: code,
        flags: WorkFlags::SIGNALED,
        length,
        remote_address: remote,
        rkey: RKEY,
        ..WorkRequest::default()
    }
}

pub(crate) fn write(remote: u64, length: u32) -> WorkRequest {
    work(Verb::WRITE, remote, length)
}

pub(crate) fn read(remote: u64, length: u32) -> WorkRequest {
    work(Verb::READ, remote, length)
}

/// Reports that the packet at `psn` was recorded as sent but could not be built.
pub(crate) fn not_sent(node: &mut Node, window: Window, psn: Psn) {
    let kind = if window == Window::Request { PULL_REQUEST } else { PUSH_DATA };
    let generation = node.entry.connection.generation;
    let packet = Outgoing { kind, window: window as u8, psn: psn.0, generation, ..Outgoing::default() };
    node.entry.whole().not_sent(&packet);
}
