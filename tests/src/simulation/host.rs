//! A host: a card, its clock, its engine, its application.

mod before;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use fabric_model::{Span, Time};
use host_nic::{FrameAtHand, HostConfig, HostNic};
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::congestion::event::Event;
use transport_common::connection::State;
use transport_common::counters::Counter;
use transport_common::datapath::Verdict;
use transport_common::ids::{CellId, Cid, Slot};
use transport_common::transaction::RequestState;
use transport_common::units::Picoseconds;

use super::causes::{Arrived, Causes, Expected, News};
use super::cpus::{Run, Spares, Task};
use super::draw::scale;
use super::faults::Thread;
use super::ledger::is_full;
use super::scenario::{HostPlan, Scenario, node_config_of};
use super::world::Reached;
use super::wraps::{self, WRAPS};
use super::{attention, invariants};

pub(super) use before::Before;

/// Parts per million. A run lasts some minutes, so the product of its picoseconds and a drift fits 64 bits.
const MILLION: i64 = 1_000_000;
/// The counters of events that were not admitted to a queue.
const REFUSALS: [Counter; 5] = [
    Counter::EventRefusedBelowSecond,
    Counter::EventRefusedBelowThird,
    Counter::EventRefusedAboveThird,
    Counter::EventRefusedFull,
    Counter::EventRefusedOutstanding,
];

/// A host.
pub(super) struct Host {
    pub(super) nic: HostNic,
    /// The time of its clock when the fabric's clock shows 0, and the steps since then, picoseconds.
    clock: u64,
    /// How much faster its clock runs than the fabric's, parts per million.
    drift_ppm: i64,
    /// What its card was last told of the time, picoseconds.
    shown: u64,
    /// How often its clock has passed each wrap while a timer ran.
    wraps: [u64; WRAPS.len()],
    /// Until then its CPU is stopped.
    paused: Time,
    /// Until then it loses the frames that arrive.
    deaf: Time,
    /// Frames that arrived meanwhile.
    pub(super) waiting: VecDeque<Vec<u8>>,
    pub(super) frame_time: Span,
    pub(super) pause_nanos: u64,
    /// When the engine is free again.
    pub(super) engine_free: Time,
    /// When the application runs again.
    pub(super) application: Time,
    /// The slot whose application overwrites its queues.
    pub(super) scribbled: Option<usize>,
    /// Until then a [`Thread`] of its application is stopped.
    stalled: [Time; 2],
    /// The application takes no completion until a queue of them is full, and then for so long. A link may be closed
    /// meanwhile.
    hoards: Option<(Span, Option<usize>)>,
    /// Connections by slot, with their link and side.
    pub(super) ends: Vec<(usize, usize, usize)>,
    pub(super) slots: Vec<usize>,
    /// Runs of the datapath that are not over.
    runs: Vec<Run>,
    /// Receive cells that something else has for a time.
    withheld: Vec<CellId>,
    spares: Spares,
    cpus: usize,
    engines: usize,
    /// Number of services of the engine.
    services: u64,
    /// The cells of held requests, by slot.
    held: BTreeMap<usize, Vec<CellId>>,
    /// Their number.
    held_cells: usize,
    /// Why its connections send packets again, by slot.
    causes: BTreeMap<usize, Causes>,
    /// What was put into the queues for congestion control in user space, by slot.
    pub(super) told: BTreeMap<usize, Vec<Expected>>,
    /// How many events its card must have refused, at least and at most.
    untold: [u64; 2],
    /// The acknowledgement that the present step processes.
    pub(super) arrived: Option<Arrived>,
    /// The last result of [`Self::when`], which is asked for before every step.
    last_due: Cell<(u64, Time)>,
    /// Number of connections so far. Each has its own place in memory.
    places: usize,
}

