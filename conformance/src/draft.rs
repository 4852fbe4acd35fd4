//! A reliable packet that the tester may send, once or several times.

use transport_common::ids::{Psn, RKey, Rsn};
use transport_common::ulp::rdma::{Aeth, AtomicEth, Bth, Opcode, Reth};
use transport_common::wire::PacketType;
use transport_common::wire::base::BaseHeader;
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};

use crate::flow::encoded;

/// A packet with its PSN and RSN. Bases and IV are those of the moment when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Packet type: Pull Request, Push Data, Pull Data or Resync.
    pub kind: PacketType,
    /// PSN in the window of the type.
    pub psn: Psn,
    /// RSN.
    pub rsn: Rsn,
    /// AR.
    pub ack_request: bool,
    /// Request Length. A Pull Data and a Resync do not have it.
    pub request_length: u16,
    /// Code of a Resync, and the type of the packet that it replaces.
    pub resync: (ResyncCode, PacketType),
    /// The bytes after the Falcon header.
    pub payload: Vec<u8>,
}

impl Draft {
    /// Returns a packet with this payload after its Falcon header. It has AR.
    pub fn new(kind: PacketType, payload: Vec<u8>, request_length: usize) -> Self {
        Self {
            kind,
            psn: Psn(0),
            rsn: Rsn(0),
            ack_request: true,
            request_length: request_length as u16,
            resync: (ResyncCode::RETRANSMISSION_EXHAUSTED, kind),
            payload,
        }
    }

    /// Returns a WRITE.
    pub fn write(rkey: RKey, address: u64, data: &[u8], cid: u32) -> Self {
        let bth = encoded::<{ Bth::LEN }>(|out| Bth::new(Opcode::WRITE_ONLY, cid, 0).encode(out));
        let reth = Reth { address, rkey, length: data.len() as u32 };
        let reth = encoded::<{ Reth::LEN }>(|out| reth.encode(out));
        let payload = [&bth[..], &reth, data].concat();
        let length = payload.len();
        Self::new(PacketType::PushData, payload, length)
    }

    /// Returns a SEND.
    pub fn message(data: &[u8], cid: u32) -> Self {
        let bth = encoded::<{ Bth::LEN }>(|out| Bth::new(Opcode::SEND_ONLY, cid, 0).encode(out));
        let payload = [&bth[..], data].concat();
        let length = payload.len();
        Self::new(PacketType::PushData, payload, length)
    }

    /// Returns a READ.
    pub fn read(rkey: RKey, address: u64, length: u32, cid: u32) -> Self {
        let reth = encoded::<{ Reth::LEN }>(|out| Reth { address, rkey, length }.encode(out));
        Self::pull(Opcode::READ_REQUEST, &reth, length, cid)
    }

    /// Returns a fetch and add of 8 bytes.
    pub fn fetch_add(rkey: RKey, address: u64, add: u64, cid: u32) -> Self {
        let atomic = AtomicEth { address, rkey, swap_or_add: add, compare: 0 };
        let atomic = encoded::<{ AtomicEth::LEN }>(|out| atomic.encode(out));
        Self::pull(Opcode::FETCH_ADD, &atomic, 8, cid)
    }

    /// Returns a Pull Request with the header of an operation, to be answered with `length` bytes.
    pub fn pull(opcode: Opcode, operation: &[u8], length: u32, cid: u32) -> Self {
        let bth = encoded::<{ Bth::LEN }>(|out| Bth::new(opcode, cid, 0).encode(out));
        let payload = [&bth[..], operation].concat();
        Self::new(PacketType::PullRequest, payload, Bth::LEN + Aeth::LEN + length as usize)
    }

    /// Returns the answer to a READ: the Pull Data with the RSN of its Pull Request (F-7.4-2).
    pub fn read_answer(rsn: Rsn, data: &[u8], cid: u32) -> Self {
        let bth = encoded::<{ Bth::LEN }>(|out| Bth::new(Opcode::READ_RESPONSE_ONLY, cid, 0).encode(out));
        let aeth = encoded::<{ Aeth::LEN }>(|out| Aeth { syndrome: Aeth::SUCCESS, msn: 0 }.encode(out));
        let payload = [&bth[..], &aeth, data].concat();
        Self { rsn, ..Self::new(PacketType::PullData, payload, 0) }
    }

    /// Returns the Resync that replaces this packet (F-9.1.8-2).
    pub fn replaced(&self) -> Self {
        Self {
            kind: PacketType::Resync,
            request_length: 0,
            resync: (ResyncCode::RETRANSMISSION_EXHAUSTED, self.kind),
            payload: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the packet without AR.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { ack_request: false, ..self }
    }

    /// Whether the PSN is one of the request window (D-24).
    pub fn in_request_window(&self) -> bool {
        let original = if self.kind == PacketType::Resync { self.resync.1 } else { self.kind };
        original == PacketType::PullRequest
    }

    /// Returns the bytes of the packet. `base` has all fields that the draft does not have.
    pub fn bytes(&self, base: BaseHeader) -> Vec<u8> {
        let (psn, rsn, ack_request) = (self.psn, self.rsn, self.ack_request);
        let base = BaseHeader { psn, rsn, ack_request, packet_type: self.kind, ..base };
        let request_length = self.request_length;
        let header = match self.kind {
            PacketType::PullRequest => {
                let header = PullRequest { base, request_length };
                encoded::<{ PullRequest::LEN }>(|out| header.encode(out)).to_vec()
            }
            PacketType::Resync => {
                let (code, packet_type) = self.resync;
                let header = Resync { base, code, packet_type, vendor: 0 };
                encoded::<{ Resync::LEN }>(|out| header.encode(out)).to_vec()
            }
            PacketType::PullData => {
                let header = PullData { base };
                encoded::<{ PullData::LEN }>(|out| header.encode(out)).to_vec()
            }
            _ => {
                let header = PushData { base, request_length };
                encoded::<{ PushData::LEN }>(|out| header.encode(out)).to_vec()
            }
        };
        [header, self.payload.clone()].concat()
    }
}
