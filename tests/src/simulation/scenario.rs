//! The part of a run that a seed decides before the first packet: hosts, links between them, the fabric.

use fabric_model::FabricConfig;
use host_nic::node_config;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::connection::{Config, Initial, Parameters, Path};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::queues::{CELLS, NodeConfig};
use transport_common::security::Tunnel;
use transport_common::ulp::Protocol;
use transport_common::ulp::block::BLOCK_BYTES;
use transport_common::units::{Fcwnd, PicosecondSpan};

use super::crowd::{self, Hosts};
use super::draw::{micros, scale, settings};
use super::faults::Fault;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Unlimited attempts and transaction time: every operation ends as if the network were perfect.
    Lossy,
    /// Few attempts and short transaction timeouts: operations may fail, but never twice and never without a
    /// completion.
    Exhausting,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The host it is on.
    pub host: usize,
    /// Its connection slot there.
    pub slot: usize,
}

/// A connection between two hosts.
#[derive(Clone, Debug)]
pub struct Link {
    /// The two ends.
    pub ends: [End; 2],
    /// The settings with which each end is opened.
    pub parameters: [Parameters; 2],
    /// Number of operations of each end.
    pub operations: [usize; 2],
    /// The largest number of outstanding operations of each end.
    pub depth: [usize; 2],
    /// The largest number of posted receives of each end.
    pub receives: [usize; 2],
    /// The relative frequency of writes, reads, swaps, adds and sends of each end.
    pub mix: [[u32; 5]; 2],
    /// Whether the application of each end keeps its send queue as full as it may be.
    pub keen: [bool; 2],
    /// Whether messages may be longer than their buffer, keys wrong and bounds exceeded.
    pub errors: bool,
    /// Whether work requests may be malformed.
    pub malformed: bool,
}

/// One host's card.
#[derive(Clone, Copy, Debug)]
pub struct HostPlan {
    /// Receive cells.
    pub cells: usize,
    /// Tailroom of received frames, bytes.
    pub tail_room: u32,
    /// The time of its clock when the fabric's clock shows 0, picoseconds.
    pub clock: u64,
    /// How much faster its clock runs than the fabric's, parts per million.
    pub drift_ppm: i64,
    /// Number of CPUs. With one, nothing interrupts a run of the datapath. With more, one serves each engine and the others
    /// the network, and their runs interleave.
    pub cpus: usize,
    /// Number of engines, each on a CPU of its own. They share doorbells and timing wheel.
    pub engines: usize,
    /// Time that the engine takes for a frame, nanoseconds.
    pub frame_nanos: u64,
    /// Longest pause of the application, nanoseconds.
    pub pause_nanos: u64,
}

/// Everything that is fixed before a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// Its purpose.
    pub profile: Profile,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// The connections.
    pub links: Vec<Link>,
    /// The fabric.
    pub fabric: FabricConfig,
    /// What else goes wrong, in the order of time.
    pub faults: Vec<Fault>,
    /// The link whose first application overwrites its queues at random.
    pub scribbler: Option<usize>,
}

/// Returns the MAC address of a host.
pub(crate) const fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8 + 1]
}

/// Returns the IPv4 address of a host.
const fn ipv4(host: usize) -> [u8; 4] {
    [10, 7, 0, host as u8 + 1]
}

/// Returns the IPv6 address of a host.
const fn ipv6(host: usize) -> [u8; 16] {
    [0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host as u8 + 1]
}

/// Returns the addresses in the configuration of a host's card.
#[must_use]
pub fn node_config_of(host: usize) -> NodeConfig {
    node_config(mac(host), ipv4(host), ipv6(host))
}

/// Draws a number, often close to the wrap (D-18).
fn number(rng: &mut StdRng) -> u32 {
    if rng.random_bool(0.5) { 0u32.wrapping_sub(rng.random_range(0..200)) } else { rng.random() }
}

