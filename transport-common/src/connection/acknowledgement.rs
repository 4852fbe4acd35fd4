//! The connection as packet delivery sees it while an acknowledgement is processed: packets that are acknowledged end
//! transactions and responses, measurements go to congestion control.

use super::application::Application;
use super::{Flow, Output, Parts, Snapshot, Statistics, TRANSACTIONS, Whole};
use crate::congestion::control::Congestion;
use crate::congestion::settings::Settings;
use crate::counters::Counter;
use crate::packet_delivery::{
    self, Acknowledgement, Context, Delivery, DeliveryTables, Explicit, Found, NackVerdict, Round, TxPacket,
    Window,
};
use crate::queues::{QueuePair, Queues};
use crate::transaction::{CompletionCode, Initiator, Responses, Target, Transaction};
use crate::ulp::Answer;
use crate::units::{FalconTime, Ticks};
use crate::verifier::walked_once;
use crate::wire::PacketType;
use crate::wire::packet::Packet;

/// The owner of what packets carry.
pub(super) struct Owner<'a, Q> {
    pub(super) whole: Whole<'a>,
    pub(super) queues: &'a Q,
}

impl<Q: Queues> packet_delivery::Owner for Owner<'_, Q> {
    type Context<'c>
        = Outstanding<'c, Q>
    where
        Self: 'c;

    #[inline(always)]
    fn context(&mut self) -> Outstanding<'_, Q> {
        let Parts { hot, packets, transactions, responses, statistics, settings, .. } =
            self.whole.by_ref().parts();
        Outstanding {
            flow: &mut hot.flow,
            packets,
            initiator: &mut hot.initiator,
            transactions,
            target: &mut hot.target,
            responses,
            statistics,
            settings: &settings.in_force,
            queues: self.queues,
        }
    }

    #[inline(always)]
    fn acknowledge_lane(&mut self, ack: &Acknowledgement, window: Window) {
        let whole = self.whole.by_ref();
        match self.queues.page() {
            Some(page) => acknowledge_window(whole.0, ack, page, window.index() as u32),
            None => acknowledge_recorded_window(whole, self.queues, ack, window),
        }
    }
}

/// What packets carry, and what learns that they arrived.
pub(super) struct Outstanding<'a, Q> {
    flow: &'a mut Flow,
    packets: &'a mut DeliveryTables,
    initiator: &'a mut Initiator,
    transactions: &'a mut [Transaction; TRANSACTIONS],
    target: &'a mut Target,
    responses: &'a mut Responses<Answer>,
    statistics: &'a mut Statistics,
    settings: &'a Settings,
    queues: &'a Q,
}

impl<Q: Queues> Context for Outstanding<'_, Q> {
    type Clock = Congestion;

    #[inline(always)]
    fn delivery(&mut self) -> (Delivery<'_>, &Congestion) {
        (Delivery::new(&mut self.flow.delivery, self.packets), &self.flow.congestion)
    }

    #[inline(always)]
    fn note_lane(&mut self, ack: &Acknowledgement, round: &Round, window: Window) {
        note_window(self.flow, self.packets, ack, round, window.index() as u32);
    }

    #[inline(always)]
    fn acknowledged(&mut self, packet: TxPacket) {
        self.flow.congestion.packet_acknowledged();
        if packet.is_response() {
            return self.target.response_acknowledged(self.responses, packet.response);
        }
        let code = match packet.resync() {
            Some(code) => {
                // The transaction may have ended before and kept its table entry only for this packet.
                self.initiator.pull_acknowledged(self.transactions, packet.rsn);
                CompletionCode::of_resync(code)
            }
            None if packet.kind == PacketType::PullRequest => {
                return self.initiator.pull_acknowledged(self.transactions, packet.rsn);
            }
            None => CompletionCode::Ack,
        };
        let end = (code, 0, false);
        self.initiator.complete(self.transactions, Application(self.queues), packet.rsn, end);
    }

    #[inline(always)]
    fn applied(&mut self) {
        self.initiator.flush(self.transactions, Application(self.queues));
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

impl<'o, Q: Queues> Explicit<Owner<'o, Q>> for Reporter<'_> {
    #[inline(always)]
    fn accepted(&mut self, at: Outstanding<'_, Q>) {
        at.statistics.acks_received += 1;
        self.is_new = at.flow.congestion.sample_rtt(self.packet);
    }

    #[inline(always)]
    fn refused(&mut self, at: Outstanding<'_, Q>, packet: TxPacket) {
        if !packet.is_response() {
            at.initiator.remember_ulp_code(at.transactions, packet.rsn, self.packet.ulp_code);
        }
    }

    #[inline(always)]
    fn loss_age(&self, at: Outstanding<'_, Q>, rtt: Ticks) -> Ticks {
        at.flow.congestion.loss_age(rtt, at.settings)
    }

    #[inline(always)]
    fn measure(&mut self, at: Outstanding<'_, Q>, found: Found) {
        if let Some(verdict) = found.nack {
            at.statistics.nacks_received += 1;
            match verdict {
                NackVerdict::Ignored => self.output.report.raised.raise(Counter::NackIgnored),
                NackVerdict::WaitsStill => self.is_new = false,
                NackVerdict::Waits | NackVerdict::Refused => {}
            }
        }
        if self.is_new {
            let when = (at.settings, self.now);
            at.flow.congestion.on_acknowledgement(&mut self.output.event, self.packet, found.lost, when);
            self.output.report.delays = 1;
            self.output.report.decide = 1;
        }
    }
}

/// A function of its own, because there are two windows.
#[inline(never)]
fn acknowledge_recorded_window<Q: Queues>(
    whole: Whole<'_>,
    queues: &Q,
    ack: &Acknowledgement,
    window: Window,
) {
    let mut owner = Owner { whole, queues };
    packet_delivery::acknowledge_lane(&mut packet_delivery::Owner::context(&mut owner), ack, window);
}

walked_once! {
    /// Calls [`packet_delivery::acknowledge_lane`] for the queues in the application's page.
    fn acknowledge_window(
        connection: &mut Snapshot,
        ack: &Acknowledgement,
        queues: &QueuePair;
        window: u32
    ) -> () {
        let mut owner = Owner { whole: connection.whole(), queues };
        let mut context = packet_delivery::Owner::context(&mut owner);
        packet_delivery::acknowledge_lane(&mut context, ack, Window::from_index(window));
    }
}

walked_once! {
    /// Calls [`Delivery::note_lane`].
    fn note_window(
        flow: &mut Flow,
        packets: &mut DeliveryTables,
        ack: &Acknowledgement,
        round: &Round;
        window: u32
    ) -> () {
        let mut delivery = Delivery::new(&mut flow.delivery, packets);
        delivery.note_lane(&flow.congestion, ack, round, Window::from_index(window));
    }
}
