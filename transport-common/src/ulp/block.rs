//! A small block protocol, for the protocol type of NVMe (F-7.2-6). Falcon leaves the headers of NVMe to another
//! specification; these are ours. `docs/block.md` describes them for users.
//!
//! A namespace is a registered region of the target, and its identifier is the region's R_Key. It consists of blocks of
//! 512 bytes. A command reads (Pull Request) or writes (Push Data) whole blocks. While a namespace is busy, each command
//! is answered with RNR: that of a write reaches the initiator, and a read waits at the target (F-6.4-2).
//!
//! ```text
//! command   | opcode (8) | 0 (8) | blocks - 1 (16) |      status   | opcode (8) | code (8) | 0 (16) |
//!           | namespace (32)                       |      the data of a read follow
//!           | first block (64)                     |
//!           the data of a write follow
//! ```
//!
//! Opcodes are those of the NVM command set: 1 is write, 2 is read. The code of a status is a [`UlpCode`].

use super::boundary::Ulp;
use super::operation::{Operation, OperationKind, UlpCode};
use super::payload::{Headers, Payload};
use super::request::{Verb, WorkFlags, WorkRequest};
use super::responder::{Receives, Responder};
use super::verdict::{Answer, AnswerKind, Place, PlaceFlags, PullVerdict, PushVerdict};
use crate::ids::Rsn;
use crate::memory::{AccessFlags, LKey, RKey, Region, RemoteRight};
use crate::wire::cursor::Cursor;
use crate::wire::field::{get_u8, get_u16, get_u32, get_u64, part_mut, put_u16, put_u32, put_u64};
use crate::wire::{PacketType, ProtocolType};

/// Bytes of a block.
pub const BLOCK_BYTES: u32 = 512;
const BLOCK_BITS: u32 = BLOCK_BYTES.trailing_zeros();
/// Bytes of a command.
pub const COMMAND_LEN: usize = 16;
/// Bytes of a status.
pub const STATUS_LEN: usize = 4;

/// Opcode of a write.
pub const WRITE: u8 = 1;
/// Opcode of a read.
pub const READ: u8 = 2;

const OPCODE: usize = 0;
const CODE: usize = 1;
const BLOCKS: usize = 2;
const NAMESPACE: usize = 4;
const FIRST: usize = 8;

/// A command as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// [`WRITE`] or [`READ`]; a target refuses others.
    pub opcode: u8,
    /// Number of blocks, 1 to 65536.
    pub blocks: u32,
    /// The namespace: an R_Key of the target.
    pub namespace: u32,
    /// First block.
    pub first: u64,
}

impl Command {
    /// Writes the command.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; COMMAND_LEN]) {
        out[OPCODE] = self.opcode;
        out[CODE] = 0;
        put_u16::<BLOCKS, COMMAND_LEN>(out, self.blocks.wrapping_sub(1) as u16);
        put_u32::<NAMESPACE, COMMAND_LEN>(out, self.namespace);
        put_u64::<FIRST, COMMAND_LEN>(out, self.first);
    }

    /// Reads a command. Returns `None` if the packet is too short or the reserved byte is not 0.
    #[inline(always)]
    pub fn decode<C: Cursor>(cursor: &mut C) -> Option<Self> {
        let bytes = cursor.take::<COMMAND_LEN>()?;
        if get_u8::<CODE, _>(&bytes) != 0 {
            return None;
        }
        Some(Self {
            opcode: get_u8::<OPCODE, _>(&bytes),
            blocks: get_u16::<BLOCKS, _>(&bytes) as u32 + 1,
            namespace: get_u32::<NAMESPACE, _>(&bytes),
            first: get_u64::<FIRST, _>(&bytes),
        })
    }
}

/// The block protocol.
pub struct Block;

impl Ulp for Block {
    const PROTOCOL: ProtocolType = ProtocolType::Nvme;
    const RECEIVES: bool = false;
    const LONGEST_HEADERS: usize = COMMAND_LEN;

    #[inline(always)]
    fn parse<C: Cursor>(
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    ) {
        out.begin();
        out.segment = 0;
        if matches!(kind, PacketType::PullData) {
            return parse_status(cursor, payload_length, out);
        }
        if payload_length < COMMAND_LEN {
            return;
        }
        let Some(command) = Command::decode(cursor) else { return };
        let (length, data) = (command.blocks << BLOCK_BITS, (payload_length - COMMAND_LEN) as u32);
        let push = matches!(kind, PacketType::PushData);
        let (opcode, wanted, whole) =
            if push { (WRITE, data, payload_length) } else { (READ, length, STATUS_LEN + length as usize) };
        let fits = wanted == length && (push || data == 0) && request_length as usize == whole;
        if command.opcode != opcode || !fits || command.first > u64::MAX >> BLOCK_BITS {
            return;
        }
        out.kind = if push { OperationKind::Write } else { OperationKind::Read };
        out.header = COMMAND_LEN as u16;
        out.length = length;
        out.rkey = command.namespace;
        out.address = command.first << BLOCK_BITS;
    }

