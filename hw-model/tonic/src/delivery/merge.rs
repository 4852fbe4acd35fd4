//! Merge: combines the changes of several modules to a flow in one cycle into one state (section 3.4).
//!
//! | variable | written by | rule |
//! |---|---|---|
//! | outstanding | Segment Generation, Segment Transmitted | if both occur, the value does not change |
//! | window, its bitmaps | Incoming (fixed) | the window moves last; the bits that it leaves are cleared |
//! | idle, active | Segment Generation, Incoming, Periodic Updates | decided from the window after all changes of the cycle |
//! | marks | Incoming, Periodic Updates, Segment Generation | the new marks, without the segment generated |
//! | window size, timer period | Incoming, Periodic Updates | acknowledgment and timeout exclude each other |
//! | retransmission timer | Segment Transmitted, Incoming, Periodic Updates | a reset wins, then an expiry, then a start |
//! | user state | Incoming, Periodic Updates | as the user decides ([`Protocol::merge`]) |

use clocked::{Cycle, RingBitmap, WritePorts};

use crate::logic::{Plain, UserState};
use crate::packet::{FlowId, Segment};
use crate::parameters::Rules;
use crate::protocol::{Decision, Protocol};

use super::context::{Schedule, Window};
use super::decided::{State, UserUpdate, capped};
use super::{DeliveryEngine, DeliveryNext, generation, incoming};

/// Marks the segments that the decision names.
#[inline(always)]
fn mark<const WORDS: usize>(window: &mut Window<WORDS>, decision: &Decision<Plain<WORDS>>) {
    if decision.mark {
        let [from, to] = [decision.mark_from, decision.mark_to].map(|value| Segment(value.segment()));
        mark_between(window, from, to);
    }
}

/// Marks the segments from `from` up to, but not including, `to` that were generated and are not acknowledged.
fn mark_between<const WORDS: usize>(window: &mut Window<WORDS>, from: Segment, to: Segment) {
    // Offsets from the window's start. A segment before the start counts as the start.
    let (from, to) = (from.after(window.start) as i32, to.after(window.start) as i32);
    let in_flight = window.in_flight() as i32;
    let (from, to) = (from.max(0), to.min(in_flight));
    if from < to {
        let range = RingBitmap::range(window.start.plus(from as u32).0, (to - from) as u32);
        window.marked = window.marked.or(&range.and_not(&window.acked));
    }
}

/// The write port of Segment Generation. Each module has its own port. The ports of the windows belong to Segment
/// Generation, Periodic Updates, and Incoming's programmable and fixed stage.
const GENERATION: usize = 0;
const PERIODIC: usize = 1;
const INCOMING: usize = 2;
const FIXED: usize = 3;
/// In the schedules, Segment Transmitted has the port that the fixed stage has in the windows.
const TRANSMITTED: usize = 3;

type Windows<'a, const WORDS: usize> = WritePorts<'a, Window<WORDS>, 4>;
type Schedules<'a> = WritePorts<'a, Schedule, 4>;

impl<P: Protocol, const WORDS: usize> DeliveryEngine<P, WORDS> {
    /// Performs the clock edge that ends cycle `now`.
    #[inline(always)]
    pub(crate) fn commit(&mut self, now: Cycle, next: &DeliveryNext<P, WORDS>) {
        let incoming = next.incoming.as_ref();
        let periodic = next.periodic.as_ref().map(|(update, _)| update);
        self.merge_users(periodic, incoming);

        let index = |flow: FlowId| flow.index();
        let generated = next.generation.map(|generation| index(generation.flow));
        let updated = incoming.map(|update| index(update.flow));
        let visited = periodic.map(|update| update.flow).or(next.timer_off).map(index);
        let acknowledged = next.acknowledged.as_ref().map(|of| index(of.packet.flow));
        let addresses = [generated, visited, updated, acknowledged];
        let mut windows = self.windows.write_ports(addresses);
        let addresses = [generated, visited, updated, next.decrement.map(index)];
        let mut schedules = self.schedules.write_ports(addresses);
        merge_windows(&mut windows, next, self.rules);
        let limits = Limits { rules: self.rules, stop_at: self.stop_at, restart_below: self.restart_below };
        let restarted = merge_counts(&mut schedules, &mut windows, next, &limits);
        let timer = merge_events(now, &mut schedules, &mut windows, next, self.rules);
        self.no_timer_before = self.no_timer_before.min(timer);

        // The flow just processed goes straight back to processing if it can send more and no other flow is in
        // lookup. This takes into account what the packets of this cycle have acknowledged. Otherwise the flow
        // enters the active set. After it, the flows enter that a transmission, a packet and a timeout have made
        // active.
        let mut straight_back = None;
        let mut entering = [None; 4];
        if let Some(generation) = &next.generation
            && let Some(schedule) = schedules.word(GENERATION)
        {
            schedule.active = !schedule.idle && !schedule.stopped;
            let entry = schedule.active.then_some(generation.flow);
            if self.lookup.is_none() {
                straight_back = entry;
            } else {
                entering[0] = entry;
            }
        }
        if restarted {
            entering[1] = next.decrement.filter(|_| activates(&mut schedules, TRANSMITTED));
        }
        entering[2] = incoming.map(|of| of.flow).filter(|_| activates(&mut schedules, INCOMING));
        entering[3] = periodic.map(|of| of.flow).filter(|_| activates(&mut schedules, PERIODIC));
        self.active_set
            .commit(next.selected.is_some(), entering.into_iter().flatten())
            .expect("no flow is in the set twice");
        self.processing = self.lookup.or(straight_back);
        self.lookup = next.selected;
        self.acknowledged = next.acknowledged;
        self.packets.commit(next.packet);
        if self.timer_bound_is_old(now) {
            self.raise_timer_bound(now);
        }
    }

