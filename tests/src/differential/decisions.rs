//! Compares the decisions of the congestion control algorithms in the kernel with those on the host, bit by bit.

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
use transport_common::congestion::entry::Entry;
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::units::{Fcwnd, Ticks};
use transport_common::wire::nack::NackCode;

use super::mapping::Mapping;

#[path = "../../../transport-ebpf/src/decide/layout.rs"]
mod layout;

use layout::{Batch, CASES};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-decide"));

/// The loaded program that decides, and its batch.
pub struct Decider {
    object: Ebpf,
    batch: Mapping<Batch>,
}

impl Decider {
    /// Loads the program.
    ///
    /// # Errors
    /// Without root, or if the kernel refuses the program.
    pub fn load() -> Result<Self> {
        let mut object = EbpfLoader::new().load(OBJECT)?;
        let program: &mut Xdp = object.program_mut("decide").context("no program decide")?.try_into()?;
        program.load().context("load decide")?;
        let batch = Mapping::new(&mut object, "BATCH", 1)?;
        Ok(Self { object, batch })
    }

    /// Lets both decide `events` random events or a few more, in batches with random parameters. A connection's
    /// state continues from batch to batch.
    ///
    /// # Errors
    /// If a program cannot run, or if anything differs. The error describes the first case that differs.
    pub fn compare(&mut self, events: usize, rng: &mut StdRng) -> Result<usize> {
        let mut engines = vec![EngineState::default(); CASES];
        let mut algorithms = vec![AlgorithmId::Swift; CASES];
        for round in 0..events.div_ceil(CASES) {
            let prepared = parameters(rng);
            let now = NicTime(rng.random_range(0..=NicTime::MASK));
            let batch = &mut self.batch.all()[0];
            (batch.prepared, batch.now, batch.next) = (prepared, now.0, 0);
            for (n, case) in batch.cases.iter_mut().enumerate() {
                if rng.random_bool(0.02) {
                    algorithms[n] = AlgorithmId::ALL[rng.random_range(0..AlgorithmId::ALL.len())];
                }
                case.event = event(rng, now);
                (case.engine, case.algorithm) = (engines[n], algorithms[n] as u32);
            }
            self.run()?;
            for (n, case) in self.batch.all()[0].cases.iter().enumerate() {
                let (mut event, mut outcome) = (Event::default(), Outcome::default());
                event.decode(&case.event);
                event.stamp(now);
                algorithms[n].update(&event, &mut engines[n], &prepared, &mut outcome);
                let faults = outcome.sanitize(prepared.parameters()).0;
                let mut result = Entry::default();
                outcome.encode(&mut result);
                ensure!(
                    (case.result, case.engine, case.faults) == (result, engines[n], faults),
                    "round {round}, case {n}: {:?} decided\n{event:?}\nkernel {:?} {:?} {}\nhere   {outcome:?} {:?} \
                     {faults}",
                    algorithms[n],
                    case.outcome,
                    case.engine,
                    case.faults,
                    engines[n],
                );
            }
        }
        Ok(events.div_ceil(CASES) * CASES)
    }

    /// Runs the program once for each case.
    fn run(&mut self) -> Result<()> {
        let program: &mut Xdp = self.object.program_mut("decide").context("no program decide")?.try_into()?;
        let frame = [0; 64];
        let mut options = TestRunOptions::new();
        options.data_in = Some(&frame);
        options.repeat = CASES as u32;
        program.test_run(options)?;
        let next = self.batch.all()[0].next as usize;
        ensure!(next == CASES, "{next} of {CASES} cases were decided");
        Ok(())
    }
}

/// Returns a realistic event, or random bits.
fn event(rng: &mut StdRng, now: NicTime) -> Entry {
    let mut entry = core::array::from_fn(|_| rng.random());
    if rng.random_bool(0.2) {
        return entry;
    }
    let mut event = Event::default();
    event.decode(&entry);
    let rtt = 1 << rng.random_range(3..16u32);
    let rtt = rng.random_range(rtt / 2..rtt);
    let held = rng.random_range(0..=rtt);
    event.t4 = now;
    event.t1 = now.before(Ticks(rtt));
    event.t3 = NicTime(event.t2.0.wrapping_add(held) & NicTime::MASK);
    event.event_type = EventType([0, 0, 0, 0, 1, 2][rng.random_range(0..6)]);
    event.nack_code = NackCode(rng.random_range(0..8));
    event.fcwnd = Fcwnd(1 << rng.random_range(0..21u32));
    event.num_packets_acked = rng.random_range(0..64);
    event.rtt_state = Ticks(rng.random_range(0..4 * rtt));
    event.delay_state = Ticks(rng.random_range(0..4 * rtt));
    event.base_delay_target = Ticks(rng.random_range(0..2 * rtt));
    event.fabric_window_time_marker = now.before(Ticks(rng.random_range(0..3 * rtt)));
    event.nic_window_time_marker = now.before(Ticks(rng.random_range(0..3 * rtt)));
    event.encode(&mut entry);
    entry
}

/// Returns parameters within their ranges.
fn parameters(rng: &mut StdRng) -> Prepared {
    let least = 1 << rng.random_range(0..12u32);
    let most = least + (1 << rng.random_range(4..20u32));
    let mut fraction = || Fraction(rng.random_range(0..=Fraction::ONE.0));
    let parameters = Parameters {
        rtt_smoothing_alpha: fraction(),
        delay_smoothing_alpha: fraction(),
        fabric_multiplicative_decrease_factor: fraction(),
        max_fabric_multiplicative_decrease_factor: fraction(),
        min_fcwnd: Fcwnd(least),
        max_fcwnd: Fcwnd(most),
        fixed_window: Fcwnd(rng.random_range(least..=most)),
        target_rx_buffer_level: rng.random_range(0..32),
        retransmit_limit: rng.random_range(1..8),
        min_rto: Ticks(rng.random_range(1..100_000)),
        topology_scaling_per_hop: Ticks(rng.random_range(0..100)),
        max_decrease_on_eack_drop: rng.random_range(0..2),
        ..Parameters::DEFAULT
    };
    parameters.prepare().expect("drawn within the ranges")
}
