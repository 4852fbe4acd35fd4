//! Plays a case on both sides and compares the results.

use core::fmt::{self, Debug, Formatter};
use core::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use host_nic::{HostConfig, HostNic};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use transport_common::connection::Snapshot;
use transport_common::counters::Counter;
use transport_common::datapath::Verdict;
use transport_common::ids::CellId;
use transport_common::queues::{CELLS, CONNECTIONS, NodeConfig};
use transport_common::shard::READY_WORDS;
use transport_common::timing_wheel::{TimingWheel, WheelTick};
use transport_common::transaction::RequestState;
use transport_common::units::Picoseconds;

use super::case::{bytes, restore};
use super::kernel::Outcome;
use super::time::{Bracket, Reading};
use super::{Case, Kernel, Program, Stimulus};

/// The part of the memory that cases use, and that therefore has content.
const PATTERN_BYTES: usize = 56 << 20;
/// Number of cases between two comparisons of the whole memory and all free cells.
const BLOCK: u64 = 8192;
/// A case that takes longer is ignored: the program was interrupted, and not every comparison with the clock that it makes
/// is kept away from the time of the case. A run of a program takes some ten microseconds.
const PATIENCE_NANOS: u64 = 1_000_000;
/// Longest frame that fits the buffer of a test run.
const LONGEST_FRAME: u32 = 3520;
/// Number of times that an interrupted case is played by the recording programs.
const ATTEMPTS: u32 = 5;
/// In one case of so many, beside a few, traces may be misread. In a million there were 10 to 16.
const MISREAD: u64 = 20_000;
/// The largest number of mismatches that are described.
const DESCRIBED: usize = 5;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const XDP_REDIRECT: u32 = 4;

/// Both sides, in lockstep.
pub struct Harness {
    kernel: Kernel,
    host: HostNic,
    counters: ([u64; Counter::COUNT], [u64; Counter::COUNT]),
    /// Cases played so far: frames, and services of the engine.
    pub played: [u64; 2],
    void: u64,
    /// Cases that were played with the recording programs, because traces showed no clock reading or the case differed.
    taped: u64,
    /// Those that had differed, and agree with the clock readings of the tape.
    misread: u64,
    mismatches: Vec<String>,
    found: u64,
}

/// How the host learns what the kernel's clock showed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// From the traces that the plain programs left in the connection.
    Traces,
    /// From the tape of the recording programs, exactly.
    Tape,
}

/// The result of playing a case.
enum Played {
    Agreed,
    Differed(Vec<String>),
    /// The program was interrupted for too long, or its traces do not show its clock readings.
    Void,
}

impl Harness {
    /// Creates both sides as a node with `config`.
    ///
    /// # Errors
    /// If a map cannot be read or written.
    pub fn new(mut kernel: Kernel, config: NodeConfig, rng: &mut StdRng) -> Result<Self> {
        let config = HostConfig { longest_frame: LONGEST_FRAME, ..HostConfig::new(config) };
        let mut host = HostNic::new(config);
        rng.fill(&mut host.memory_mut()[..PATTERN_BYTES]);
        kernel.memory()[..PATTERN_BYTES].copy_from_slice(&host.memory()[..PATTERN_BYTES]);
        let counters = (kernel.counters()?, *host.counters());
        Ok(Self {
            kernel,
            host,
            counters,
            played: [0; 2],
            void: 0,
            taped: 0,
            misread: 0,
            mismatches: Vec::new(),
            found: 0,
        })
    }

    /// Plays a case on both sides and records all differences.
    ///
    /// The plain programs leave traces of their clock readings, which may be incomplete or misleading. A case that differs or
    /// shows none is therefore played again by the recording programs, whose tape has every reading.
    ///
    /// # Errors
    /// If a map cannot be read or written, or the kernel refuses to run a program.
    pub fn play(&mut self, mut case: Case, rng: &mut StdRng) -> Result<()> {
        let total: u64 = self.played.iter().sum();
        if total.is_multiple_of(BLOCK) {
            self.compare_all(rng)?;
        }
        let by_traces = self.attempt(&mut case, Clock::Traces, rng)?;
        let differences = match by_traces {
            Played::Agreed => Vec::new(),
            Played::Void => match self.attempt_with_tape(&mut case, rng)? {
                Played::Agreed => Vec::new(),
                Played::Differed(differences) => differences,
                Played::Void => {
                    self.void += 1;
                    return Ok(());
                }
            },
            Played::Differed(differences) => match self.attempt_with_tape(&mut case, rng)? {
                Played::Agreed => {
                    self.misread += 1;
                    Vec::new()
                }
                // Nothing shows that only the clock readings were wrong.
                Played::Differed(_) | Played::Void => differences,
            },
        };
        self.played[usize::from(matches!(case.stimulus, Stimulus::Turn { .. }))] += 1;
        if !differences.is_empty() {
            self.found += 1;
            if self.mismatches.len() < DESCRIBED {
                self.mismatches.push(describe(&case, &differences));
            }
        }
        Ok(())
    }

