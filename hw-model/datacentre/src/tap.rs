//! Reads frames on the wire, without access to the state of either end.

use fabric_model::Span;
use transport_common::ids::Cid;
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::cursor::SliceCursor;
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::falcon::FalconHeader;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::Udp;

/// A Falcon packet.
#[derive(Debug)]
pub(super) struct Packet {
    /// The destination connection.
    pub(super) cid: Cid,
    /// Departure time on the sender's clock.
    pub(super) left: Picoseconds,
    /// The timestamps of an ACK or NACK. `None` for packets that carry transactions.
    pub(super) acknowledgement: Option<Stamps>,
}

/// The first three of the four timestamps (F-10.1-1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    t1: FalconTime,
    t2: FalconTime,
    t3: Picoseconds,
}

impl Stamps {
    /// Returns the fabric delay (F-10.1-3) for the fourth timestamp `t4`. T1 and T2 are in ticks of 131 ns, and
    /// they are truncated at different fractions of a tick. So the error is less than one tick in either
    /// direction.
    pub(super) fn fabric_delay(self, t4: Picoseconds) -> Span {
        const PICOSECONDS_PER_TICK: u64 = 1 << 17;
        // T1 and T2 are from the same clock here, so the forward delay is never negative.
        let forward = u64::from(self.t2.since(self.t1).0) * PICOSECONDS_PER_TICK;
        Span(forward + t4.0.saturating_sub(self.t3.0))
    }
}

/// Reads a frame that a card sent. Returns `None` if it is not a Falcon packet.
pub(super) fn read(frame: &[u8]) -> Option<Packet> {
    const ETHERTYPE_IPV6: u16 = 0x86dd;
    let cursor = &mut SliceCursor::new(frame);
    let ethernet = Ethernet::decode(cursor).ok()?;
    let payload = if ethernet.ethertype == ETHERTYPE_IPV6 {
        Ipv6::decode(cursor).ok()?.payload_length
    } else {
        Ipv4::decode(cursor).ok()?.total_length.checked_sub(Ipv4::LEN as u16)?
    };
    let udp = Udp::decode(cursor, payload).ok()?;
    let psp = Psp::decode(cursor).ok()?;
    let length = usize::from(udp.length).checked_sub(Udp::LEN + Psp::LEN)?;
    let header = FalconHeader::decode(cursor, length).ok()?;
    let stamps = match &header {
        FalconHeader::Ack(ack) => Some((ack.header().t1, ack.header().t2)),
        FalconHeader::Nack(nack) => Some((nack.t1, nack.t2)),
        _ => None,
    };
    let left = psp.iv;
    let acknowledgement = stamps.map(|(t1, t2)| Stamps { t1, t2, t3: left });
    Some(Packet { cid: header.dest_cid(), left, acknowledgement })
}
