//! The connection as packet delivery sees it while an acknowledgement is processed: packets that are acknowledged end
//! transactions and responses, measurements go to congestion control.

use super::application::Application;
use super::{Entry, Output};
use crate::congestion::control::Congestion;
use crate::counters::Counter;
use crate::packet_delivery::{
    self, Acknowledgement, Context, Delivery, Explicit, Found, NackVerdict, Round, TxPacket, Window,
};
use crate::queues::{QueuePair, Queues};
use crate::transaction::CompletionCode;
use crate::units::{FalconTime, Ticks};
use crate::verifier::walked_once;
use crate::wire::PacketType;
use crate::wire::packet::Packet;

/// The owner of what packets carry.
pub(super) struct Owner<'a, Q> {
    pub(super) entry: &'a mut Entry,
    pub(super) queues: &'a Q,
}

impl<Q: Queues> Context for Owner<'_, Q> {
    type Clock = Congestion;

    #[inline(always)]
    fn delivery(&mut self) -> (Delivery<'_>, &Congestion) {
        let Entry { connection: c, tables, .. } = &mut *self.entry;
        (Delivery::new(&mut c.delivery, &mut tables.delivery), &c.congestion)
    }

    #[inline(always)]
    fn acknowledge_lane(&mut self, ack: &Acknowledgement, window: Window) {
        match self.queues.page() {
            Some(page) => acknowledge_window(self.entry, ack, page, window.index() as u32),
            None => acknowledge_recorded_window(self.entry, self.queues, ack, window),
        }
    }

    #[inline(always)]
    fn note_lane(&mut self, ack: &Acknowledgement, round: &Round, window: Window) {
        note_window(self.entry, ack, round, window.index() as u32);
    }

    #[inline(always)]
    fn acknowledged(&mut self, packet: TxPacket) {
        let Entry { connection: c, tables, .. } = &mut *self.entry;
        c.congestion.packet_acknowledged();
        if packet.is_response() {
            return c.target.response_acknowledged(&mut tables.responses, packet.response);
        }
        let code = match packet.resync() {
            Some(code) => {
                // The transaction may have ended before and kept its table entry only for this packet.
                c.initiator.pull_acknowledged(&mut tables.transactions, packet.rsn);
                CompletionCode::of_resync(code)
            }
            None if packet.kind == PacketType::PullRequest => {
                return c.initiator.pull_acknowledged(&mut tables.transactions, packet.rsn);
            }
            None => CompletionCode::Ack,
        };
        let end = (code, 0, false);
        c.initiator.complete(&mut tables.transactions, Application(self.queues), packet.rsn, end);
    }

    #[inline(always)]
    fn applied(&mut self) {
        let Entry { connection: c, tables, .. } = &mut *self.entry;
        c.initiator.flush(&mut tables.transactions, Application(self.queues));
    }
}

/// Takes what a BACK, an EACK or a NACK says.
pub(super) struct Reporter<'a> {
    pub(super) packet: &'a Packet,
    pub(super) output: &'a mut Output,
    pub(super) now: FalconTime,
    /// The acknowledgement measures the round trip.
    pub(super) is_new: bool,
}

impl<Q: Queues> Explicit<Owner<'_, Q>> for Reporter<'_> {
    #[inline(always)]
    fn accepted(&mut self, owner: &mut Owner<'_, Q>) {
        let Entry { connection: c, tables, .. } = &mut *owner.entry;
        tables.statistics.acks_received += 1;
        self.is_new = c.congestion.sample_rtt(self.packet);
    }

    #[inline(always)]
    fn refused(&mut self, owner: &mut Owner<'_, Q>, packet: TxPacket) {
        if !packet.is_response() {
            let Entry { connection: c, tables, .. } = &mut *owner.entry;
            c.initiator.remember_ulp_code(&mut tables.transactions, packet.rsn, self.packet.ulp_code);
        }
    }

    #[inline(always)]
    fn loss_age(&self, owner: &Owner<'_, Q>, rtt: Ticks) -> Ticks {
        let Entry { connection: c, settings, .. } = &*owner.entry;
        c.congestion.loss_age(rtt, &settings.in_force)
    }

    #[inline(always)]
    fn measure(&mut self, owner: &mut Owner<'_, Q>, found: Found) {
        let Entry { connection: c, tables, settings } = &mut *owner.entry;
        if let Some(verdict) = found.nack {
            tables.statistics.nacks_received += 1;
            match verdict {
                NackVerdict::Ignored => self.output.report.raised.raise(Counter::NackIgnored),
                NackVerdict::WaitsStill => self.is_new = false,
                NackVerdict::Waits | NackVerdict::Refused => {}
            }
        }
        if self.is_new {
            let at = (&settings.in_force, self.now);
            c.congestion.on_acknowledgement(&mut self.output.event, self.packet, found.lost, at);
            self.output.report.delays = 1;
            self.output.report.decide = 1;
        }
    }
}

/// A function of its own, because there are two windows.
#[inline(never)]
fn acknowledge_recorded_window<Q: Queues>(
    entry: &mut Entry,
    queues: &Q,
    ack: &Acknowledgement,
    window: Window,
) {
    packet_delivery::acknowledge_lane(&mut Owner { entry, queues }, ack, window);
}

walked_once! {
    /// Calls [`packet_delivery::acknowledge_lane`] for the queues in the application's page.
    fn acknowledge_window(entry: &mut Entry, ack: &Acknowledgement, queues: &QueuePair; window: u32) -> () {
        packet_delivery::acknowledge_lane(&mut Owner { entry, queues }, ack, Window::from_index(window));
    }
}

walked_once! {
    /// Calls [`Delivery::note_lane`].
    fn note_window(entry: &mut Entry, ack: &Acknowledgement, round: &Round; window: u32) -> () {
        let Entry { connection: c, tables, .. } = entry;
        let mut delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
        delivery.note_lane(&c.congestion, ack, round, Window::from_index(window));
    }
}
