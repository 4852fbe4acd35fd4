//! Every ULP through its boundary: what one end writes into a packet is what the other end parses.

use transport_common::memory::LKey;
use transport_common::ulp::block::{Block, COMMAND_LEN, STATUS_LEN};
use transport_common::ulp::rdma::Rdma;
use transport_common::ulp::{
    Answer, AnswerKind, Headers, Operation, OperationKind, Payload, Protocol, Ulp, UlpCode, Verb, WorkFlags,
    WorkRequest,
};
use transport_common::wire::{PacketType, SliceCursor};

/// Where the headers begin in the buffer, and its length.
const AT: usize = 5;
const BUFFER: usize = 64;
/// What the buffer holds before.
const UNTOUCHED: u8 = 0xa5;

const WORK: WorkRequest = WorkRequest {
    opcode: Verb::WRITE,
    flags: WorkFlags::empty(),
    reserved: 0,
    length: 1024,
    local_offset: 64,
    remote_address: 0x1122_3344_5566_7800,
    rkey: 0x0102_0304,
    immediate: 0x0a0b_0c0d,
    swap_or_add: 0x1111_2222_3333_4444,
    compare: 0x5555_6666_7777_8888,
    wr_id: 1,
    segment: 6,
    lkey: LKey(0),
};

/// Returns the headers of a packet and its data.
fn written(protocol: Protocol, payload: &Payload) -> Vec<u8> {
    let mut buffer = [UNTOUCHED; BUFFER];
    let end = AT + protocol.encode::<AT, BUFFER>(payload, &mut buffer) as usize;
    assert!(buffer[..AT].iter().chain(&buffer[end..]).all(|&byte| byte == UNTOUCHED));
    [&buffer[AT..end], &vec![7; payload.data_length as usize]].concat()
}

fn parsed<U: Ulp>(packet: &[u8], kind: PacketType, request_length: u32) -> Operation {
    let mut op = Operation::default();
    U::parse(&mut SliceCursor::new(packet), kind, packet.len(), request_length as u16, &mut op);
    op
}

/// Sends a request of `U`, which is `protocol`. Returns the operation that the target parses.
fn request<U: Ulp>(protocol: Protocol, work: &WorkRequest) -> Operation {
    let mut payload = Payload::default();
    let request_length = U::request_payload(work, 9, &mut payload);
    let packet = written(protocol, &payload);
    let headers = packet.len() - payload.data_length as usize;
    assert!(headers <= U::LONGEST_HEADERS);
    if work.opcode.is_pull() {
        return parsed::<U>(&packet, PacketType::PullRequest, request_length);
    }
    assert_eq!(request_length as usize, packet.len(), "F-7.5-2");
    let op = parsed::<U>(&packet, PacketType::PushData, request_length);
    assert_eq!(op.header as usize, headers);
    Operation { header: 0, ..op }
}

/// Answers a pull of `U`, which is `protocol`. Returns the operation that the initiator parses.
fn answer<U: Ulp>(protocol: Protocol, answer: &Answer, refused: Option<UlpCode>) -> Operation {
    let mut payload = Payload::default();
    U::response_payload(answer, 9, &mut payload);
    if let Some(code) = refused {
        protocol.refuse_answer(&mut payload, code);
    }
    let packet = written(protocol, &payload);
    parsed::<U>(&packet, PacketType::PullData, 0)
}

