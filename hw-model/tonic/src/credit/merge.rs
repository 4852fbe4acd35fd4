//! Merge in the credit engine: the contexts after a cycle, and the flows that are ready to transmit.

use clocked::Cycle;

use crate::packet::FlowId;
use crate::protocol::Credit;

use super::rate;
use super::{CreditContext, CreditEngine, CreditNext, Limits};

/// The modules that begin divisions, by the index of their divider.
const TRANSMIT: usize = 0;
const ENQUEUE: usize = 1;

/// The write ports of the modules. `UPDATED` is the first of two.
const PROCESSED: usize = 0;
const ENQUEUED: usize = 1;
const UPDATED: usize = 2;
const EXPIRED: usize = 4;

/// A flow that lacks credit, the bytes that it lacks, and its rate.
type Lack = (FlowId, u32, u32);

/// Decides what happens to a flow that is neither ready nor waiting. If it has credit, it becomes ready and the
/// result is true. If its rate will give it the credit, it begins to wait, and `lack` is set to what it lacks. If
/// it has nothing to send or needs tokens, nothing changes.
#[inline(always)]
fn settle(
    now: Cycle,
    flow: FlowId,
    context: &mut CreditContext,
    limits: &Limits,
    lack: &mut Option<Lack>,
) -> bool {
    if context.count == 0 || context.ready || context.waiting {
        return false;
    }
    let credit = limits.credit(now, context);
    if credit >= limits.segment {
        context.ready = true;
    } else if limits.scheme == Credit::Rate {
        context.waiting = true;
        *lack = Some((flow, limits.segment.minus(credit).bytes_up() as u32, context.rate));
    }
    context.ready
}

impl CreditEngine {
    /// Performs the clock edge that ends cycle `now`.
    #[inline(always)]
    pub(crate) fn commit(&mut self, now: Cycle, next: &CreditNext) {
        let mut lacks = [None; 2];
        self.schedule(now, next, &mut lacks);
        if self.limits.scheme == Credit::Rate {
            self.set_timers(now, next.expired.is_some(), lacks);
        }
        // If the queue is empty and the link is ready, a transmitted segment goes straight to the pins.
        let queued = next.transmitted.filter(|_| !next.link_ready || !self.output_queue.is_empty());
        self.output_queue
            .commit(next.link_ready, queued)
            .expect("nothing is issued without space in the queue");
    }

    /// Updates the contexts and the ready-to-transmit set. Flows enter the set in this order: the flow just
    /// processed, then those that a new address, tokens and a timer have made ready.
    #[inline(always)]
    fn schedule(&mut self, now: Cycle, next: &CreditNext, lacks: &mut [Option<Lack>; 2]) {
        let limits = self.limits;
        let size = self.outstanding;
        let [update_0, update_1] = next.updates.map(|update| update.map(|update| update.flow.index()));
        let addresses = [
            next.processed.map(FlowId::index),
            next.enqueue.map(|address| address.flow.index()),
            update_0,
            update_1,
            next.expired.map(FlowId::index),
        ];
        let mut contexts = self.contexts.write_ports(addresses);
        if let Some(context) = contexts.word(PROCESSED) {
            context.ready = false;
            if next.transmitted.is_some() {
                context.credit = limits.credit(now, context).minus(limits.segment);
                context.since = now;
                context.head = if context.head + 1 == size { 0 } else { context.head + 1 };
                context.count -= 1;
            }
        }
        if let Some(address) = next.enqueue
            && let Some(context) = contexts.word(ENQUEUED)
        {
            let place = context.head + context.count;
            let place = usize::from(if place >= size { place - size } else { place });
            context.count += 1;
            let entry = address.flow.index() * usize::from(size) + place;
            let mut ring = self.rings.write_ports([Some(entry)]);
            if let Some(word) = ring.word(0) {
                *word = (address.segment, address.retransmission);
            }
        }
        for (i, update) in next.updates.iter().enumerate() {
            let Some(update) = update else { continue };
            let Some(context) = contexts.word(UPDATED + i) else { continue };
            context.credit = limits.credit(now, context).plus(limits.tokens(update.tokens));
            context.since = now;
            context.rate = update.rate.unwrap_or(context.rate);
        }

        let mut straight_back = None;
        let mut entering = [None; 5];
        if let Some(flow) = next.processed
            && let Some(context) = contexts.word(PROCESSED)
        {
            let ready = settle(now, flow, context, &limits, &mut lacks[TRANSMIT]).then_some(flow);
            // As in the data delivery engine, the flow goes straight back if no other flow is in lookup.
            if self.lookup.is_none() && next.may_go_back {
                straight_back = ready;
            } else {
                entering[0] = ready;
            }
        }
        if let Some(address) = next.enqueue
            && let Some(context) = contexts.word(ENQUEUED)
        {
            let flow = address.flow;
            entering[1] = settle(now, flow, context, &limits, &mut lacks[ENQUEUE]).then_some(flow);
        }
        for (i, update) in next.updates.into_iter().enumerate() {
            let Some(update) = update else { continue };
            let Some(context) = contexts.word(UPDATED + i) else { continue };
            // Under the rate scheme, a flow with an address is already ready or waiting. So nothing is lacking
            // here.
            let flow = update.flow;
            entering[UPDATED + i] = settle(now, flow, context, &limits, &mut None).then_some(flow);
        }
        if let Some(flow) = next.expired
            && let Some(context) = contexts.word(EXPIRED)
        {
            // The timer says that the credit is available. Transmit checks it again.
            context.waiting = false;
            context.ready = true;
            entering[EXPIRED] = Some(flow);
        }
        self.ready_set
            .commit(next.selected.is_some(), entering.into_iter().flatten())
            .expect("no flow is in the set twice");
        self.processing = self.lookup.or(straight_back);
        self.lookup = next.selected;
    }

    /// Begins divisions, and sets timers to the results of the divisions that are complete.
    #[inline(always)]
    fn set_timers(&mut self, now: Cycle, taken: bool, lacks: [Option<Lack>; 2]) {
        let [transmit, enqueue] = lacks;
        let set = [self.divide(now, TRANSMIT, transmit), self.divide(now, ENQUEUE, enqueue)];
        self.timers.commit(now, taken, set.into_iter().flatten());
    }

    /// Begins a division if a flow lacks credit. Returns the timer to set if a division is complete.
    #[inline(always)]
    fn divide(&mut self, now: Cycle, divider: usize, lack: Option<Lack>) -> Option<(u32, Cycle)> {
        let result = self.dividers[divider].output().copied();
        self.dividers[divider].commit(
            lack.map(|(flow, lacking, rate)| (flow, now + rate::cycles_to_gain(lacking, rate, &self.quanta))),
        );
        result.map(|(flow, expiry)| (u32::from(flow.0), expiry.max(now + 1)))
    }
}