    #[inline(always)]
    fn encode<const AT: usize, const N: usize>(u: &Payload, header: &mut [u8; N]) -> u32 {
        if matches!(u.headers, Headers::Status) {
            *part_mut::<AT, 0, STATUS_LEN, N>(header) = [READ, u.status, 0, 0];
            return STATUS_LEN as u32;
        }
        let command = Command {
            opcode: u.opcode,
            blocks: u.length >> BLOCK_BITS,
            namespace: u.rkey,
            first: u.address >> BLOCK_BITS,
        };
        command.encode(part_mut::<AT, 0, COMMAND_LEN, N>(header));
        COMMAND_LEN as u32
    }

    #[inline(always)]
    fn admit_push(
        responder: &mut Responder,
        op: &Operation,
        region: &Region,
        _: Rsn,
        _: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        if !matches!(op.kind, OperationKind::Write) {
            return PushVerdict::Invalid;
        }
        let right = RemoteRight::Write;
        let Ok(found) = responder.domain.resolve(RKey(op.rkey), region, op.address, op.length, right) else {
            return PushVerdict::Access;
        };
        if region.access.contains(AccessFlags::BUSY) {
            return PushVerdict::NotReady;
        }
        place.memory_offset = found.offset();
        place.lkey = LKey::OWN;
        place.message_length = op.length;
        place.flags = PlaceFlags::empty();
        PushVerdict::Take
    }

    #[inline(always)]
    fn admit_pull(responder: &Responder, op: &Operation, region: &Region) -> PullVerdict {
        if !matches!(op.kind, OperationKind::Read) || op.length > responder.max_answer as u32 {
            return PullVerdict::Answer(AnswerKind::Error, UlpCode::INVALID_REQUEST);
        }
        let right = RemoteRight::Read;
        if responder.domain.resolve(RKey(op.rkey), region, op.address, op.length, right).is_err() {
            return PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS);
        }
        if region.access.contains(AccessFlags::BUSY) {
            return PullVerdict::NotReady;
        }
        PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE)
    }

    #[inline(always)]
    fn is_valid(work: &WorkRequest, max_segment: u32) -> bool {
        const WHOLE: u64 = BLOCK_BYTES as u64 - 1;
        matches!(work.opcode, Verb::WRITE | Verb::READ)
            && !work.flags.contains(WorkFlags::IMMEDIATE)
            && work.length != 0
            && work.length <= max_segment
            && (work.length as u64 | work.remote_address) & WHOLE == 0
    }

    #[inline(always)]
    fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
        let read = matches!(work.opcode, Verb::READ);
        out.opcode = if read { READ } else { WRITE };
        out.headers = Headers::Access;
        out.dest_qp = dest_qp;
        out.rkey = work.rkey;
        out.address = work.remote_address;
        out.length = work.length;
        out.memory_offset = work.local_offset;
        out.key = work.lkey.0;
        if read {
            out.data_length = 0;
            return STATUS_LEN as u32 + work.length;
        }
        out.data_length = work.length;
        COMMAND_LEN as u32 + work.length
    }

    #[inline(always)]
    fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload) {
        let read = matches!(answer.kind, AnswerKind::Read);
        out.opcode = READ;
        out.headers = Headers::Status;
        out.dest_qp = dest_qp;
        out.rkey = answer.rkey;
        out.address = answer.operand;
        out.length = answer.length;
        out.status = answer.code.0;
        out.memory_offset = answer.operand;
        out.data_length = if read { answer.length } else { 0 };
        out.key = if read { answer.rkey } else { 0 };
    }

    #[inline(always)]
    fn refuse_answer(out: &mut Payload, code: UlpCode) {
        out.data_length = 0;
        out.status = code.0;
    }
}