    #[inline(always)]
    fn merge_users(
        &mut self,
        periodic: Option<&UserUpdate<P, WORDS>>,
        incoming: Option<&UserUpdate<P, WORDS>>,
    ) {
        let merged = match (periodic, incoming) {
            (Some(periodic), Some(incoming)) if periodic.flow == incoming.flow => {
                let before = self.users.peek(periodic.flow.index());
                // The states are copied: see `TonicNext`.
                let states = (incoming.state, periodic.state);
                Some(self.protocol.merge::<Plain<WORDS>>(before, &states.0, &states.1))
            }
            _ => None,
        };
        let addresses = [periodic, incoming].map(|update| update.map(|update| update.flow.index()));
        let mut users = self.users.write_ports(addresses);
        let mut write = |port, state: &State<P, WORDS>| {
            let Some(word) = users.word(port) else { return };
            *word = state.truncated();
            let due = Cycle(self.protocol.due::<Plain<WORDS>>(word).0);
            self.no_timer_before = self.no_timer_before.min(due);
        };
        if let Some(merged) = merged {
            // Both updates are of one flow, so only one word is written.
            write(0, &merged);
            return;
        }
        if let Some(periodic) = periodic {
            write(0, &periodic.state);
        }
        if let Some(incoming) = incoming {
            write(1, &incoming.state);
        }
    }
}

/// Marks the flow of a port as active, if it can send and is not active yet. Returns true if the flow must enter
/// the active set.
#[inline(always)]
fn activates(schedules: &mut Schedules<'_>, port: usize) -> bool {
    let Some(schedule) = schedules.word(port) else { return false };
    let enters = !schedule.idle && !schedule.stopped && !schedule.active;
    schedule.active |= enters;
    enters
}

#[inline(always)]
fn merge_windows<P: Protocol, const WORDS: usize>(
    windows: &mut Windows<'_, WORDS>,
    next: &DeliveryNext<P, WORDS>,
    rules: Rules,
) {
    let periodic = next.periodic.as_ref().map(|(update, _)| update);
    let incoming = next.incoming.as_ref();
    let generated = next.generation.map(|generation| generation.flow);
    let mut has_marks = false;
    let mut mark_for = |port, update: Option<&UserUpdate<P, WORDS>>| {
        if let Some(update) = update
            && let Some(window) = windows.word(port)
        {
            mark(window, &update.decision);
            if rules == Rules::Published {
                window.marked = window.marked.and_not(&window.acked);
            }
            has_marks |= generated == Some(update.flow);
        }
    };
    mark_for(PERIODIC, periodic);
    mark_for(INCOMING, incoming);
    if let Some(generation) = &next.generation
        && let Some(window) = windows.word(GENERATION)
    {
        match rules {
            Rules::Paper => {}
            // The marks of the event stay, without the bit of the generated segment. If no segment was generated,
            // the bit at the window's end is cleared.
            Rules::Published if has_marks => {
                let end = window.start.plus(window.size);
                window.marked.clear(generation.address.map_or(end, |address| address.segment).0);
            }
            Rules::Published => {
                window.marked = window.marked.and(&RingBitmap::range(window.start.0, window.size));
            }
        }
        if let Some(address) = &generation.address {
            generation::apply(window, address);
        }
    }
    // Segment Generation used the former window size and start.
    let mut resize = |port, update: Option<&UserUpdate<P, WORDS>>| {
        if let Some(update) = update
            && let Some(window) = windows.word(port)
        {
            window.size = capped::<WORDS>(update.decision.window_size);
        }
    };
    resize(PERIODIC, periodic);
    resize(INCOMING, incoming);
    if let Some(acknowledged) = &next.acknowledged
        && let Some(window) = windows.word(FIXED)
    {
        incoming::apply(window, acknowledged, rules);
    }
}