fn initial(rng: &mut StdRng) -> Initial {
    Initial { request_psn: Psn(number(rng)), data_psn: Psn(number(rng)), rsn: Rsn(number(rng)) }
}

impl Scenario {
    /// Draws the scenario of `seed`, with two or three hosts.
    #[must_use]
    pub fn random(seed: u64, profile: Profile) -> Self {
        Self::among(seed, profile, &Hosts::Few)
    }

    /// Draws the scenario of `seed`.
    #[must_use]
    pub(super) fn among(seed: u64, profile: Profile, hosts: &Hosts) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let few = if rng.random_bool(0.8) { 2 } else { 3 };
        let count = hosts.draw(seed).unwrap_or(few);
        let hosts: Vec<_> = (0..count).map(|_| HostPlan::random(rng)).collect();
        let (fabric, corrupts) = random_fabric(rng, seed, profile);
        let links = if count <= 3 {
            let number = rng.random_range(1..=3);
            let of = |n| {
                let pair = crowd::pair(rng, count);
                Link::random(rng, n, pair, profile, corrupts)
            };
            (0..number).map(of).collect()
        } else {
            let pairs = crowd::pairs(rng, count);
            // A crowd has as many operations as two connections, so that a seed with it does not take much longer.
            let share = pairs.len().div_ceil(2);
            let of = |(n, pair)| {
                let link = Link::random(rng, n, pair, profile, corrupts);
                Link { operations: link.operations.map(|number| number.div_ceil(share)), ..link }
            };
            pairs.into_iter().enumerate().map(of).collect()
        };
        Self { seed, profile, hosts, links, fabric, faults: vec![], scribbler: None }
    }
}

impl HostPlan {
    fn random(rng: &mut StdRng) -> Self {
        // The Falcon clock wraps after 2^49 ps.
        let wrap = 1 << 49;
        Self {
            cells: match rng.random_range(0..4) {
                0 => rng.random_range(0..4),
                1 => rng.random_range(4..40),
                _ => CELLS,
            },
            tail_room: if rng.random_bool(0.3) { rng.random_range(0..600) } else { u32::MAX },
            clock: if rng.random_bool(0.5) {
                wrap - rng.random_range(0..1 << 34)
            } else {
                rng.random_range(0..1 << 50)
            },
            drift_ppm: 0,
            cpus: 1,
            engines: 1,
            frame_nanos: scale(rng, 100, 30_000),
            pause_nanos: scale(rng, 1000, 300_000),
        }
    }
}

/// Returns the fabric's configuration as text, and whether it corrupts frames.
fn random_fabric(rng: &mut StdRng, seed: u64, profile: Profile) -> (FabricConfig, bool) {
    let worst = if profile == Profile::Lossy { 10.0 } else { 25.0 };
    let mut percent = |often: f64| if rng.random_bool(often) { rng.random_range(0.0..worst) } else { 0.0 };
    let (loss, reorder, duplicate, corrupt) = (percent(0.8), percent(0.6), percent(0.5), percent(0.4));
    let mut text = format!("seed={seed},loss={loss:.3}%,reorder={reorder:.3}%,duplicate={duplicate:.3}%");
    text += &format!(",corrupt={corrupt:.3}%,reorder_distance={}", rng.random_range(1..40));
    text += &format!(",delay={}us,jitter={}us", scale(rng, 1, 100), scale(rng, 1, 50));
    if rng.random_bool(0.3) {
        text += &format!(",rate={}Mbps,queue={}KiB", scale(rng, 200, 20_000), scale(rng, 16, 512));
        text += &format!(",ecn={}KiB", scale(rng, 4, 64));
    }
    if rng.random_bool(0.2) {
        text += ",burst=0.2%/20%/100%";
    }
    text += &format!(",hops={}", rng.random_range(0..20));
    (text.parse().expect("the keys are the fabric's own"), corrupt >= 0.001)
}

