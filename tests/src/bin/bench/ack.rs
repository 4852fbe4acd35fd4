//! Measures what congestion control in the datapath adds to the handling of an ACK. The same acknowledgements
//! go through the same program, with constant windows and with Swift in turn. The kernel counts the time in the
//! program.

use anyhow::{Result, ensure};
use host_nic::{HostConfig, HostNic, node_config};
use serde::Serialize;
use tiercel_tests::differential::{Kernel, Program};
use tiercel_tests::{Host, Pair, veth};
use transport_common::congestion::settings::{CurrentSettings, Settings};
use transport_common::connection::{Config, Initial, Parameters, Path, Snapshot};
use transport_common::datapath::Verdict;
use transport_common::ids::{Cid, Spi};
use transport_common::queues::{
    AccessFlags, DEFAULT_MEMORY, Domain, QueuePair, Region, Verb, WorkFlags, WorkRequest,
};
use transport_common::units::{Fcwnd, PicosecondSpan, Picoseconds, Ticks};

use crate::cost::{self, Cost};

/// Target: the time that Swift may add to an ACK, nanoseconds.
pub(crate) const MOST_ADDED: f64 = 80.0;
/// Number of packets that one pass acknowledges, each by a BACK of its own.
const PACKETS: usize = 64;
/// Number of passes with constant windows and with Swift, in turn.
const PASSES: usize = 150;
const SLOT: usize = 5;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// Offsets of the PSP IV, T1 and T2 of a BACK in an IPv4 frame.
const IV: usize = 14 + 20 + 8 + 8;
const T1: usize = 14 + 20 + 8 + 24 + 16;
const T2: usize = T1 + 4;
/// RTT and time at the peer in the acknowledgements, ticks: 20 us and 1 us.
const RTT: u32 = 153;
const HELD: u32 = 8;

/// Time to handle an ACK that acknowledges one packet, nanoseconds, including the kernel's two reads of the clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AckHandling {
    /// With constant windows.
    pub(crate) constant_ns: f64,
    /// With Swift in the datapath.
    pub(crate) swift_ns: f64,
    /// Time that Swift adds, median over the passes.
    pub(crate) added_ns: f64,
    /// Time with Swift divided by time with constant windows, median over the passes.
    pub(crate) ratio: f64,
    pub(crate) target_ns: f64,
    pub(crate) meets_target: bool,
}

/// A connection with packets in flight, and their acknowledgements.
struct Scene {
    entry: Box<Snapshot>,
    queues: Box<QueuePair>,
    acknowledgements: Vec<Vec<u8>>,
}

/// Measures on this machine.
pub(crate) fn measure(pair: &Pair) -> Result<AckHandling> {
    let scene = Scene::new()?;
    pair.a.run(|| {
        let interface = veth::interface_index(Host::INTERFACE)?;
        let mut kernel = Kernel::load(node_config(MACS[0], ADDRESSES[0], [0; 16]), interface)?;
        let (mut constant, mut swift) = (Vec::new(), Vec::new());
        for _ in 0..PASSES {
            constant.push(scene.pass(&mut kernel, Settings::CONSTANT)?.nanoseconds_per_run);
            swift.push(scene.pass(&mut kernel, Settings::SWIFT)?.nanoseconds_per_run);
        }
        let added = constant.iter().zip(&swift).map(|(constant, swift)| swift - constant).collect();
        let ratios = constant.iter().zip(&swift).map(|(constant, swift)| swift / constant).collect();
        let added_ns = median(added);
        Ok(AckHandling {
            constant_ns: median(constant),
            swift_ns: median(swift),
            added_ns,
            ratio: median(ratios),
            target_ns: MOST_ADDED,
            meets_target: added_ns <= MOST_ADDED,
        })
    })
}