/// The limits for the addresses of a flow that wait for credit.
struct Limits {
    rules: Rules,
    stop_at: u8,
    restart_below: u8,
}

/// Counts the outstanding addresses, and decides from the merged window whether the flow just processed can send
/// more. Returns true if the transmission has restarted its flow.
#[inline(always)]
fn merge_counts<P: Protocol, const WORDS: usize>(
    schedules: &mut Schedules<'_>,
    windows: &mut Windows<'_, WORDS>,
    next: &DeliveryNext<P, WORDS>,
    limits: &Limits,
) -> bool {
    let mut generated = None;
    if let Some(generation) = &next.generation
        && let (Some(schedule), Some(window)) = (schedules.word(GENERATION), windows.word(GENERATION))
    {
        schedule.idle = window.is_idle(limits.rules);
        // The published hardware counts an address even if there is none, because the window shrank while the flow
        // waited. It never takes this count back.
        let counts = generation.address.is_some() || limits.rules == Rules::Published;
        generated = counts.then_some(generation.flow);
        if counts && generated != next.decrement {
            schedule.outstanding += 1;
            schedule.stopped = schedule.outstanding >= limits.stop_at;
        }
    }
    match schedules.word(TRANSMITTED) {
        Some(schedule) if generated != next.decrement => {
            schedule.outstanding -= 1;
            let restarts = schedule.stopped && schedule.outstanding < limits.restart_below;
            schedule.stopped &= !restarts;
            restarts
        }
        _ => false,
    }
}

/// Sets the timers, and updates whether flows with an event have something to send. Returns the earliest expiry
/// among the timers set.
#[inline(always)]
fn merge_events<P: Protocol, const WORDS: usize>(
    now: Cycle,
    schedules: &mut Schedules<'_>,
    windows: &mut Windows<'_, WORDS>,
    next: &DeliveryNext<P, WORDS>,
    rules: Rules,
) -> Cycle {
    let mut earliest = Cycle::NEVER;
    if let Some(schedule) = schedules.word(TRANSMITTED)
        && schedule.timer == Cycle::NEVER
    {
        schedule.timer = now + schedule.timer_period;
        earliest = schedule.timer;
    }
    if next.timer_off.is_some()
        && let Some(schedule) = schedules.word(PERIODIC)
    {
        schedule.timer = Cycle::NEVER;
    }
    if let Some((update, expired)) = &next.periodic
        && let (Some(schedule), Some(window)) = (schedules.word(PERIODIC), windows.word(PERIODIC))
    {
        schedule.idle = window.is_idle(rules);
        earliest = earliest.min(after_event(now, schedule, window, &update.decision, *expired));
    }
    if let Some(update) = &next.incoming
        && let (Some(schedule), Some(window)) = (schedules.word(INCOMING), windows.word(INCOMING))
    {
        schedule.idle = window.is_idle(rules);
        earliest = earliest.min(after_event(now, schedule, window, &update.decision, false));
    }
    earliest
}

/// Sets a flow's timer after a packet or a timeout. Returns when the timer expires if it was started, and
/// otherwise [`Cycle::NEVER`].
#[inline(always)]
fn after_event<const WORDS: usize>(
    now: Cycle,
    schedule: &mut Schedule,
    window: &Window<WORDS>,
    decision: &Decision<Plain<WORDS>>,
    expired: bool,
) -> Cycle {
    schedule.timer_period = decision.timer_period.0;
    if window.is_finished() {
        schedule.timer = Cycle::NEVER;
    } else if decision.reset_timer {
        schedule.timer = now + schedule.timer_period;
        return schedule.timer;
    } else if expired {
        schedule.timer = Cycle::NEVER;
    }
    Cycle::NEVER
}
