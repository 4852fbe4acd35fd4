//! A packet of the peer.

use transport_common::ids::Psn;
use transport_common::ulp::rdma::{Aeth, Bth};
use transport_common::units::Picoseconds;
use transport_common::wire::FalconHeader;
use transport_common::wire::ack::{Ack, AckHeader, Eack};
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::nack::Nack;
use transport_common::wire::psp::Psp;
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::Resync;
use transport_common::wire::udp::Udp;

use crate::flow::{Flow, Parts, link_length};
use crate::log::describe;

/// A frame of the peer to Falcon's UDP port.
#[derive(Clone, Debug)]
pub struct Received {
    /// Time when it arrived, by the tester's clock.
    pub at: Picoseconds,
    /// The bytes after the UDP header: PSP header and Falcon packet.
    pub datagram: Vec<u8>,
    /// The frame.
    pub frame: Vec<u8>,
    psp: Option<Psp>,
    header: Option<FalconHeader>,
    payload: Vec<u8>,
}

impl Received {
    /// Takes a frame that answers those of `flow`. A Falcon header is valid only in the same tunnel, or without one
    /// (F-7.1.2-1).
    pub fn new(at: Picoseconds, frame: Vec<u8>, flow: &Flow) -> Self {
        let start = link_length(&frame) + flow.ip_length() + Udp::LEN;
        let datagram = frame.get(start..).unwrap_or_default().to_vec();
        let back = flow.inner.map(|(own, peer)| (peer, own));
        let parts = Parts::of(&frame);
        let psp = parts.map(|parts| parts.psp);
        let parts = parts.filter(|parts| parts.inner == back);
        let header = parts.and_then(|parts| parts.header);
        let payload = parts.map(|parts| parts.payload().to_vec()).unwrap_or_default();
        Self { at, datagram, psp, header, payload, frame }
    }

    /// Returns the Falcon packet as bytes, whether it is valid or not. The frame has no padding, because a
    /// Falcon packet is longer than the shortest frame.
    pub fn falcon(&self) -> &[u8] {
        self.datagram.get(Psp::LEN..).unwrap_or_default()
    }

    /// Returns a byte of the Falcon packet, or 0 beyond its end.
    pub fn byte(&self, at: usize) -> u8 {
        self.falcon().get(at).copied().unwrap_or_default()
    }

    /// Returns a word of the Falcon packet by its number from 0, or 0 beyond its end.
    pub fn word(&self, number: usize) -> u32 {
        let bytes = self.falcon().get(number * 4..number * 4 + 4);
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
    }

    /// Returns the raw packet type: four bits at the place that all types share (F-7.2-7, F-7.2-8).
    pub fn raw_type(&self) -> u8 {
        self.byte(7) >> 1 & 0xf
    }

    /// Returns the PSP header if it is valid.
    pub fn psp(&self) -> Option<&Psp> {
        self.psp.as_ref()
    }

    /// Returns the Falcon header if it is valid.
    pub fn header(&self) -> Option<&FalconHeader> {
        self.header.as_ref()
    }

    /// Returns the bytes after the Falcon header.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the tag control information of the frame, if it has a tag.
    pub fn vlan(&self) -> Option<u16> {
        let is_tagged = link_length(&self.frame) == Ethernet::TAGGED_LEN;
        let tci = self.frame.get(14..16).filter(|_| is_tagged)?;
        tci.try_into().ok().map(u16::from_be_bytes)
    }

    /// Returns the syndrome of a Pull Data (D-84), if its payload has one.
    pub fn syndrome(&self) -> Option<u8> {
        self.payload.get(Bth::LEN).copied().filter(|_| self.payload.len() >= Bth::LEN + Aeth::LEN)
    }

    /// Returns the user data of a Pull Data.
    pub fn data(&self) -> &[u8] {
        self.payload.get(Bth::LEN + Aeth::LEN..).unwrap_or_default()
    }

    /// Returns the header that BACK and EACK have in common.
    pub fn ack(&self) -> Option<&AckHeader> {
        match self.header()? {
            FalconHeader::Ack(ack) => Some(ack.header()),
            _ => None,
        }
    }

    /// Returns the EACK.
    pub fn eack(&self) -> Option<&Eack> {
        match self.header()? {
            FalconHeader::Ack(Ack::Eack(eack)) => Some(eack),
            _ => None,
        }
    }

    /// Returns the NACK.
    pub fn nack(&self) -> Option<&Nack> {
        match self.header()? {
            FalconHeader::Nack(nack) => Some(nack),
            _ => None,
        }
    }

    /// Returns the Pull Data.
    pub fn pull_data(&self) -> Option<&PullData> {
        match self.header()? {
            FalconHeader::PullData(data) => Some(data),
            _ => None,
        }
    }

    /// Returns the Push Data.
    pub fn push_data(&self) -> Option<&PushData> {
        match self.header()? {
            FalconHeader::PushData(data) => Some(data),
            _ => None,
        }
    }

    /// Returns the Pull Request.
    pub fn pull_request(&self) -> Option<&PullRequest> {
        match self.header()? {
            FalconHeader::PullRequest(request) => Some(request),
            _ => None,
        }
    }

    /// Returns the Resync.
    pub fn resync(&self) -> Option<&Resync> {
        match self.header()? {
            FalconHeader::Resync(resync) => Some(resync),
            _ => None,
        }
    }

    /// Returns the PSN in the peer's data window, if the packet has one.
    pub fn data_psn(&self) -> Option<Psn> {
        match self.header()? {
            FalconHeader::PullData(p) => Some(p.base.psn),
            FalconHeader::PushData(p) => Some(p.base.psn),
            FalconHeader::Resync(p) if !p.in_request_window() => Some(p.base.psn),
            _ => None,
        }
    }

    /// Returns the PSN in the peer's request window, if the packet has one.
    pub fn request_psn(&self) -> Option<Psn> {
        match self.header()? {
            FalconHeader::PullRequest(p) => Some(p.base.psn),
            FalconHeader::Resync(p) if p.in_request_window() => Some(p.base.psn),
            _ => None,
        }
    }

    /// Returns whether two packets have the same PSN of the same window.
    pub fn same_place(&self, other: &Self) -> bool {
        match self.data_psn() {
            Some(psn) => other.data_psn() == Some(psn),
            None => self.request_psn().is_some() && other.request_psn() == self.request_psn(),
        }
    }

    /// Returns the bases of the peer's receive windows: data and request.
    pub fn bases(&self) -> Option<(Psn, Psn)> {
        Some(match self.header()? {
            FalconHeader::PullRequest(p) => (p.base.data_base_psn, p.base.request_base_psn),
            FalconHeader::PushData(p) => (p.base.data_base_psn, p.base.request_base_psn),
            FalconHeader::PullData(p) => (p.base.data_base_psn, p.base.request_base_psn),
            FalconHeader::Resync(p) => (p.base.data_base_psn, p.base.request_base_psn),
            FalconHeader::Ack(ack) => (ack.header().data_base_psn, ack.header().request_base_psn),
            FalconHeader::Nack(nack) => (nack.data_base_psn, nack.request_base_psn),
        })
    }

    /// Describes the packet in one line.
    pub fn text(&self) -> String {
        describe(&self.frame)
    }
}