impl Scene {
    fn new() -> Result<Self> {
        let [mut a, mut b] = [0, 1].map(|side| {
            let mut nic = HostNic::new(HostConfig::new(node_config(MACS[side], ADDRESSES[side], [0; 16])));
            nic.open(SLOT, &parameters(side));
            nic.set_time(Picoseconds(1 << 40));
            nic
        });
        b.register(Region {
            offset: 8192,
            length: 4096,
            key: 1,
            access: AccessFlags::REMOTE_WRITE,
            ..Region::default()
        });
        let work = WorkRequest { opcode: Verb::WRITE, length: 64, rkey: 1, ..WorkRequest::default() };
        for n in 0..PACKETS {
            let flags = if n + 1 == PACKETS { WorkFlags::SIGNALED } else { WorkFlags::empty() };
            a.post(SLOT, WorkRequest { flags, ..work })?;
        }
        let mut frames = Vec::new();
        while let Some((verdict, frame)) = a.engine_frame() {
            if verdict == Verdict::Transmit {
                frames.push(frame);
            }
        }
        ensure!(frames.len() == PACKETS, "{} of {PACKETS} packets were sent", frames.len());
        let mut acknowledgements = Vec::new();
        for frame in frames {
            let (verdict, acknowledgement) = b.receive(frame);
            ensure!(verdict == Verdict::Transmit, "a packet with AR was not acknowledged at once");
            acknowledgements.push(acknowledgement);
        }
        // SAFETY: the memory holds integers in cells and atomics, and nobody writes it at this time.
        let queues = unsafe { Box::new(std::ptr::read(a.queue_pair(SLOT))) };
        Ok(Self { entry: Box::new(*a.entry(SLOT)), queues, acknowledgements })
    }

    /// Processes all acknowledgements, one after the other, from the same initial state.
    fn pass(&self, kernel: &mut Kernel, settings: Settings) -> Result<Cost> {
        let entry = Snapshot { settings: CurrentSettings::new(settings), ..*self.entry };
        kernel.set_entry(SLOT, &entry)?;
        let queues = kernel.queue_pair(SLOT);
        // SAFETY: as above, and the programs do not run during this access.
        unsafe { std::ptr::copy_nonoverlapping(&*self.queues, queues, 1) };
        let wire = kernel.wire_id()?;
        let [cost, _] = cost::of([wire, wire], || {
            for acknowledgement in &self.acknowledgements {
                kernel.run(Program::Wire, &fresh(acknowledgement))?;
            }
            Ok(PACKETS as u64)
        })?;
        let left = kernel.entry(SLOT)?.connection.flow.delivery.data().tx.in_flight();
        ensure!(left == 0, "{left} packets were not acknowledged");
        Ok(cost)
    }
}

/// Returns the acknowledgement as if it arrived now, for a packet sent one RTT ago.
fn fresh(acknowledgement: &[u8]) -> Vec<u8> {
    let now = Picoseconds::from_nanos(Kernel::now());
    let mut frame = acknowledgement.to_vec();
    let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
    let t1 = now.ticks().0.wrapping_sub(RTT);
    put(IV, &now.0.to_be_bytes());
    put(T1, &t1.to_be_bytes());
    put(T2, &t1.wrapping_add((RTT - HELD) / 2).to_be_bytes());
    frame
}

fn parameters(side: usize) -> Parameters {
    let address = |v4: [u8; 4]| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&v4);
        address
    };
    Parameters {
        config: Config {
            path: Path {
                source: address(ADDRESSES[side]),
                destination: address(ADDRESSES[1 - side]),
                source_mac: MACS[side],
                destination_mac: MACS[1 - side],
                source_port: 50_000,
                ip_version: 4,
                ..Path::default()
            },
            local_cid: Cid(SLOT as u32),
            peer_cid: Cid(SLOT as u32),
            ordered: 1,
            ack_request_percent: 100,
            ooo_threshold: 3,
            max_retransmit_attempts: 1000,
            ack_coalescing: Ticks(61),
            transaction_timeout: Ticks(7_000_000),
            max_segment: 1024,
            domain: Domain::of_node(DEFAULT_MEMORY),
            // The clock of the machine is far ahead of the clock in the packets.
            replay_margin: PicosecondSpan(u64::MAX / 4),
            ..Config::default()
        },
        psp_version: 15,
        tx_spi: Spi(1),
        rx_spi: Spi(1),
        remote_time: None,
        tx: Initial::default(),
        rx: Initial::default(),
        request_window: 64,
        data_window: 128,
        fcwnd: Fcwnd::from_packets(128),
        ncwnd: 128,
        rto: Ticks(7629),
        settings: Settings::CONSTANT,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