/// Returns the slot of link number `n` at a host. Slots differ between the hosts, and differ from CIDs: there are 256
/// slots, and CIDs have 24 bits.
const fn slot_of_link(n: usize, host: usize) -> usize {
    (n * 37 + host * 101 + 5) % 256
}

impl Link {
    pub(super) fn random(
        rng: &mut StdRng,
        n: usize,
        pair: [usize; 2],
        profile: Profile,
        corrupts: bool,
    ) -> Self {
        let ends = pair.map(|host| End { host, slot: slot_of_link(n, host) });
        let cids = ends.map(|end| Cid(end.slot as u32 | rng.random_range(0..1 << 16) << 8));
        Self::between(rng, ends, cids, profile, corrupts)
    }

    /// Draws the link that takes the place of this one after the host of `side` restarted. There it has the same slot
    /// and CID. The other host still has the old connection, so there the new one has another slot.
    pub(super) fn again(
        &self,
        rng: &mut StdRng,
        n: usize,
        side: usize,
        profile: Profile,
        corrupts: bool,
    ) -> Self {
        let (mut ends, mut cids) = (self.ends, self.parameters.map(|p| p.config.local_cid));
        let other = &mut ends[1 - side];
        other.slot = slot_of_link(n, other.host);
        cids[1 - side] = Cid(other.slot as u32 | rng.random_range(0..1 << 16) << 8);
        Self::between(rng, ends, cids, profile, corrupts)
    }

    /// Draws the link that takes the place of this one after both ends closed it, with the same slots and CIDs. Often
    /// its numbers begin as before, as those of a static connection do.
    pub(super) fn reopened(&self, rng: &mut StdRng, profile: Profile) -> Self {
        let cids = self.parameters.map(|p| p.config.local_cid);
        let mut again = Self::between(rng, self.ends, cids, profile, true);
        if rng.random_bool(0.7) {
            for (new, old) in again.parameters.iter_mut().zip(&self.parameters) {
                (new.tx, new.rx) = (old.tx, old.rx);
            }
        }
        again
    }

    fn between(rng: &mut StdRng, ends: [End; 2], cids: [Cid; 2], profile: Profile, corrupts: bool) -> Self {
        let starts = [initial(rng), initial(rng)];
        let functions: [u32; 2] = [rng.random_range(0..1 << 24), rng.random_range(0..1 << 24)];
        let spis: [u32; 2] = [rng.random_range(1..u32::MAX), rng.random_range(1..u32::MAX)];
        let ordered = rng.random_bool(0.6) as u8;
        let protocol = if rng.random_bool(0.25) { Protocol::BLOCK } else { Protocol::RDMA };
        let vlan = rng.random_bool(0.2) as u8;
        // The fabric's log of corruptions covers at most a tagged IPv6 header.
        let v6 = vlan == 0 && rng.random_bool(0.4);
        // F-7.1.2-1: one link in six is in tunnel mode. This takes no number of its own from the generator, so that a seed
        // gives the same run as before tunnels, but for the inner headers.
        let inner_version = match spis[0] % 12 {
            0 => 4,
            1 => 6,
            _ => 0,
        };
        // F-9.1.6-9: RACK-TLP is on at both ends of one link in three. It takes no number of its own either.
        let rack_tlp = spis[1].is_multiple_of(3) as u8;
        let inner: [[u64; 2]; 2] = [0, 1].map(|side| inner_address(inner_version, ends[side].slot, side));
        // Longer segments would not fit the engine's frame.
        let max_segment = match protocol {
            Protocol::BLOCK => rng.random_range(1..=6) * BLOCK_BYTES,
            _ => scale(rng, 16, 3200) as u32,
        };
        let checksum = (corrupts || rng.random_bool(0.5)) as u8;
        let side = |rng: &mut StdRng, side: usize| {
            let peer = 1 - side;
            let mut p = Self::tuning(rng, profile);
            p.config.path = path(ends[side].host, ends[peer].host, v6);
            p.config.path.inner_version = inner_version;
            p.config.tunnel = Tunnel { local: inner[side], peer: inner[peer] };
            p.config.path.vlan = vlan;
            p.config.path.vlan_tci = if vlan != 0 { 7 } else { 0 };
            p.config.path.source_port = rng.random_range(49152..=65535);
            (p.config.local_cid, p.config.peer_cid) = (cids[side], cids[peer]);
            (p.config.local_function, p.config.peer_function) = (functions[side], functions[peer]);
            (p.config.ordered, p.config.checksum, p.config.max_segment) = (ordered, checksum, max_segment);
            p.config.protocol = protocol;
            p.config.rack_tlp = rack_tlp;
            (p.tx_spi, p.rx_spi) = (Spi(spis[side]), Spi(spis[peer]));
            (p.tx, p.rx) = (starts[side], starts[peer]);
            p
        };
        let parameters = [side(rng, 0), side(rng, 1)];
        let most = if profile == Profile::Lossy { 300 } else { 600 };
        let two = |rng: &mut StdRng, low, high| [(); 2].map(|()| scale(rng, low, high) as usize);
        Self {
            ends,
            parameters,
            operations: two(rng, 5, most),
            depth: two(rng, 1, 256),
            receives: two(rng, 1, 64),
            mix: [(); 2].map(|()| [(); 5].map(|()| 1 + rng.random_range(0..8u32).pow(2))),
            keen: [false; 2],
            errors: rng.random_bool(0.4),
            malformed: rng.random_bool(0.2),
        }
    }

