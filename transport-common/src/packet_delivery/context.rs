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

/// Packet delivery and what its packets carry, while it processes an acknowledgement.
pub trait Context {
    /// The times of the path.
    type Clock: PathClock;

    /// Lends packet delivery and the times of the path.
    fn delivery(&mut self) -> (Delivery<'_>, &Self::Clock);

    /// Takes a packet that is newly acknowledged. It is no longer outstanding (D-30).
    fn acknowledged(&mut self, packet: TxPacket);

    /// Calls [`Delivery::note_lane`]. One window at a time, because the bitmaps of both do not fit the stack of a BPF
    /// program.
    #[inline(always)]
    fn note_lane(&mut self, ack: &Acknowledgement, round: &Round, window: Window) {
        let (mut delivery, clock) = self.delivery();
        delivery.note_lane(clock, ack, round, window);
    }

    /// Learns that all packets that an acknowledgement names were told.
    #[inline(always)]
    fn applied(&mut self) {}
}

impl<C: Context> Context for &mut C {
    type Clock = C::Clock;

    #[inline(always)]
    fn delivery(&mut self) -> (Delivery<'_>, &Self::Clock) {
        (**self).delivery()
    }

    #[inline(always)]
    fn acknowledged(&mut self, packet: TxPacket) {
        (**self).acknowledged(packet);
    }

    #[inline(always)]
    fn note_lane(&mut self, ack: &Acknowledgement, round: &Round, window: Window) {
        (**self).note_lane(ack, round, window);
    }

    #[inline(always)]
    fn applied(&mut self) {
        (**self).applied();
    }
}

/// The owner of a [`Context`]: it lends the parts of it for one call at a time. A context owns itself.
pub trait Owner {
    /// What it lends.
    type Context<'c>: Context
    where
        Self: 'c;

    /// Lends the context.
    fn context(&mut self) -> Self::Context<'_>;

    /// Calls [`acknowledge_lane`]. The two windows are two calls: an owner can put a function around it, so that its
    /// code is there only once.
    #[inline(always)]
    fn acknowledge_lane(&mut self, ack: &Acknowledgement, window: Window) {
        acknowledge_lane(&mut self.context(), ack, window);
    }
}

impl<C: Context> Owner for C {
    type Context<'c>
        = &'c mut C
    where
        C: 'c;