/// D-84, F-7.3-3, F-7.5-2: every request of RDMA, with and without immediate.
#[test]
fn requests_of_rdma_arrive_as_they_were_posted() {
    use OperationKind::{CompareSwap, FetchAdd, Read, Send, Write};
    for (opcode, kind, (first, last), takes_immediate) in [
        (Verb::WRITE, Write, (0, 0), true),
        (Verb::READ, Read, (0, 0), false),
        (Verb::COMPARE_SWAP, CompareSwap, (0, 0), false),
        (Verb::FETCH_ADD, FetchAdd, (0, 0), false),
        (Verb::SEND_ONLY, Send, (1, 1), true),
        (Verb::SEND_FIRST, Send, (1, 0), false),
        (Verb::SEND_MIDDLE, Send, (0, 0), false),
        (Verb::SEND_LAST, Send, (0, 1), true),
    ] {
        for flags in [WorkFlags::empty(), WorkFlags::IMMEDIATE] {
            let immediate = takes_immediate && !flags.is_empty();
            let atomic = matches!(kind, CompareSwap | FetchAdd);
            let names_memory = kind != Send;
            let expected = Operation {
                kind,
                first,
                last,
                has_immediate: immediate.into(),
                immediate: if immediate { WORK.immediate } else { 0 },
                length: if atomic { 8 } else { WORK.length },
                rkey: if names_memory { WORK.rkey } else { 0 },
                address: if names_memory { WORK.remote_address } else { 0 },
                swap_or_add: if atomic { WORK.swap_or_add } else { 0 },
                compare: if atomic { WORK.compare } else { 0 },
                segment: WORK.segment,
                ..Operation::default()
            };
            let found = request::<Rdma>(Protocol::RDMA, &WorkRequest { opcode, flags, ..WORK });
            assert_eq!(found, expected, "{opcode:?} {flags:?}");
        }
    }
}

/// D-45, D-84: every answer of RDMA. A refused one reports an error and has no data.
#[test]
fn answers_of_rdma_arrive_as_they_were_given() {
    let data = Answer { length: 40, kind: AnswerKind::Read, ..Answer::default() };
    let value = Answer { operand: 0x0102_0304_0506_0708, kind: AnswerKind::Atomic, ..Answer::default() };
    let error = Answer { code: UlpCode::INVALID_REQUEST, ..Answer::default() };
    let op = answer::<Rdma>(Protocol::RDMA, &data, None);
    assert_eq!((op.kind, op.length, op.header), (OperationKind::ReadResponse, 40, 16));
    let op = answer::<Rdma>(Protocol::RDMA, &value, None);
    assert_eq!((op.kind, op.swap_or_add), (OperationKind::AtomicResponse, value.operand));
    let op = answer::<Rdma>(Protocol::RDMA, &error, None);
    assert_eq!((op.kind, op.code), (OperationKind::ErrorResponse, UlpCode::INVALID_REQUEST));
    let op = answer::<Rdma>(Protocol::RDMA, &data, Some(UlpCode::ACCESS));
    assert_eq!((op.kind, op.code), (OperationKind::ErrorResponse, UlpCode::ACCESS));
}

/// F-7.3-3, F-7.5-2, D-45: the same for the block protocol. The headers have the lengths that `docs/block.md` gives.
#[test]
fn commands_of_the_block_protocol_arrive_as_they_were_posted() {
    for (opcode, kind) in [(Verb::WRITE, OperationKind::Write), (Verb::READ, OperationKind::Read)] {
        let found = request::<Block>(Protocol::BLOCK, &WorkRequest { opcode, ..WORK });
        let (address, rkey, length) = (WORK.remote_address, WORK.rkey, WORK.length);
        // A READ has a header as well: nothing but that.
        let expected = Operation { kind, address, rkey, length, ..Operation::default() };
        assert_eq!(Operation { header: 0, ..found }, expected);
    }
    let data = Answer { length: 512, kind: AnswerKind::Read, ..Answer::default() };
    let op = answer::<Block>(Protocol::BLOCK, &data, None);
    assert_eq!((op.kind, op.length, op.header as usize), (OperationKind::ReadResponse, 512, STATUS_LEN));
    let error = Answer { code: UlpCode::INVALID_REQUEST, ..Answer::default() };
    for (given, refused, code) in
        [(&error, None, UlpCode::INVALID_REQUEST), (&data, Some(UlpCode::ACCESS), UlpCode::ACCESS)]
    {
        let op = answer::<Block>(Protocol::BLOCK, given, refused);
        assert_eq!((op.kind, op.code), (OperationKind::ErrorResponse, code));
    }
    assert_eq!(Block::LONGEST_HEADERS, COMMAND_LEN);
}

/// A packet without a ULP part has no headers, whatever its payload held before.
#[test]
fn no_ulp_part_has_no_bytes() {
    for protocol in [Protocol::RDMA, Protocol::BLOCK] {
        let payload = Payload { headers: Headers::None, opcode: 1, status: 1, ..Payload::default() };
        assert_eq!(written(protocol, &payload), []);
    }
}