    /// Plays a case with the recording programs, again if one is interrupted.
    fn attempt_with_tape(&mut self, case: &mut Case, rng: &mut StdRng) -> Result<Played> {
        self.taped += 1;
        self.kernel.record(true)?;
        let mut result = Played::Void;
        for _ in 0..ATTEMPTS {
            result = self.attempt(case, Clock::Tape, rng)?;
            if !matches!(result, Played::Void) {
                break;
            }
        }
        self.kernel.record(false)?;
        Ok(result)
    }

    /// Plays a case once. If it does not agree, the host has the kernel's state afterwards.
    fn attempt(&mut self, case: &mut Case, clock: Clock, rng: &mut StdRng) -> Result<Played> {
        let start = Kernel::now();
        case.rebase(Picoseconds::from_nanos(start));
        self.set_up(case, rng)?;
        let outcome = match &case.stimulus {
            Stimulus::Frame(frame) => self.kernel.run(Program::Wire, frame)?,
            Stimulus::Turn { .. } => self.kernel.run(Program::Engine, &[0; 128])?,
        };
        let mut after = self.kernel.entry(case.slot)?;
        let readings = match clock {
            Clock::Traces => self.readings(case, &after, &outcome)?,
            Clock::Tape => {
                let (mut readings, steps) = self.kernel.taped(case.slot)?;
                if readings.is_empty() {
                    // The tape of a run without a step is not kept. Its readings change nothing.
                    readings.push(Picoseconds::from_nanos(outcome.clock.0));
                }
                after.tables.steps = after.tables.steps.wrapping_sub(steps);
                Some((readings, true))
            }
        };
        let in_time = outcome.clock.1 - start <= PATIENCE_NANOS;
        let Some((readings, exact)) = readings.filter(|_| in_time) else {
            self.recover()?;
            return Ok(Played::Void);
        };
        self.host.set_readings(readings);
        let differences = self.compare(case, &after, &outcome, exact)?;
        if differences.is_empty() {
            return Ok(Played::Agreed);
        }
        self.recover()?;
        Ok(Played::Differed(differences))
    }

    /// Returns the result of all cases.
    ///
    /// # Errors
    /// If a map cannot be read, or if anything differed in any case. The error describes the first few cases.
    pub fn finish(mut self, rng: &mut StdRng) -> Result<()> {
        self.compare_all(rng)?;
        let [frames, turns] = self.played;
        println!(
            "{frames} frames and {turns} turns of the engine, {} by tape, {} of these were misread, {} void",
            self.taped, self.misread, self.void
        );
        ensure!(self.found == 0, "{} cases differ\n{}", self.found, self.mismatches.join("\n"));
        ensure!(self.void < frames / 10, "{} cases void: the machine is too busy", self.void);
        ensure!(
            self.misread <= 5 + frames / MISREAD,
            "{} cases agree with the readings of the tape only: are there traces of the clock that \
             `differential::time` does not know, or do the plain programs differ from the recording ones?",
            self.misread
        );
        Ok(())
    }

    /// Sets the initial state on both sides.
    fn set_up(&mut self, case: &Case, rng: &mut StdRng) -> Result<()> {
        let Self { kernel, host, .. } = self;
        kernel.set_entry(case.slot, &case.entry)?;
        *host.entry_mut(case.slot) = *case.entry;
        restore(&case.queues, kernel.queue_pair(case.slot));
        restore(&case.queues, host.queue_pair_mut(case.slot));
        kernel.regions().copy_from_slice(&*case.regions);
        host.regions_mut().copy_from_slice(&*case.regions);
        for (cell, content) in &case.cells {
            kernel.set_cell(*cell, content)?;
            if let Some(own) = host.cell_mut(*cell) {
                own.copy_from_slice(&**content);
            }
        }
        kernel.node().ready.restore([0; READY_WORDS]);
        host.page().ready.restore([0; READY_WORDS]);
        if let Stimulus::Turn { fired, looks } = case.stimulus {
            self.set_up_engine(case.slot, fired, looks, rng)?;
        }
        Ok(())
    }