    #[inline(always)]
    fn context(&mut self) -> &mut C {
        self
    }
}

/// Takes what a BACK, an EACK or a NACK says beyond the packets that arrived. `O` owns the [`Context`].
pub trait Explicit<O: Owner> {
    /// Learns that the acknowledgement is neither stale nor invalid.
    #[inline(always)]
    fn accepted(&mut self, _context: O::Context<'_>) {}

    /// Takes the packet whose content the peer's ULP refused by a NACK. A Resync takes its place.
    #[inline(always)]
    fn refused(&mut self, _context: O::Context<'_>, _packet: TxPacket) {}

    /// Returns how old the last copy of a packet must be that an EACK shows to be lost. `rtt` is the round trip that the
    /// EACK measures (F-9.1.4-2).
    #[inline(always)]
    fn loss_age(&self, _context: O::Context<'_>, rtt: Ticks) -> Ticks {
        rtt
    }

    /// Takes what the acknowledgement says to congestion control, with its measurements. RACK-TLP follows, and uses
    /// these (RFC 8985, 6.2, step 1).
    fn measure(&mut self, context: O::Context<'_>, found: Found);
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
pub fn acknowledge<O: Owner>(owner: &mut O, ack: &Acknowledgement, round: Round) -> AckVerdict {
    let verdict = apply(owner, ack, round);
    find_late(owner, round.now);
    verdict
}

/// Processes a BACK, an EACK or a NACK: as [`acknowledge`], and what it shows or refuses beyond that (F-9.2.3,
/// F-9.2.4). Returns whether RACK-TLP found a lost packet.
///
/// # Errors
/// The verdict on an acknowledgement that is stale or invalid, and changed nothing.
#[inline(always)]
pub fn acknowledge_explicit<O: Owner>(
    owner: &mut O,
    explicit: &mut impl Explicit<O>,
    packet: &Packet,
    now: FalconTime,
) -> Result<bool, AckVerdict> {
    let ack = &packet.acknowledgement;
    let rtt = packet.arrival.ticks().since(packet.t1);
    let verdict = apply(owner, ack, Round { now, rtt });
    if matches!(verdict, AckVerdict::Stale | AckVerdict::Invalid) {
        return Err(verdict);
    }
    explicit.accepted(owner.context());
    let mut found = Found { lost: false, nack: None };
    if packet.kind == PacketType::Eack {
        let age = explicit.loss_age(owner.context(), rtt);
        found.lost = owner.context().delivery().0.detect_loss(ack, now, age);
    } else if packet.kind == PacketType::Nack {
        let (verdict, refused) = on_nack(&mut owner.context(), packet, now);
        if let Some(packet) = refused {
            explicit.refused(owner.context(), packet);
        }
        found.nack = Some(verdict);
    }
    explicit.measure(owner.context(), found);
    Ok(find_late(owner, now))
}

/// Applies the NACK itself. Returns the packet if the peer's ULP refused its content.
#[inline(always)]
fn on_nack(context: &mut impl Context, packet: &Packet, now: FalconTime) -> (NackVerdict, Option<TxPacket>) {
    let nack = NackReport::of(packet);
    let (mut delivery, clock) = context.delivery();
    let verdict = delivery.on_nack(&nack, clock, now);
    let refused = verdict == NackVerdict::Refused;
    (verdict, refused.then(|| *delivery.tables.packet(nack.window, nack.psn)))
}

/// Judges an acknowledgement, and applies it to both windows.
#[inline(always)]
fn apply<O: Owner>(owner: &mut O, ack: &Acknowledgement, round: Round) -> AckVerdict {
    let verdict = prepare(&mut owner.context(), ack, round);
    if verdict != AckVerdict::Applied {
        return verdict;
    }
    if ack.selective != 0 || ack.data_base != owner.context().delivery().0.state.data().tx.base {
        owner.acknowledge_lane(ack, Window::Data);
    }
    if ack.selective != 0 || ack.request_base != owner.context().delivery().0.state.request().tx.base {
        owner.acknowledge_lane(ack, Window::Request);
    }
    owner.context().applied();
    AckVerdict::Applied
}

/// Judges an acknowledgement, and lets RACK-TLP note what it shows before it is applied.
#[inline(always)]
fn prepare(context: &mut impl Context, ack: &Acknowledgement, round: Round) -> AckVerdict {
    let (delivery, _) = context.delivery();
    if delivery.state.knows(ack) {
        return AckVerdict::Known;
    }
    let verdict = delivery.state.judge(ack);
    if verdict == AckVerdict::Applied && delivery.state.has_rack() {
        context.note_lane(ack, &round, Window::Data);
        context.note_lane(ack, &round, Window::Request);
    }
    verdict
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

/// Lets RACK-TLP find the packets that are lost, if it is on.
#[inline(always)]
fn find_late<O: Owner>(owner: &mut O, now: FalconTime) -> bool {
    let mut context = owner.context();
    let (delivery, clock) = context.delivery();
    delivery.state.has_rack() && find_late_packets(delivery.state, delivery.tables, clock, now)
}

/// Lets RACK-TLP find the packets that are lost, by what an acknowledgement shows to be delivered. A function of its own,
/// because it is rare and has two callers.
#[inline(never)]
fn find_late_packets<C: PathClock>(
    state: &mut PacketDelivery,
    tables: &mut DeliveryTables,
    clock: &C,
    now: FalconTime,
) -> bool {
    tables.rack.on_delivery(state, &mut tables.packets, &clock.times(now))
}