impl Host {
    pub(super) fn new(scenario: &Scenario, host: usize) -> Self {
        let plan = scenario.hosts[host];
        let nic = new_card(&plan, host);
        Self {
            nic,
            clock: plan.clock,
            drift_ppm: plan.drift_ppm,
            shown: plan.clock,
            wraps: [0; WRAPS.len()],
            paused: Time::ZERO,
            deaf: Time::ZERO,
            waiting: VecDeque::new(),
            frame_time: Span::from_nanos(plan.frame_nanos),
            pause_nanos: plan.pause_nanos.max(500),
            engine_free: Time::ZERO,
            application: Time::ZERO,
            scribbled: None,
            stalled: [Time::ZERO; 2],
            hoards: None,
            ends: vec![],
            slots: vec![],
            runs: vec![],
            withheld: vec![],
            spares: Spares::default(),
            cpus: plan.cpus,
            engines: plan.engines,
            services: 0,
            held: BTreeMap::new(),
            held_cells: 0,
            causes: BTreeMap::new(),
            told: BTreeMap::new(),
            untold: [0; 2],
            arrived: None,
            last_due: Cell::default(),
            places: 0,
        }
    }

    /// Returns the place in memory of its next connection.
    pub(super) const fn take_place(&mut self) -> usize {
        self.places += 1;
        self.places - 1
    }

    pub(super) fn set_time(&mut self, now: Time) {
        let time = self.clock.wrapping_add(self.elapsed(now));
        let passed = wraps::passed(self.shown, time);
        if passed.contains(&true) && self.has_timer() {
            self.wraps.iter_mut().zip(passed).for_each(|(count, passed)| *count += u64::from(passed));
        }
        self.shown = time;
        self.nic.set_time(Picoseconds(time));
    }

    /// Whether a timer of one of its connections runs.
    fn has_timer(&self) -> bool {
        let timers = |slot: &usize| invariants::deadlines(&self.nic.entry(*slot).connection);
        self.slots.iter().flat_map(timers).any(|timer| timer.is_armed())
    }

    /// Returns what its clock counts while the fabric's counts up to `now`.
    const fn elapsed(&self, now: Time) -> u64 {
        now.0.wrapping_add_signed(now.0 as i64 * self.drift_ppm / MILLION)
    }

    /// Returns the first instant of the fabric's clock at which this host's has counted `elapsed`.
    fn when(&self, elapsed: u64) -> Time {
        let (last, due) = self.last_due.get();
        if last == elapsed {
            return due;
        }
        // The quotient is rounded down, to an instant that is not too late.
        let gain = -(-(elapsed as i64) * self.drift_ppm).div_euclid(MILLION + self.drift_ppm);
        let mut guess = elapsed.wrapping_add_signed(-gain);
        while self.elapsed(Time(guess)) < elapsed {
            guess += 1;
        }
        self.last_due.set((elapsed, Time(guess)));
        Time(guess)
    }

    /// Lets its clock jump forward.
    pub(super) const fn step_clock(&mut self, by: Span) {
        self.clock = self.clock.wrapping_add(by.0);
    }

    /// Stops its CPU.
    pub(super) fn pause(&mut self, until: Time) {
        self.paused = self.paused.max(until);
        self.engine_free = self.engine_free.max(until);
        self.runs.iter_mut().for_each(|run| run.next = run.next.max(until));
        self.silence(until);
    }

    /// Stops its node: engine and application, and, unless it `receives`, the whole machine.
    pub(super) fn stop(&mut self, until: Time, receives: bool) {
        if !receives {
            self.pause(until);
            self.deaf = self.deaf.max(until);
            return;
        }
        self.engine_free = self.engine_free.max(until);
        let runs = self.runs.iter_mut().filter(|run| run.task != Task::Receive);
        runs.for_each(|run| run.next = run.next.max(until));
        self.silence(until);
    }

    /// Whether it loses a frame that arrives now.
    pub(super) fn is_deaf(&self, now: Time) -> bool {
        now < self.deaf
    }