    /// Sets wheel, doorbells and counts of the engine.
    fn set_up_engine(&mut self, slot: usize, fired: bool, looks: bool, rng: &mut StdRng) -> Result<()> {
        let Self { kernel, host, .. } = self;
        let next = rng.random_range(0..CONNECTIONS as u32);
        kernel.set_round_robin(next)?;
        host.scheduler().next = next;
        let now = WheelTick::at(Picoseconds::from_nanos(Kernel::now()));
        let wheel = host.wheel();
        *wheel = TimingWheel::new();
        wheel.poll(now);
        if fired {
            wheel.schedule(slot as u32, now);
        } else {
            kernel.node().ready.set(slot as u32);
            host.page().ready.set(slot as u32);
        }
        kernel.set_wheel(host.wheel())?;
        let frames = rng.random_range(0..1u64 << 40) & !7 | if looks { 7 } else { rng.random_range(0..7) };
        kernel.node().frames.store(frames, Relaxed);
        host.set_frames(frames);
        Ok(())
    }

    /// Reconstructs the kernel's clock readings, and whether the time at which a deadline was filed is known to the picosecond.
    /// `None` if that is not possible.
    fn readings(
        &self,
        case: &Case,
        after: &Snapshot,
        outcome: &Outcome,
    ) -> Result<Option<(Vec<Picoseconds>, bool)>> {
        let bracket = Bracket {
            first: Picoseconds::from_nanos(outcome.clock.0),
            last: Picoseconds::from_nanos(outcome.clock.1),
        };
        let fallback = Reading { time: bracket.first, exact: false };
        let reading = bracket.reading(&case.entry, after, &case.stimulus).unwrap_or(fallback);
        let Stimulus::Turn { looks, .. } = case.stimulus else {
            return Ok(Some((vec![reading.time], reading.exact)));
        };
        // Only a redelivery reads the clock twice.
        let redelivered = was_redelivered(&case.entry, after);
        if redelivered && !reading.exact {
            return Ok(None); // two readings, and no packet that shows the second, so they cannot be distinguished
        }
        let mut first = reading.time;
        if redelivered && let Some(earlier) = bracket.first_step(&case.entry, after, reading) {
            first = reading.or_earlier(earlier);
        }
        if looks && !reading.exact {
            // The wheel keeps the latest tick that it was given. The service uses the same reading.
            let told = self.kernel.wheel()?.clock().start();
            if told.is_later_than(first) {
                first = told;
            }
        }
        // A redelivery files its deadline by the first reading and sends by the second.
        Ok(Some((vec![first, reading.time], reading.exact && !redelivered)))
    }

    fn compare(
        &mut self,
        case: &Case,
        after: &Snapshot,
        outcome: &Outcome,
        exact: bool,
    ) -> Result<Vec<String>> {
        let (action, frame) = match &case.stimulus {
            Stimulus::Frame(frame) => match self.host.receive(frame.clone()) {
                (Verdict::Pass, frame) => (XDP_PASS, frame),
                (Verdict::Drop, frame) => (XDP_DROP, frame),
                (Verdict::Transmit, frame) => (XDP_TX, frame),
            },
            Stimulus::Turn { .. } => match self.host.engine_frame() {
                Some((Verdict::Transmit, frame)) => (XDP_REDIRECT, frame),
                _ => (XDP_DROP, Vec::new()),
            },
        };
        let mut differences = Differences::default();
        differences.look("action", &outcome.action, &action);
        if action != XDP_DROP && outcome.action != XDP_DROP {
            differences.look("frame", &Hex(&outcome.frame), &Hex(&frame));
        }
        differences.look("context", after, self.host.entry(case.slot));
        let (kernel, host) =
            (bytes(self.kernel.queue_pair(case.slot)), bytes(self.host.queue_pair(case.slot)));
        if let Some(at) = kernel.iter().zip(&host).position(|(kernel, host)| kernel != host) {
            let at = (at & !7)..(at & !7) + 32;
            differences.look(&format!("queues, {at:?}"), &Hex(&kernel[at.clone()]), &Hex(&host[at]));
        }
        differences.look("doorbells", &self.kernel.node().ready.bits(), &self.host.page().ready.bits());
        let counters = (self.kernel.counters()?, *self.host.counters());
        for counter in Counter::ALL {
            let n = *counter as usize;
            let (kernel, host) = (counters.0[n] - self.counters.0[n], counters.1[n] - self.counters.1[n]);
            differences.look(counter.name(), &kernel, &host);
        }
        self.counters = counters;
        if let Stimulus::Turn { .. } = case.stimulus {
            differences.look("round robin", &self.kernel.round_robin()?, &self.host.scheduler().next);
            let (kernel, host) = (self.kernel.wheel()?, self.host.wheel());
            for slot in 0..CONNECTIONS as u32 {
                // If the reading is known only to the tick, a deadline relative to it may be in the adjacent slot.
                let blurred = |deadline: Option<WheelTick>| {
                    if exact { deadline } else { deadline.map(|_| WheelTick(0)) }
                };
                differences.look(
                    "deadline",
                    &blurred(kernel.deadline_of(slot)),
                    &blurred(host.deadline_of(slot)),
                );
            }
        }
        let mut differences = differences.0;
        differences.extend(self.compare_cells(case, after)?);
        Ok(differences)
    }