    /// Draws windows, timers and thresholds of one end.
    fn tuning(rng: &mut StdRng, profile: Profile) -> Parameters {
        let exhausting = profile == Profile::Exhausting;
        let config = Config {
            rnr_timeout_code: rng.random_range(1..20),
            ack_request_percent: rng.random_range(0..=100),
            ack_request_threshold: rng.random_range(0..8),
            ooo_threshold: rng.random_range(0..10),
            max_retransmit_attempts: if exhausting { rng.random_range(0..5) } else { u16::MAX.into() },
            ack_coalescing: micros(scale(rng, 1, 200)),
            transaction_timeout: if exhausting {
                micros(scale(rng, 3_000, 300_000))
            } else {
                micros(200_000_000)
            },
            replay_margin: PicosecondSpan::from_nanos(100_000_000),
            ..Config::default()
        };
        Parameters {
            config,
            psp_version: 15,
            tx_spi: Spi(0),
            rx_spi: Spi(0),
            remote_time: None,
            tx: Initial::default(),
            rx: Initial::default(),
            request_window: scale(rng, 1, 64) as u32,
            data_window: scale(rng, 1, 128) as u32,
            fcwnd: Fcwnd(scale(rng, 300, 256 << 10) as u32),
            ncwnd: scale(rng, 1, 256) as u32,
            rto: micros(scale(rng, 300, 5000)),
            settings: settings(rng),
        }
    }
}

/// Returns the inner address of an end, its bytes in memory order: 192.168.SLOT.SIDE or fd01::SLOT:SIDE.
fn inner_address(version: u8, slot: usize, side: usize) -> [u64; 2] {
    let (slot, side) = (slot as u8, side as u8 + 1);
    match version {
        4 => [u32::from_ne_bytes([192, 168, slot, side]).into(), 0],
        6 => [[0xfd, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, slot, 0, side]].map(u64::from_ne_bytes),
        _ => [0; 2],
    }
}

fn path(own: usize, peer: usize, v6: bool) -> Path {
    let address = |host| {
        let mut address = ipv6(host);
        if !v6 {
            address = [0; 16];
            address[..4].copy_from_slice(&ipv4(host));
        }
        address
    };
    Path {
        source: address(own),
        destination: address(peer),
        source_mac: mac(own),
        destination_mac: mac(peer),
        ip_version: if v6 { 6 } else { 4 },
        flow_label: 0x12345,
        ..Path::default()
    }
}