    /// Stops its application for a time: it neither posts nor polls.
    pub(super) fn silence(&mut self, until: Time) {
        if self.application.0 != u64::MAX {
            self.application = self.application.max(until);
        }
    }

    /// Stops a thread of its application.
    pub(super) fn stall(&mut self, thread: Thread, until: Time) {
        let stalled = &mut self.stalled[thread as usize];
        *stalled = until.max(*stalled);
    }

    /// Lets its application take no completion until a queue of them has been full for a time.
    pub(super) fn hoard(&mut self, full: Span, until: Time, closes: Option<usize>) {
        self.stall(Thread::Completions, until);
        self.hoards = Some((full, closes));
    }

    /// Lets its application look whether a completion queue is full that it waits for. Returns the link that is to be closed
    /// now.
    pub(super) fn look_at_hoard(&mut self, now: Time) -> Option<usize> {
        let (full, closes) = self.hoards?;
        if !self.slots.iter().any(|slot| is_full(self.nic.queue_pair(*slot))) {
            return None;
        }
        self.hoards = None;
        self.stalled[Thread::Completions as usize] = now + full;
        closes
    }

    /// Whether a thread of its application runs.
    pub(super) fn runs(&self, thread: Thread, now: Time) -> bool {
        self.stalled[thread as usize] <= now
    }

    /// Takes away all free receive cells but `left`.
    pub(super) fn withhold_cells(&mut self, left: usize) {
        let mut free = self.nic.free_cells().to_vec();
        self.withheld.extend(free.drain(left.min(free.len())..));
        self.nic.set_free_cells(&free);
    }

    /// Gives the cells back that were taken away.
    pub(super) fn return_cells(&mut self) {
        let mut free = self.nic.free_cells().to_vec();
        free.append(&mut self.withheld);
        self.nic.set_free_cells(&free);
    }

    /// Whether a run that receives a frame has made its step and not yet sent its packet.
    pub(super) fn has_packet_in_hand(&self) -> bool {
        self.runs.iter().any(Run::has_packet_in_hand)
    }

    /// Stops the runs that receive a frame and have made their step, until [`Self::release`].
    pub(super) fn hold(&mut self) {
        let runs = self.runs.iter_mut().filter(|run| run.has_packet_in_hand());
        runs.for_each(|run| run.next = Time(u64::MAX));
    }

    /// Lets the runs go on that [`Self::hold`] stopped.
    pub(super) fn release(&mut self, now: Time) {
        let runs = self.runs.iter_mut().filter(|run| run.next.0 == u64::MAX);
        runs.for_each(|run| run.next = now);
    }