    /// Returns the contents of the cells that were filled in this case.
    fn compare_cells(&self, case: &Case, after: &Snapshot) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        let is_held = |state| state == RequestState::Held || state == RequestState::Rnr;
        for (old, new) in case.entry.tables.requests.iter().zip(&after.tables.requests) {
            if is_held(new.state) && (!is_held(old.state) || old.cell != new.cell) {
                let (cell, length) = (new.cell, usize::from(new.length).min(4096));
                let same = self.host.cell(cell).is_some_and(|own| {
                    self.kernel.cell(cell).is_ok_and(|kernel| own[..length] == kernel[..length])
                });
                if !same {
                    differences.push(format!("  contents of cell {}", cell.0));
                }
            }
        }
        Ok(differences)
    }

    /// Compares the whole memory and all free cells, and distributes the cells again.
    fn compare_all(&mut self, rng: &mut StdRng) -> Result<()> {
        let differs =
            self.kernel.memory().iter().zip(self.host.memory()).position(|(kernel, host)| kernel != host);
        ensure!(differs.is_none(), "memory differs at offset {differs:?}");
        let mut cells: Vec<CellId> = (0..CELLS as u32).map(CellId::at).collect();
        cells.shuffle(rng);
        cells.truncate(rng.random_range(0..=CELLS));
        let free = self.kernel.set_free_cells(&cells)?;
        let blocks: u64 = self.played.iter().sum();
        ensure!(blocks == 0 || free == self.host.free_cells(), "free receive cells differ");
        self.host.set_free_cells(&cells);
        Ok(())
    }

    /// Copies the kernel's state to the host after a case that is ignored or failed.
    fn recover(&mut self) -> Result<()> {
        self.host.memory_mut().copy_from_slice(self.kernel.memory());
        let free = self.kernel.set_free_cells(&[])?;
        self.kernel.set_free_cells(&free)?;
        self.host.set_free_cells(&free);
        self.counters = (self.kernel.counters()?, *self.host.counters());
        Ok(())
    }
}

/// Returns a description of the differences.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn look<T: PartialEq + Debug>(&mut self, what: &str, kernel: &T, host: &T) {
        if kernel == host {
            return;
        }
        let (kernel, host) = (format!("{kernel:#?}"), format!("{host:#?}"));
        let mut above = "";
        for (kernel, host) in kernel.lines().zip(host.lines()) {
            let (kernel, host) = (kernel.trim(), host.trim());
            if kernel != host {
                self.0.push(format!("  {what}, {above}\n    kernel {kernel}\n    host   {host}"));
            }
            // The name of a field whose value fills the next lines.
            if kernel.ends_with(['(', '{', '[']) {
                above = kernel;
            }
        }
    }
}

/// Bytes that are shown in hexadecimal, as in a dump of a packet.
#[derive(PartialEq)]
struct Hex<'a>(&'a [u8]);

impl Debug for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns whether a service of the engine took a held request out of its cell.
fn was_redelivered(before: &Snapshot, after: &Snapshot) -> bool {
    let (b, a) = (&before.connection.target, &after.connection.target);
    let is_held = |state| state == RequestState::Held || state == RequestState::Rnr;
    let moved = before
        .tables
        .requests
        .iter()
        .zip(&after.tables.requests)
        .any(|(old, new)| is_held(old.state) && old != new);
    moved || b.rnr_due != a.rnr_due || b.pulls_due != a.pulls_due
}

fn describe(case: &Case, differences: &[String]) -> String {
    let stimulus = match &case.stimulus {
        Stimulus::Frame(frame) => format!("frame {:?}", Hex(frame)),
        turn => format!("{turn:?}"),
    };
    let c = &case.entry.connection;
    let before = format!("{:?}\n{:?}\n{:?}", c.flow.delivery, c.target, c.initiator);
    format!(
        "slot {}, {stimulus}\n{before}\n{}",
        case.slot,
        differences[..differences.len().min(20)].join("\n")
    )
}