#[inline(always)]
fn parse_status<C: Cursor>(cursor: &mut C, payload_length: usize, out: &mut Operation) {
    if payload_length < STATUS_LEN {
        return;
    }
    let Some(bytes) = cursor.take::<STATUS_LEN>() else { return };
    let data = (payload_length - STATUS_LEN) as u32;
    let code = get_u8::<CODE, _>(&bytes);
    if get_u8::<OPCODE, _>(&bytes) != READ || get_u16::<BLOCKS, _>(&bytes) != 0 {
        return;
    }
    if code == 0 {
        out.kind = OperationKind::ReadResponse;
        out.header = STATUS_LEN as u16;
        out.length = data;
    } else if data == 0 {
        out.kind = OperationKind::ErrorResponse;
        out.code = UlpCode(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Domain, ProtectionDomain};
    use crate::wire::cursor::SliceCursor;

    const COMMAND: Command =
        Command { opcode: READ, blocks: 3, namespace: 0x0102_0304, first: 0x0506_0708_090a_0b0c };

    fn bytes(command: &Command) -> [u8; COMMAND_LEN] {
        let mut bytes = [0xff; COMMAND_LEN];
        command.encode(&mut bytes);
        bytes
    }

    fn parse(bytes: &[u8], kind: PacketType, request_length: usize) -> Operation {
        let mut op = Operation { address: 7, ..Operation::default() };
        Block::parse(&mut SliceCursor::new(bytes), kind, bytes.len(), request_length as u16, &mut op);
        op
    }

    #[test]
    fn a_command_has_its_fields_in_network_order() {
        let expected = [2, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        assert_eq!(bytes(&COMMAND), expected);
        assert_eq!(Command::decode(&mut SliceCursor::new(&expected)), Some(COMMAND));
        let most = Command { blocks: 65_536, ..COMMAND };
        assert_eq!(Command::decode(&mut SliceCursor::new(&bytes(&most))), Some(most));
    }

    #[test]
    fn a_read_asks_for_whole_blocks() {
        let command = Command { first: 5, ..COMMAND };
        let op = parse(&bytes(&command), PacketType::PullRequest, STATUS_LEN + 1536);
        assert_eq!((op.kind, op.address, op.length, op.rkey), (OperationKind::Read, 2560, 1536, 0x0102_0304));
        for (bytes, request_length) in [
            (bytes(&command).to_vec(), 1536),
            (bytes(&Command { opcode: WRITE, ..command }).to_vec(), STATUS_LEN + 1536),
            (bytes(&Command { first: 1 << 55, ..command }).to_vec(), STATUS_LEN + 1536),
            (bytes(&command)[..15].to_vec(), STATUS_LEN + 1536),
            ([&bytes(&command)[..], &[0]].concat(), STATUS_LEN + 1536),
            ([2, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0].to_vec(), STATUS_LEN + 1536),
        ] {
            let op = parse(&bytes, PacketType::PullRequest, request_length);
            assert_eq!((op.kind, op.rkey), (OperationKind::Invalid, 0), "{bytes:?}");
        }
    }

    #[test]
    fn a_write_carries_its_blocks() {
        let command = Command { opcode: WRITE, blocks: 2, namespace: 9, first: 1 };
        let packet = [&bytes(&command)[..], &[7; 1024]].concat();
        let op = parse(&packet, PacketType::PushData, packet.len());
        assert_eq!((op.kind, op.address, op.length, op.header), (OperationKind::Write, 512, 1024, 16));
        assert_eq!(parse(&packet[..1039], PacketType::PushData, 1039).kind, OperationKind::Invalid);
        assert_eq!(parse(&packet, PacketType::PushData, 1024).kind, OperationKind::Invalid);
    }

    #[test]
    fn a_status_has_data_or_an_error() {
        let op = parse(&[&[READ, 0, 0, 0][..], &[1; 512]].concat(), PacketType::PullData, 0);
        assert_eq!((op.kind, op.length, op.header), (OperationKind::ReadResponse, 512, 4));
        let op = parse(&[READ, 2, 0, 0], PacketType::PullData, 0);
        assert_eq!((op.kind, op.code), (OperationKind::ErrorResponse, UlpCode::ACCESS));
        for bytes in [&[READ, 2, 0, 0, 1][..], &[WRITE, 0, 0, 0], &[READ, 0, 0, 1], &[READ, 0, 0]] {
            assert_eq!(parse(bytes, PacketType::PullData, 0).kind, OperationKind::Invalid, "{bytes:?}");
        }
    }

    const REGION: Region = Region {
        offset: 4096,
        length: 1024,
        key: 9,
        access: AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE),
        domain: ProtectionDomain::NODE,
        reserved: 0,
    };

    /// F-6.4-1: while a namespace is busy, it answers both kinds of requests with RNR; errors are answered at once.
    #[test]
    fn a_busy_namespace_is_not_ready() {
        let op = |kind, address| Operation { kind, rkey: 9, address, length: 512, ..Operation::default() };
        let responder = Responder::new(3000, false, Domain::default());
        let pull = |region: &Region, address| {
            Block::admit_pull(&responder, &op(OperationKind::Read, address), region)
        };
        let busy = Region { access: REGION.access | AccessFlags::BUSY, ..REGION };
        let access = PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS);
        assert_eq!(pull(&REGION, 512), PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE));
        assert_eq!(
            (pull(&busy, 512), pull(&busy, 1024), pull(&REGION, 1024)),
            (PullVerdict::NotReady, access, access)
        );
    }

    #[test]
    fn only_whole_blocks_are_sent() {
        let work =
            WorkRequest { opcode: Verb::WRITE, length: 1024, remote_address: 512, ..WorkRequest::default() };
        assert!(Block::is_valid(&work, 3072));
        for bad in [
            WorkRequest { length: 0, ..work },
            WorkRequest { length: 1023, ..work },
            WorkRequest { length: 3584, ..work },
            WorkRequest { remote_address: 513, ..work },
            WorkRequest { opcode: Verb::SEND_ONLY, ..work },
            WorkRequest { opcode: Verb::FETCH_ADD, ..work },
            WorkRequest { flags: WorkFlags::IMMEDIATE, ..work },
        ] {
            assert!(!Block::is_valid(&bad, 3072), "{bad:?}");
        }
    }
}
