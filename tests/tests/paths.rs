//! Path entropy on real packets: another source port (IPv4) or flow label (IPv6) takes them over another cable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::{Context, Result};
use fabric_model::{Egress, LinkStats, Port, Topology};
use tiercel::congestion::{Algorithm, EngineState, Event, Outcome, Placement, Prepared};
use tiercel::{Access, CongestionControl, ConnectionInfo, MemoryRegion, Tuning};
use tiercel_tests::account::stand_still;
use tiercel_tests::checks::{block_on, contents, fill, info, settle};
use tiercel_tests::nodes::{Setup, TwoNodes, flow_hash};
use tiercel_tests::{LiveStats, Pair, need_root};

const PATHS: usize = 2;
const CHUNK: usize = 100_000;
/// Number of draws of a path. In one of 2^40 runs all lead to the first path.
const DRAWS: usize = 40;
const FABRIC: &str = "seed=5,delay=20us,scope=udp;trunks:delay=20us,scope=udp";

/// An algorithm with constant windows. When the test tells it to, it asks for another path, once.
struct OnDemand(Arc<AtomicBool>);

impl Algorithm for OnDemand {
    fn name(&self) -> &'static str {
        "on-demand"
    }

    fn update(&self, event: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
        outcome.carry_over(event);
        outcome.randomize_path = u8::from(self.0.swap(false, SeqCst));
    }
}

/// Two nodes, two switches, and two cables between these.
struct Paths {
    nodes: TwoNodes,
    local: MemoryRegion,
    remote: MemoryRegion,
    /// Makes the algorithm ask for another path.
    ask: Arc<AtomicBool>,
}

impl Paths {
    fn new(ipv6: bool) -> Result<Self> {
        need_root();
        let pair = Pair::over(Topology::dumbbell(1, 1, PATHS as u16), FABRIC.parse()?)?;
        let setup = Setup {
            ipv6,
            tuning: Tuning { congestion: CongestionControl::CONSTANT, ..Tuning::DEFAULT },
            ..Setup::default()
        };
        let nodes = TwoNodes::up(pair, setup)?;
        let ask = Arc::new(AtomicBool::new(false));
        let algorithm = nodes.a.register_algorithm(OnDemand(ask.clone()))?;
        let control =
            CongestionControl { algorithm, placement: Placement::User, ..CongestionControl::CONSTANT };
        block_on(nodes.at_a.set_congestion(control))?;
        let local = nodes.a.register(CHUNK, Access::LOCAL)?;
        let remote = nodes.b.register(CHUNK, Access::ALL)?;
        Ok(Self { nodes, local, remote, ask })
    }

    fn stats(&self) -> LiveStats {
        self.nodes.pair.fabric().expect("a pair through a fabric").stats()
    }

    /// Returns the cable that the packets of A take at present, according to their hash.
    fn foretold(&self) -> Result<usize> {
        let fabric = self.nodes.pair.fabric().context("a pair through a fabric")?;
        let hash = flow_hash(&self.nodes.a, &info(&self.nodes.at_a))?;
        let first = fabric.route(Port(0), Port(1), hash)[0];
        match first {
            Egress::Trunk(trunk) => Ok(trunk.0.into()),
            Egress::Host(_) => panic!("there is a cable between the switches"),
        }
    }

    /// Writes and compares a chunk.
    fn write(&self, seed: u64) -> Result<()> {
        let sent = fill(&self.local, CHUNK, seed);
        block_on(self.nodes.at_a.write(&self.local, 0, self.remote.key(), 0, CHUNK as u64))?;
        assert!(contents(&self.remote, CHUNK) == sent, "chunk {seed} arrived with other bytes");
        Ok(())
    }

    /// Returns the number of packets of a chunk on each cable towards B. Only packets of the hosts' own stacks
    /// are in flight as well.
    fn carried(&self, seed: u64) -> Result<Vec<u64>> {
        stand_still(&self.nodes);
        let before = self.stats();
        self.write(seed)?;
        stand_still(&self.nodes);
        let after = self.stats();
        let packets = |link: &LinkStats| link.offered - link.spared;
        let both = before.fabric.trunks.iter().zip(&after.fabric.trunks).take(PATHS);
        Ok(both.map(|(before, after)| packets(after) - packets(before)).collect())
    }

    /// Writes until a new path has been drawn.
    fn draw(&self, seed: u64) -> Result<()> {
        let changes = || info(&self.nodes.at_a).statistics.path_changes;
        let before = changes();
        self.ask.store(true, SeqCst);
        for n in 0..1000 {
            self.write(seed.wrapping_mul(1000) + n)?;
            if changes() > before {
                assert_eq!(changes(), before + 1, "asked for once, drawn once");
                return Ok(());
            }
        }
        panic!("no result with randomize_path came");
    }
}

/// F-10.6.2.2-4, D-80: only `entropy` changes. The switch sends all following packets over another path if its
/// hash requires it, and every byte arrives.
fn another_path(ipv6: bool, entropy: fn(&ConnectionInfo) -> [u32; 2]) -> Result<()> {
    let paths = Paths::new(ipv6)?;
    let mut seen = [false; PATHS];
    for n in 0..DRAWS as u64 {
        let path = paths.foretold()?;
        let carried = paths.carried(n)?;
        for (cable, frames) in carried.iter().enumerate() {
            assert_eq!(*frames >= 31, cable == path, "cable {path} is foretold: {carried:?}");
            assert!(cable == path || *frames == 0, "{carried:?}");
        }
        seen[path] = true;
        if seen.iter().all(|seen| *seen) {
            break;
        }
        let before = info(&paths.nodes.at_a);
        paths.draw(n)?;
        let after = info(&paths.nodes.at_a);
        let ([was, other], [is, still]) = (entropy(&before), entropy(&after));
        assert!(was != is && other == still, "{was} {is}, {other} {still}");
        // The peer draws its own path.
        assert_eq!(info(&paths.nodes.at_b).statistics.path_changes, 0);
    }
    assert_eq!(seen, [true; PATHS], "both cables were used");
    nothing_is_lost(&paths);
    Ok(())
}

fn nothing_is_lost(paths: &Paths) {
    stand_still(&paths.nodes);
    let stats = paths.stats();
    let links = || stats.fabric.towards.iter().chain(&stats.fabric.trunks);
    assert!(links().all(|link| link.delivered == link.offered), "{stats:?}");
    let frames = |links: &[LinkStats]| links.iter().map(|link| link.delivered).sum::<u64>();
    let (there, back) = stats.fabric.trunks.split_at(PATHS);
    assert_eq!(frames(there), stats.fabric.towards[1].delivered, "what crossed reached B");
    assert_eq!(frames(back), stats.fabric.towards[0].delivered, "what crossed back reached A");
    assert_eq!((stats.overrun, stats.undeliverable), (0, 0));
    settle(&paths.nodes.a);
    settle(&paths.nodes.b);
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn randomize_path_takes_another_source_port_over_ipv4() -> Result<()> {
    another_path(false, |info| {
        assert!(info.source_port >= 49152); // D-80
        [info.source_port.into(), info.flow_label]
    })
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn randomize_path_takes_another_flow_label_over_ipv6() -> Result<()> {
    another_path(true, |info| {
        assert!(info.flow_label < 1 << 20); // D-80
        [info.flow_label, info.source_port.into()]
    })
}