    /// Whether it cannot take a frame now.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        now < self.paused || !self.waiting.is_empty() || self.are_cpus_busy()
    }

    /// Whether every CPU of the network has a run.
    fn are_cpus_busy(&self) -> bool {
        let receiving = self.runs.iter().filter(|run| run.task == Task::Receive).count();
        self.cpus > 1 && receiving >= self.cpus - 1
    }

    /// Returns when it takes the first of the frames that wait, if a CPU is free.
    pub(super) fn resumes(&self) -> Option<Time> {
        (!self.waiting.is_empty() && !self.are_cpus_busy()).then_some(self.paused)
    }

    /// Whether runs of several CPUs interleave.
    pub(super) const fn interleaves(&self) -> bool {
        self.cpus > 1
    }

    /// Begins a run on a CPU. It makes its first calls at once.
    pub(super) fn begin(&mut self, task: Task, frame: FrameAtHand, now: Time) {
        self.runs.push(Run::new(task, frame, now, &mut self.spares));
    }

    /// Begins a service of the engine.
    pub(super) fn begin_service(&mut self, now: Time) {
        self.services += 1;
        let look_at_wheel = self.services & 7 == 0;
        self.begin(Task::Engine { look_at_wheel }, FrameAtHand::of_the_engine(), now);
    }

    /// Returns when the next run goes on.
    pub(super) fn goes_on(&self) -> Option<Time> {
        self.runs.iter().map(|run| run.next).filter(|next| next.0 != u64::MAX).min()
    }

    /// Lets the run go on whose time has come. Returns its task, verdict and frame if it is over.
    pub(super) fn go_on(&mut self, now: Time, rng: &mut StdRng) -> Option<(Task, Verdict, Vec<u8>)> {
        /// Most stops are short. In the others the CPU does something else.
        const SHORT: u64 = 300;
        const LONG: u64 = 3_000_000;
        let number = (0..self.runs.len()).min_by_key(|number| self.runs[*number].next)?;
        let run = &mut self.runs[number];
        let over = run.go_on(&mut self.nic, rng, &mut self.spares);
        if over.is_some() || run.has_packet_in_hand() {
            self.arrived = run.arrived.take();
        }
        if let Some((verdict, frame)) = over {
            let task = run.task;
            self.runs.swap_remove(number);
            return Some((task, verdict, frame));
        }
        let nanos = if rng.random_bool(0.01) { scale(rng, SHORT, LONG) } else { rng.random_range(1..=SHORT) };
        run.next = (now + Span::from_nanos(nanos)).max(self.paused);
        None
    }

    /// Loses everything but its address and its clock.
    pub(super) fn restart(&mut self, plan: &HostPlan, host: usize, now: Time) {
        self.nic = new_card(plan, host);
        self.waiting.clear();
        self.ends.clear();
        self.slots.clear();
        self.held.clear();
        self.held_cells = 0;
        self.causes.clear();
        self.told.clear();
        self.untold = [0; 2];
        self.places = 0;
        self.wraps = [0; WRAPS.len()];
        self.runs.clear();
        self.withheld.clear();
        self.engine_free = now;
        self.set_time(now);
    }

    /// Adds what happened on its card and on its connections.
    pub(super) fn add_to(&self, reached: &mut Reached) {
        reached.add_card(&self.nic);
        reached.add_wraps(self.wraps);
        for slot in &self.slots {
            reached.add_connection(&self.nic.entry(*slot).tables.statistics);
        }
    }

    /// Returns when the engine runs next, by the fabric's clock.
    pub(super) fn engine(&self, now: Time) -> Option<Time> {
        if self.runs.iter().filter(|run| run.task != Task::Receive).count() >= self.engines {
            return None;
        }
        // Before the next step after a jump of its clock, the card has not seen the jump.
        let elapsed = self.nic.next_event()?.since(Picoseconds(self.clock)).signed().max(0) as u64;
        let due = self.when(elapsed);
        Some(due.max(self.engine_free).max(now))
    }

    /// Returns what the next step is compared with: all connections, in the order of the slots' list.
    pub(super) fn snapshot(&mut self) -> Vec<Before> {
        self.nic.take_locked();
        let connections = self.slots.iter().map(|slot| &self.nic.entry(*slot).connection);
        connections.map(Before::of).collect()
    }

    /// Checks what holds after every step of a card. A step changes only connections whose lock it takes. Returns their
    /// slots.
    pub(super) fn check(&mut self, before: &[Before]) -> Vec<usize> {
        let locked = self.nic.take_locked();
        for (number, before) in before.iter().enumerate() {
            let slot = self.slots[number];
            if !locked.contains(&slot) {
                continue;
            }
            let entry = self.nic.entry(slot);
            invariants::check(entry);
            before.check(&entry.connection);
            // Nobody knows what an application that scribbles has posted.
            if self.scribbled == Some(slot) {
                continue;
            }
            self.account(slot);
            if !self.interleaves() {
                attention::check(&mut self.nic, slot, self.engines == 1);
            }
        }
        self.arrived = None;
        self.check_untold();
        self.check_cells(&locked);
        // A run that is not over may still ask for a service of what it has found.
        if self.interleaves() && self.runs.is_empty() {
            for slot in self.slots.iter().filter(|slot| self.scribbled != Some(**slot)) {
                attention::check(&mut self.nic, *slot, self.engines == 1);
            }
        }
        locked
    }

    /// Looks at why a connection sends packets again, and what it tells congestion control.
    fn account(&mut self, slot: usize) {
        let entry = self.nic.entry(slot);
        let News { told, untold: [least, most] } = match self.causes.get_mut(&slot) {
            Some(causes) if causes.is_of(entry) => {
                let placement = entry.settings.in_force.placement;
                causes.look(entry, self.arrived.as_ref(), placement, self.nic.time())
            }
            _ => self.causes.remove(&slot).map(|causes| causes.last(entry)).unwrap_or_default(),
        };
        if let Some(told) = told {
            self.told.entry(slot).or_default().push(told);
        }
        self.untold = [self.untold[0] + least, self.untold[1] + most];
    }

    /// Checks that its card has counted each event that it did not put into a queue.
    fn check_untold(&self) {
        // A run that is not over may not have counted yet, and nobody knows what an application that scribbles has caused.
        if !self.runs.is_empty() || self.scribbled.is_some() {
            return;
        }
        let refused: u64 = REFUSALS.iter().map(|counter| self.nic.counter(*counter)).sum();
        let [least, most] = self.untold;
        assert!(
            (least..=most).contains(&refused),
            "{least} to {most} events were due and are in no queue, and {refused} were refused (F-10.6.2.1-1, D-73)"
        );
    }

    /// Begins the account of a connection that was opened.
    pub(super) fn begin_account(&mut self, slot: usize) {
        self.causes.insert(slot, Causes::of(self.nic.entry(slot)));
    }

    /// Notes what its connections have refused so far: it is not of their next step.
    pub(super) fn note_refusals(&mut self) {
        self.causes.iter_mut().for_each(|(slot, causes)| causes.note_refusals(self.nic.entry(*slot)));
    }

    /// Checks that an event for congestion control in user space has its reason.
    pub(super) fn check_event(&mut self, event: &Event) {
        let slot = Slot::of(Cid(event.connection_id)).index();
        if self.scribbled == Some(slot) {
            return;
        }
        Expected::take(self.told.entry(slot).or_default(), event);
    }

    /// Checks that the cells in use are those of the held requests, and that each holds one.
    fn check_cells(&mut self, locked: &[usize]) {
        let in_cells = |s| s == RequestState::Held || s == RequestState::Rnr;
        let mut changed = false;
        for slot in locked {
            let entry = self.nic.entry(*slot);
            let known = self.held.entry(*slot).or_default();
            // The invariants of an open connection count them.
            if known.is_empty() && entry.connection.target.held == 0 && entry.connection.state == State::Open
            {
                continue;
            }
            let mut number = 0;
            for (_, request) in invariants::in_use(&entry.tables.requests, |request| request.state as u32) {
                if !in_cells(request.state) {
                    continue;
                }
                if known.get(number) != Some(&request.cell) {
                    known.truncate(number);
                    known.push(request.cell);
                    changed = true;
                }
                number += 1;
            }
            changed |= known.len() != number;
            known.truncate(number);
        }
        if changed {
            let mut held: Vec<CellId> = self.held.values().flatten().copied().collect();
            held.sort_unstable();
            assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a receive cell holds two requests");
            self.held_cells = held.len();
        }
        // A run that is not over may have a cell that is not yet or no more that of a request.
        let (in_use, held) = (self.nic.cells_in_use() - self.withheld.len(), self.held_cells);
        assert!(
            in_use == held || in_use > held && !self.runs.is_empty(),
            "{in_use} receive cells in use, {held} held"
        );
    }
}

fn new_card(plan: &HostPlan, host: usize) -> HostNic {
    let config = HostConfig::new(node_config_of(host));
    HostNic::new(HostConfig { cells: plan.cells, tail_room: plan.tail_room, ..config })
}
