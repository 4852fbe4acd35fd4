//! The packets of a check, in the order of their times.

use std::fmt;

use serde::Serialize;
use transport_common::ids::Psn;
use transport_common::units::Picoseconds;
use transport_common::wire::FalconHeader;
use transport_common::wire::ack::{Ack, AckHeader};
use transport_common::wire::base::BaseHeader;

use crate::flow::Parts;

/// A frame that the tester sent or received.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Time of the tester's clock.
    pub at: Picoseconds,
    /// Whether the tester sent it.
    pub sent: bool,
    /// What the tester changed to make it invalid, if it did.
    pub note: Option<&'static str>,
    /// The frame.
    pub frame: Vec<u8>,
}

/// A packet in one line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Nanoseconds after the check began.
    pub nanoseconds: u64,
    /// Whether the tester sent it. The peer sent the others.
    pub sent_by_tester: bool,
    /// The packet's fields.
    pub packet: String,
}

impl Logged {
    /// Describes the packet, with its time after `start`.
    pub fn line(&self, start: Picoseconds) -> Line {
        let packet = describe(&self.frame);
        Line {
            nanoseconds: self.at.0.saturating_sub(start.0) / 1000,
            sent_by_tester: self.sent,
            packet: self.note.map_or(packet.clone(), |note| format!("{packet} ({note})")),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.sent_by_tester { "tester" } else { "peer" };
        let (micros, nanos) = (self.nanoseconds / 1000, self.nanoseconds % 1000);
        write!(f, "+{micros:>8}.{nanos:03} us  {who:<6}  {}", self.packet)
    }
}

/// Describes a frame in one line.
pub fn describe(frame: &[u8]) -> String {
    let Some(parts) = Parts::of(frame) else {
        return format!("no Falcon packet, {} bytes", frame.len());
    };
    match parts.header {
        Some(header) if parts.inner.is_some() => {
            format!("in a tunnel: {}", falcon(&header, parts.payload().len()))
        }
        Some(header) => falcon(&header, parts.payload().len()),
        None => format!("malformed Falcon packet, {} bytes", parts.falcon.len()),
    }
}

/// Describes a Falcon packet with `payload` bytes after its header.
fn falcon(header: &FalconHeader, payload: usize) -> String {
    match header {
        FalconHeader::PullRequest(p) => {
            format!("Pull Request {}, for {} B", base(&p.base), p.request_length)
        }
        FalconHeader::PushData(p) => format!("Push Data {}, {payload} B", base(&p.base)),
        FalconHeader::PullData(p) => format!("Pull Data {}, {payload} B", base(&p.base)),
        FalconHeader::Resync(p) => {
            format!("Resync {}, code {}, for {:?}", base(&p.base), p.code.0, p.packet_type)
        }
        FalconHeader::Ack(Ack::Back(header)) => format!("BACK {}", ack(header)),
        FalconHeader::Ack(Ack::Eack(eack)) => format!(
            "EACK {}, data ack {}, data received {}, request {:#x}",
            ack(&eack.header),
            bits(eack.data_ack),
            bits(eack.data_received),
            eack.request
        ),
        FalconHeader::Nack(nack) => format!(
            "NACK code {}, PSN {} of the {} window, ULP code {}, RNR {}, {}",
            nack.code.0,
            nack.psn.0,
            if nack.request_window { "request" } else { "data" },
            nack.ulp_code,
            nack.rnr_timeout_code,
            bases(nack.data_base_psn, nack.request_base_psn)
        ),
    }
}

fn base(base: &BaseHeader) -> String {
    let ack_request = if base.ack_request { ", AR" } else { "" };
    let acked = bases(base.data_base_psn, base.request_base_psn);
    format!("PSN {}, RSN {}{ack_request}, {acked}", base.psn.0, base.rsn.0)
}

fn ack(header: &AckHeader) -> String {
    let own = match (header.own_data, header.own_request) {
        (false, false) => "",
        (true, false) => ", OWN data",
        (false, true) => ", OWN request",
        (true, true) => ", OWN data and request",
    };
    format!("{}, T1 {}{own}", bases(header.data_base_psn, header.request_base_psn), header.t1.0)
}

fn bases(data: Psn, request: Psn) -> String {
    format!("DBPSN {}, RBPSN {}", data.0, request.0)
}

fn bits([low, high]: [u64; 2]) -> String {
    format!("{:#x}", u128::from(high) << 64 | u128::from(low))
}
