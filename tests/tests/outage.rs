//! A peer that does not answer for a while, or forever, on virtual time and with the default tuning of a node
//! (D-46, D-78).

use std::collections::VecDeque;

use host_nic::{HostConfig, HostNic};
use tiercel::Tuning;
use tiercel_tests::simulation::node_config_of;
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, Initial, Parameters, Path, State};
use transport_common::datapath::Verdict;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::queues::{AccessFlags, Domain, NodeConfig, Region, Verb, WorkFlags, WorkRequest};
use transport_common::transaction::CompletionCode;
use transport_common::units::{Fcwnd, PicosecondSpan, Picoseconds, Ticks};

const MICROSECOND: u64 = 1_000_000;
const MILLISECOND: u64 = 1000 * MICROSECOND;
const SECOND: u64 = 1000 * MILLISECOND;
/// One-way delay of the fabric.
const DELAY: u64 = 5 * MICROSECOND;
/// The engine's time per frame.
const FRAME_TIME: u64 = MICROSECOND;
/// Capacity of a receive ring in frames, as on veth. Further frames are lost.
const RING: usize = 256;
const CID: Cid = Cid(5);
const KEY: u32 = 1;
/// Bytes of memory of a card.
const MEMORY: u64 = 1 << 20;

fn parameters(side: usize, ordered: bool, settings: Settings) -> Parameters {
    let tuning = Tuning::DEFAULT;
    let address = |host: u8| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[10, 7, 0, host + 1]);
        address
    };
    let mac = |host: usize| [2, 0, 0, 0, 0, host as u8 + 1];
    let initial = Initial { request_psn: Psn(u32::MAX - 20), data_psn: Psn(u32::MAX - 30), rsn: Rsn(1) };
    let ticks = |duration: std::time::Duration| Ticks::from_nanos(duration.as_nanos() as u64);
    Parameters {
        config: Config {
            path: Path {
                source: address(side as u8),
                destination: address(1 - side as u8),
                source_mac: mac(side),
                destination_mac: mac(1 - side),
                source_port: 50_000,
                ip_version: 4,
                ..Path::default()
            },
            local_cid: CID,
            peer_cid: CID,
            ordered: ordered.into(),
            rnr_timeout_code: tuning.rnr_timeout_code,
            ack_request_percent: tuning.ack_request_percent,
            ack_request_threshold: tuning.ack_request_threshold,
            ooo_threshold: tuning.ooo_threshold,
            max_retransmit_attempts: tuning.max_retransmit_attempts,
            ack_coalescing: ticks(tuning.ack_coalescing),
            transaction_timeout: ticks(tuning.transaction_timeout),
            max_segment: 3264,
            domain: Domain::of_node(MEMORY),
            replay_margin: PicosecondSpan::from_nanos(tuning.replay_margin.as_nanos() as u64),
            ..Config::default()
        },
        psp_version: 15,
        tx_spi: Spi(1),
        rx_spi: Spi(1),
        remote_time: None,
        tx: initial,
        rx: initial,
        request_window: tuning.request_window,
        data_window: tuning.data_window,
        fcwnd: Fcwnd::from_packets(tuning.fcwnd as u32),
        ncwnd: tuning.ncwnd,
        rto: ticks(tuning.rto),
        settings,
    }
}

/// The kind of outage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Away {
    /// The links lose everything.
    Fabric,
    /// Only the peer's frames are lost.
    WayBack,
    /// The peer's CPU does other work: its ring fills, and its engine does not run.
    Peer,
}

/// Two cards and the fabric between them.
struct World {
    nics: [HostNic; 2],
    /// Frames in flight to each card, with their times of arrival.
    ways: [VecDeque<(u64, Vec<u8>)>; 2],
    engine_free: [u64; 2],
    now: u64,
    away: Away,
    from: u64,
    until: u64,
    posted: u64,
    completed: Vec<u8>,
}

impl World {
    fn new(ordered: bool, settings: Settings, away: Away, [from, until]: [u64; 2]) -> Self {
        let nics = [0, 1].map(|side| {
            let node = NodeConfig { memory: MEMORY, ..node_config_of(side) };
            let mut nic = HostNic::new(HostConfig::new(node));
            nic.open(CID.0 as usize, &parameters(side, ordered, settings));
            let rights = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
            nic.register(Region {
                offset: 0,
                length: 1 << 16,
                key: KEY,
                access: rights,
                ..Region::default()
            });
            nic
        });
        let (ways, completed) = (Default::default(), Vec::new());
        Self { nics, ways, engine_free: [0; 2], now: 0, away, from, until, posted: 0, completed }
    }

    fn is_away(&self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }

    fn peer_sleeps(&self) -> bool {
        self.away == Away::Peer && self.is_away(self.now)
    }

    fn send(&mut self, from: usize, frame: Vec<u8>) {
        let lost = self.is_away(self.now)
            && match self.away {
                Away::Fabric => true,
                Away::WayBack => from == 1,
                Away::Peer => false,
            };
        if !lost {
            self.ways[1 - from].push_back((self.now + DELAY, frame));
        }
    }

