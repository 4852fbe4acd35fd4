//! Processing of a received acknowledgement, from the judgement to the search for lost packets, and what packet
//! delivery asks and tells its owner meanwhile.

use super::{
    AckVerdict, Acknowledgement, Delivery, DeliveryTables, NackReport, NackVerdict, PacketDelivery,
    PathClock, Round, TxPacket, Window,
};
use crate::units::{FalconTime, Ticks};
use crate::verifier::bounded;
use crate::wire::PacketType;
use crate::wire::packet::Packet;

/// The owner of packet delivery and of what the packets carry, while it processes an acknowledgement.
pub trait Context {
    /// The times of the path.
    type Clock: PathClock;

    /// Lends packet delivery and the times of the path.
    fn delivery(&mut self) -> (Delivery<'_>, &Self::Clock);

    /// Takes a packet that is newly acknowledged. It is no longer outstanding (D-30).
    fn acknowledged(&mut self, packet: TxPacket);

    /// Calls [`acknowledge_lane`]. The two windows are two calls: an owner can put a function around it, so that its
    /// code is there only once.
    #[inline(always)]
    fn acknowledge_lane(&mut self, ack: &Acknowledgement, window: Window)
    where
        Self: Sized,
    {
        acknowledge_lane(self, ack, window);
    }

    /// Calls [`Delivery::note_lane`]. One window at a time, because the bitmaps of both do not fit the stack of a BPF
    /// program.
    #[inline(always)]
    fn note_lane(&mut self, ack: &Acknowledgement, round: &Round, window: Window)
    where
        Self: Sized,
    {
        let (mut delivery, clock) = self.delivery();
        delivery.note_lane(clock, ack, round, window);
    }

    /// Learns that all packets that an acknowledgement names were told.
    #[inline(always)]
    fn applied(&mut self) {}
}

/// Takes what a BACK, an EACK or a NACK says beyond the packets that arrived. `C` is the [`Context`].
pub trait Explicit<C> {
    /// Learns that the acknowledgement is neither stale nor invalid.
    #[inline(always)]
    fn accepted(&mut self, _context: &mut C) {}

    /// Takes the packet whose content the peer's ULP refused by a NACK. A Resync takes its place.
    #[inline(always)]
    fn refused(&mut self, _context: &mut C, _packet: TxPacket) {}

    /// Returns how old the last copy of a packet must be that an EACK shows to be lost. `rtt` is the round trip that the
    /// EACK measures (F-9.1.4-2).
    #[inline(always)]
    fn loss_age(&self, _context: &C, rtt: Ticks) -> Ticks {
        rtt
    }

    /// Takes what the acknowledgement says to congestion control, with its measurements. RACK-TLP follows, and uses
    /// these (RFC 8985, 6.2, step 1).
    fn measure(&mut self, context: &mut C, found: Found);
}

/// What packet delivery found in an explicit acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The out-of-order distance shows loss (F-10.6.2.1-10).
    pub lost: bool,
    /// The result of the NACK, if it is one.
    pub nack: Option<NackVerdict>,
}

/// Processes a piggybacked acknowledgement: judges it, applies it to both windows, and lets RACK-TLP find what it
/// shows to be lost. One that is not [`AckVerdict::Applied`] changes nothing.
#[inline(always)]
pub fn acknowledge<C: Context>(context: &mut C, ack: &Acknowledgement, round: Round) -> AckVerdict {
    let verdict = apply(context, ack, round);
    let (delivery, clock) = context.delivery();
    if delivery.state.has_rack() {
        find_late(delivery.state, delivery.tables, clock, round.now);
    }
    verdict
}

/// Processes a BACK, an EACK or a NACK: as [`acknowledge`], and what it shows or refuses beyond that (F-9.2.3,
/// F-9.2.4). Returns whether RACK-TLP found a lost packet.
///
/// # Errors
/// The verdict on an acknowledgement that is stale or invalid, and changed nothing.
#[inline(always)]
pub fn acknowledge_explicit<C: Context>(
    context: &mut C,
    explicit: &mut impl Explicit<C>,
    packet: &Packet,
    now: FalconTime,
) -> Result<bool, AckVerdict> {
    let ack = &packet.acknowledgement;
    let rtt = packet.arrival.ticks().since(packet.t1);
    let verdict = apply(context, ack, Round { now, rtt });
    if matches!(verdict, AckVerdict::Stale | AckVerdict::Invalid) {
        return Err(verdict);
    }
    explicit.accepted(context);
    let mut found = Found { lost: false, nack: None };
    if packet.kind == PacketType::Eack {
        let age = explicit.loss_age(context, rtt);
        found.lost = context.delivery().0.detect_loss(ack, now, age);
    } else if packet.kind == PacketType::Nack {
        let nack = NackReport::of(packet);
        let (mut delivery, clock) = context.delivery();
        let verdict = delivery.on_nack(&nack, clock, now);
        if verdict == NackVerdict::Refused {
            let packet = *delivery.tables.packet(nack.window, nack.psn);
            explicit.refused(context, packet);
        }
        found.nack = Some(verdict);
    }
    explicit.measure(context, found);
    let (delivery, clock) = context.delivery();
    Ok(delivery.state.has_rack() && find_late(delivery.state, delivery.tables, clock, now))
}

/// Judges an acknowledgement, and applies it to both windows.
#[inline(always)]
fn apply<C: Context>(context: &mut C, ack: &Acknowledgement, round: Round) -> AckVerdict {
    let (delivery, _) = context.delivery();
    if delivery.state.knows(ack) {
        return AckVerdict::Known;
    }
    let verdict = delivery.state.judge(ack);
    if verdict != AckVerdict::Applied {
        return verdict;
    }
    if delivery.state.has_rack() {
        context.note_lane(ack, &round, Window::Data);
        context.note_lane(ack, &round, Window::Request);
    }
    let state = context.delivery().0.state;
    if ack.selective != 0 || ack.data_base != state.data().tx.base {
        context.acknowledge_lane(ack, Window::Data);
    }
    if ack.selective != 0 || ack.request_base != context.delivery().0.state.request().tx.base {
        context.acknowledge_lane(ack, Window::Request);
    }
    context.applied();
    AckVerdict::Applied
}

/// Applies an acknowledgement, which was judged before, to one window, and tells its owner of each packet that is newly
/// acknowledged. Then advances the base.
#[inline(always)]
pub fn acknowledge_lane<C: Context>(context: &mut C, ack: &Acknowledgement, window: Window) {
    let mut new = context.delivery().0.state.acknowledge(window, ack);
    while let Some(packet) = context.delivery().0.next_acknowledged(window, &mut new) {
        bounded!();
        context.acknowledged(packet);
    }
}

/// Lets RACK-TLP find the packets that are lost, by what an acknowledgement shows to be delivered. A function of its own,
/// because it is rare and has two callers.
#[inline(never)]
fn find_late<C: PathClock>(
    state: &mut PacketDelivery,
    tables: &mut DeliveryTables,
    clock: &C,
    now: FalconTime,
) -> bool {
    tables.rack.on_delivery(state, &mut tables.packets, &clock.times(now))
}
