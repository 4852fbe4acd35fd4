//! Places of data that a key names: found while the lock of the connection is held, with the domain of that connection. All
//! other places are in memory of the domain itself, and the step has checked them.

use super::{Locked, Platform};
use crate::connection::{Outgoing, Step, Work, WorkKind};
use crate::memory::{LKey, LocalRight, ProtectionDomain, RKey, RemoteRight, Resolved};
use crate::ulp::UlpCode;
use crate::wire::PacketType;

/// A place that may not be used. The node's memory ends before. Not an option: a number needs one register.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Returns whether a key names the data of the packet to send.
#[inline(always)]
pub(super) const fn is_named(s: &Step) -> bool {
    s.output.packet.present != 0 && s.output.packet.ulp.key != 0
}

/// Returns the protection domain of a connection.
#[inline(always)]
pub(super) fn domain_of(connection: &mut impl Locked) -> ProtectionDomain {
    connection.parts().0.parts().hot.responder.domain.id
}

/// Finds the data of an answer to send, each time the answer is sent: its region may have been removed. If it may not be read,
/// the answer reports that. A received packet causes no other packet whose data a key names.
#[inline(always)]
pub(super) fn of_answer<P: Platform>(p: &mut P, s: &mut Step, domain: ProtectionDomain) {
    let packet = &mut s.output.packet;
    let found = of_packet(p, packet, domain);
    if found == NOWHERE {
        packet.protocol.refuse_answer(&mut packet.ulp, UlpCode::ACCESS);
    } else {
        packet.ulp.memory_offset = found;
    }
}

/// Finds the data of a packet that the engine sends: an answer, as [`of_answer`], or a request. Returns false if the
/// application may not use the buffer of its request.
#[inline(always)]
#[must_use]
pub(super) fn of_any<P: Platform>(p: &mut P, s: &mut Step, domain: ProtectionDomain) -> bool {
    let packet = &mut s.output.packet;
    let found = of_packet(p, packet, domain);
    if found != NOWHERE {
        packet.ulp.memory_offset = found;
    } else if packet.kind == PacketType::PullData {
        packet.protocol.refuse_answer(&mut packet.ulp, UlpCode::ACCESS);
    } else {
        return false;
    }
    true
}

/// Returns the place of the data of a packet, or [`NOWHERE`]. The buffer of a pull is where its answer will go.
#[inline(never)]
fn of_packet<P: Platform>(p: &mut P, packet: &Outgoing, domain: ProtectionDomain) -> u64 {
    let u = &packet.ulp;
    let (region, at) = (p.region(u.key), u.memory_offset);
    let found = if packet.kind == PacketType::PullData {
        domain.resolve(RKey(u.key), &region, at, u.data_length, RemoteRight::Read)
    } else {
        let pull = packet.kind == PacketType::PullRequest;
        let (length, right) =
            if pull { (u.answer_length(), LocalRight::Write) } else { (u.data_length, LocalRight::Read) };
        domain.resolve(LKey(u.key), &region, at, length, right)
    };
    found.map_or(NOWHERE, Resolved::offset)
}

/// Returns the place where the data of a received packet goes, or [`NOWHERE`].
#[inline(always)]
pub(super) fn of_work<P: Platform>(p: &mut P, work: &Work, domain: ProtectionDomain) -> u64 {
    if work.place.lkey == LKey::OWN { work.place.memory_offset } else { of_buffer(p, work, domain) }
}

#[inline(never)]
fn of_buffer<P: Platform>(p: &mut P, work: &Work, domain: ProtectionDomain) -> u64 {
    let (key, at) = (work.place.lkey, work.place.memory_offset);
    let length = if work.kind == WorkKind::StoreValue { 8 } else { work.length };
    let region = p.region(key.0);
    domain.resolve(key, &region, at, length, LocalRight::Write).map_or(NOWHERE, Resolved::offset)
}