    /// Host A writes and reads in turn, and keeps many operations in progress until `until`.
    fn post(&mut self, until: u64) {
        while self.now < until && self.posted - (self.completed.len() as u64) < 96 {
            let read = self.posted % 4 == 3;
            let work = WorkRequest {
                opcode: if read { Verb::READ } else { Verb::WRITE },
                flags: WorkFlags::SIGNALED,
                length: 256,
                local_offset: 0x8000,
                remote_address: self.posted % 64 * 256,
                rkey: KEY,
                wr_id: self.posted,
                ..WorkRequest::default()
            };
            if self.nics[0].post(CID.0 as usize, work).is_err() {
                break; // on an unordered connection the oldest may block the queue
            }
            self.posted += 1;
        }
        while let Some(completion) = self.nics[0].poll_completion(CID.0 as usize) {
            self.completed.push(completion.status);
        }
    }

    /// Returns the next event, if there is one.
    fn next(&self) -> Option<u64> {
        let asleep = if self.peer_sleeps() { self.until } else { 0 };
        let arrivals = [0, 1].map(|side| {
            let awake = if side == 1 { asleep } else { 0 };
            self.ways[side].front().map(|(at, _)| (*at).max(awake))
        });
        let engines = [0, 1].map(|side| {
            let awake = if side == 1 { asleep } else { 0 };
            Some(self.nics[side].next_event()?.0.max(self.engine_free[side]).max(awake))
        });
        arrivals.into_iter().chain(engines).flatten().min().map(|at| at.max(self.now))
    }

    fn step(&mut self, at: u64) {
        self.now = at;
        self.nics.iter_mut().for_each(|nic| nic.set_time(Picoseconds(at)));
        if self.peer_sleeps() {
            let late = self.ways[1].iter().filter(|(arrival, _)| *arrival <= at).count();
            // Frames that arrive when the ring is full are lost.
            let _ = self.ways[1].drain(RING.min(late)..late);
        }
        for side in 0..2 {
            if side == 1 && self.peer_sleeps() {
                continue;
            }
            while self.ways[side].front().is_some_and(|(arrival, _)| *arrival <= at) {
                let (_, frame) = self.ways[side].pop_front().expect("it was there");
                let (verdict, frame) = self.nics[side].receive(frame);
                if verdict == Verdict::Transmit {
                    self.send(side, frame);
                }
            }
            if self.engine_free[side] <= at && self.nics[side].next_event().is_some_and(|due| due.0 <= at) {
                self.engine_free[side] = at + FRAME_TIME;
                if let Some((Verdict::Transmit, frame)) = self.nics[side].engine_frame() {
                    self.send(side, frame);
                }
            }
        }
    }

    /// Plays until nothing is in progress, or until `end`.
    fn run(&mut self, until: u64, end: u64) {
        self.post(until);
        while let Some(at) = self.next().filter(|at| *at < end) {
            self.step(at);
            self.post(until);
            if self.now >= until && self.completed.len() as u64 == self.posted {
                return;
            }
        }
    }

    fn states(&self) -> [State; 2] {
        [0, 1].map(|side| self.nics[side].entry(CID.0 as usize).connection.state)
    }
}

/// With default tuning, a pause of the peer of 10 or 50 ms, or half a second, only costs time.
#[test]
fn everything_completes_after_a_pause_of_the_peer() {
    for settings in [Settings::CONSTANT, Settings::SWIFT] {
        for away in [Away::Fabric, Away::WayBack, Away::Peer] {
            for (ordered, pause) in [(true, 10), (true, 50), (false, 50), (true, 500)] {
                let outage = [MILLISECOND, (1 + pause) * MILLISECOND];
                let mut world = World::new(ordered, settings, away, outage);
                world.run((5 + pause) * MILLISECOND, 20 * SECOND);
                let what = format!("{away:?}, {pause} ms, placement {}", settings.placement);
                assert_eq!(world.states(), [State::Open; 2], "{what}");
                assert_eq!(world.completed.len() as u64, world.posted, "{what}: every operation, once");
                assert!(world.completed.iter().all(|code| *code == CompletionCode::Ack as u8), "{what}");
                assert!(world.now > outage[1] && world.posted > 96, "{what}: some were under way");
                println!("{what}: over after {} ms", world.now / MILLISECOND);
            }
        }
    }
}

/// D-46: a dead peer is noticed after 2 (M + 1) retransmission timeouts. By then, everything has completed in
/// error.
#[test]
fn a_dead_peer_is_noticed_in_bounded_time() {
    for settings in [Settings::CONSTANT, Settings::SWIFT] {
        let mut world = World::new(true, settings, Away::Fabric, [MILLISECOND, u64::MAX]);
        world.run(2 * MILLISECOND, 60 * SECOND);
        let took = world.now - MILLISECOND;
        println!("placement {}: {} ms", settings.placement, took / MILLISECOND);
        assert!(took < 2500 * MILLISECOND, "{} ms", took / MILLISECOND);
        assert_eq!(world.completed.len() as u64, world.posted);
        let timed_out = |code: &&u8| **code == CompletionCode::LocalTimeout as u8;
        assert!(world.completed.iter().filter(timed_out).count() > 0);
        assert!(took >= SECOND, "and not for a pause of a second");
        assert_eq!(world.states()[0], State::Fatal);
    }
}
