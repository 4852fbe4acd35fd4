//! The ULP's part of packets without a connection: from work request to header, and from received bytes to operation.

use transport_common::ids::RKey;
use transport_common::memory::{Domain, LKey};
use transport_common::ulp::rdma::{
    Aeth, AtomicEth, Bth, Opcode, Rdma, RdmaError, Reth, decode_pull, decode_push, decode_response,
};
use transport_common::ulp::{
    AnswerVerdict, Headers, Operation, OperationKind, Payload, Ulp, UlpCode, Verb, WorkFlags, WorkRequest,
};
use transport_common::wire::{PacketType, SliceCursor};

const RETH: Reth = Reth { address: 0x1122_3344_5566_7788, rkey: RKey(0x99aa_bbcc), length: 100 };
const ATOMIC: AtomicEth =
    AtomicEth { address: 0x40, rkey: RKey(7), swap_or_add: 0x0102_0304_0506_0708, compare: 9 };
const SEGMENT: u32 = 5;
/// Bytes of the domain's memory.
const MEMORY: u64 = 1 << 20;
const DOMAIN: Domain = Domain::of_node(MEMORY);

fn bytes<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut out = [0; N];
    encode(&mut out);
    out.to_vec()
}

/// Returns a BTH followed by other parts.
fn packet(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let bth = bytes(|out| Bth::new(opcode, 1, SEGMENT).encode(out));
    [&bth[..], &parts.concat()].concat()
}

fn reth() -> Vec<u8> {
    bytes(|out| RETH.encode(out))
}

fn atomic() -> Vec<u8> {
    bytes(|out| ATOMIC.encode(out))
}

fn aeth(syndrome: u8) -> Vec<u8> {
    bytes(|out| Aeth { syndrome, msn: 0 }.encode(out))
}

fn parse(kind: PacketType, payload: &[u8], request_length: u16) -> Operation {
    // What was there before leaves no trace.
    let mut out =
        Operation { kind: OperationKind::Send, first: 1, last: 1, has_immediate: 1, ..Operation::default() };
    Rdma::parse(&mut SliceCursor::new(payload), kind, payload.len(), request_length, &mut out);
    out
}

fn invalid() -> Operation {
    Operation { kind: OperationKind::Invalid, segment: SEGMENT, ..Operation::default() }
}

/// D-84: every push, with its header, its data and its immediate.
#[test]
fn pushes_are_parsed() {
    let push = |payload: &[u8]| parse(PacketType::PushData, payload, 0);
    let write = Operation {
        kind: OperationKind::Write,
        header: 28,
        length: 100,
        rkey: RETH.rkey.0,
        address: RETH.address,
        segment: SEGMENT,
        ..Operation::default()
    };
    assert_eq!(push(&packet(Opcode::WRITE_ONLY, &[&reth(), &[1; 100]])), write);
    let immediate = Operation { has_immediate: 1, immediate: 0x0a0b_0c0d, ..write };
    let payload = packet(Opcode::WRITE_ONLY_IMMEDIATE, &[&reth(), &[10, 11, 12, 13], &[1; 100]]);
    assert_eq!(push(&payload), Operation { header: 32, ..immediate });
    let send = |first, last| Operation {
        kind: OperationKind::Send,
        first,
        last,
        header: 12,
        length: 6,
        segment: SEGMENT,
        ..Operation::default()
    };
    for (opcode, first, last) in [
        (Opcode::SEND_FIRST, 1, 0),
        (Opcode::SEND_MIDDLE, 0, 0),
        (Opcode::SEND_LAST, 0, 1),
        (Opcode::SEND_ONLY, 1, 1),
    ] {
        assert_eq!(push(&packet(opcode, &[b"abcdef"])), send(first, last), "{opcode:?}");
    }
    for (opcode, first) in [(Opcode::SEND_LAST_IMMEDIATE, 0), (Opcode::SEND_ONLY_IMMEDIATE, 1)] {
        let expected = Operation { header: 16, has_immediate: 1, immediate: 1, ..send(first, 1) };
        assert_eq!(push(&packet(opcode, &[&[0, 0, 0, 1], b"abcdef"])), expected, "{opcode:?}");
    }
    assert_eq!(push(&packet(Opcode::READ_REQUEST, &[&reth()])), invalid());
    assert_eq!(push(&[0; 11]).kind, OperationKind::Invalid);
}

/// D-84: every pull. The Request Length is that of the response.
#[test]
fn pulls_are_parsed() {
    let pull = |payload: &[u8], length| parse(PacketType::PullRequest, payload, length);
    let read = Operation {
        kind: OperationKind::Read,
        length: 100,
        rkey: RETH.rkey.0,
        address: RETH.address,
        segment: SEGMENT,
        ..Operation::default()
    };
    assert_eq!(pull(&packet(Opcode::READ_REQUEST, &[&reth()]), 116), read);
    assert_eq!(pull(&packet(Opcode::READ_REQUEST, &[&reth()]), 115), invalid());
    let change = |kind| Operation {
        kind,
        length: 8,
        rkey: ATOMIC.rkey.0,
        address: ATOMIC.address,
        swap_or_add: ATOMIC.swap_or_add,
        compare: ATOMIC.compare,
        segment: SEGMENT,
        ..Operation::default()
    };
    assert_eq!(pull(&packet(Opcode::COMPARE_SWAP, &[&atomic()]), 24), change(OperationKind::CompareSwap));
    assert_eq!(pull(&packet(Opcode::FETCH_ADD, &[&atomic()]), 24), change(OperationKind::FetchAdd));
}

/// D-45, D-84: every answer to a pull.
#[test]
fn answers_are_parsed() {
    let answer = |payload: &[u8]| parse(PacketType::PullData, payload, 0);
    let payload = packet(Opcode::READ_RESPONSE_ONLY, &[&aeth(0), &[1; 40]]);
    let read = Operation {
        kind: OperationKind::ReadResponse,
        header: 16,
        length: 40,
        segment: SEGMENT,
        ..Operation::default()
    };
    assert_eq!(answer(&payload), read);
    let payload = packet(Opcode::ATOMIC_ACKNOWLEDGE, &[&aeth(0), &[0, 0, 0, 0, 0, 0, 1, 2]]);
    let expected = Operation {
        kind: OperationKind::AtomicResponse,
        header: 24,
        length: 8,
        swap_or_add: 0x0102,
        segment: SEGMENT,
        ..Operation::default()
    };
    assert_eq!(answer(&payload), expected);
    let payload = packet(Opcode::READ_RESPONSE_ONLY, &[&aeth(Aeth::ERROR_BASE + UlpCode::ACCESS.0)]);
    let failed = answer(&payload);
    assert_eq!((failed.kind, failed.code, failed.length), (OperationKind::ErrorResponse, UlpCode::ACCESS, 0));
}

/// D-84: a payload that is too short is truncated, one that is too long has a wrong length, at each boundary.
#[test]
fn lengths_are_exact() {
    let short = Some(RdmaError::Truncated);
    let long = Some(RdmaError::Length);
    for (opcode, part, request_length) in [
        (Opcode::READ_REQUEST, reth(), 116),
        (Opcode::COMPARE_SWAP, atomic(), 24),
        (Opcode::FETCH_ADD, atomic(), 24),
    ] {
        let whole = packet(opcode, &[&part, &[0]]);
        let length = whole.len() - 1;
        for (length, expected) in [(length - 1, short), (length, None), (length + 1, long)] {
            let pull = decode_pull(&mut SliceCursor::new(&whole[..length]), length, request_length);
            assert_eq!(pull.err(), expected, "{opcode:?} with {length} bytes");
        }
    }
    for (opcode, part, excess) in [
        (Opcode::READ_RESPONSE_ONLY, aeth(0), None),
        (Opcode::ATOMIC_ACKNOWLEDGE, [aeth(0), vec![0; 8]].concat(), long),
        (Opcode::READ_RESPONSE_ONLY, aeth(Aeth::ERROR_BASE + 1), long),
    ] {
        let whole = packet(opcode, &[&part, &[0]]);
        let length = whole.len() - 1;
        for (length, expected) in [(length - 1, short), (length, None), (length + 1, excess)] {
            let answer = decode_response(&mut SliceCursor::new(&whole[..length]), length);
            assert_eq!(answer.err(), expected, "{opcode:?} with {length} bytes");
        }
    }
    for (opcode, part) in [
        (Opcode::WRITE_ONLY_IMMEDIATE, [reth(), vec![0; 4]].concat()),
        (Opcode::SEND_ONLY_IMMEDIATE, vec![0; 4]),
        (Opcode::SEND_ONLY, vec![]),
    ] {
        let whole = packet(opcode, &[&part]);
        let cut = &whole[..whole.len() - 1];
        assert_eq!(decode_push(&mut SliceCursor::new(cut), cut.len()).err(), short, "{opcode:?}");
    }
}

fn work(opcode: Verb) -> WorkRequest {
    WorkRequest {
        opcode,
        length: 8,
        local_offset: 64,
        remote_address: 0x80,
        rkey: 3,
        segment: SEGMENT,
        swap_or_add: 1,
        compare: 2,
        immediate: 0x0a0b,
        ..WorkRequest::default()
    }
}

/// F-7.3-3, F-7.5-2, D-84: opcode, headers and Request Length of every work request, with and without immediate.
#[test]
fn work_requests_become_headers() {
    for (verb, plain, with_immediate, headers, length, data) in [
        (Verb::WRITE, Opcode::WRITE_ONLY, Some(Opcode::WRITE_ONLY_IMMEDIATE), Headers::Access, 28 + 8, 8),
        (Verb::READ, Opcode::READ_REQUEST, None, Headers::Access, 16 + 8, 0),
        (Verb::COMPARE_SWAP, Opcode::COMPARE_SWAP, None, Headers::Atomic, 24, 0),
        (Verb::FETCH_ADD, Opcode::FETCH_ADD, None, Headers::Atomic, 24, 0),
        (Verb::SEND_FIRST, Opcode::SEND_FIRST, None, Headers::Message, 12 + 8, 8),
        (Verb::SEND_MIDDLE, Opcode::SEND_MIDDLE, None, Headers::Message, 12 + 8, 8),
        (Verb::SEND_LAST, Opcode::SEND_LAST, Some(Opcode::SEND_LAST_IMMEDIATE), Headers::Message, 12 + 8, 8),
        (Verb::SEND_ONLY, Opcode::SEND_ONLY, Some(Opcode::SEND_ONLY_IMMEDIATE), Headers::Message, 12 + 8, 8),
    ] {
        for flags in [WorkFlags::empty(), WorkFlags::IMMEDIATE] {
            let immediate = with_immediate.filter(|_| !flags.is_empty());
            let mut out = Payload::default();
            let written = Rdma::request_payload(&WorkRequest { flags, ..work(verb) }, 9, &mut out);
            assert_eq!(written, length + if immediate.is_some() { 4 } else { 0 }, "{verb:?}");
            let expected = Payload {
                opcode: immediate.unwrap_or(plain).0,
                headers,
                has_immediate: immediate.is_some().into(),
                segment: SEGMENT,
                dest_qp: 9,
                rkey: 3,
                address: 0x80,
                swap_or_add: 1,
                compare: 2,
                length: 8,
                immediate: 0x0a0b,
                memory_offset: 64,
                data_length: data,
                ..Payload::default()
            };
            assert_eq!(out, expected, "{verb:?}");
        }
    }
}

/// A work request is untrusted: its opcode, its length and its place are checked.
#[test]
fn work_requests_are_checked() {
    let valid = |work: &WorkRequest| Rdma::is_valid(work, 1000) && work.is_in(&DOMAIN);
    for opcode in 0..=255 {
        let known = (Verb::WRITE.0..=Verb::SEND_LAST.0).contains(&opcode);
        assert_eq!(valid(&work(Verb(opcode))), known, "{opcode}");
    }
    let write = work(Verb::WRITE);
    assert!(valid(&WorkRequest { length: 1000, ..write }) && !valid(&WorkRequest { length: 1001, ..write }));
    let end = |length: u64| WorkRequest { local_offset: MEMORY - length, ..write };
    assert!(valid(&end(8)) && !valid(&end(7)));
    assert!(!valid(&WorkRequest { local_offset: u64::MAX - 3, ..write }));
    for verb in [Verb::COMPARE_SWAP, Verb::FETCH_ADD] {
        // The length of an atomic is 8, whatever the application wrote.
        assert!(valid(&WorkRequest { length: 5000, ..work(verb) }));
        assert!(!valid(&WorkRequest { remote_address: 0x84, ..work(verb) }), "not aligned");
        assert!(!valid(&WorkRequest { local_offset: MEMORY - 7, ..work(verb) }));
    }
    // The region of a key is not known yet.
    assert!(valid(&WorkRequest { local_offset: u64::MAX, lkey: LKey(9), ..write }));
    assert!(valid(&WorkRequest { remote_address: 0x81, ..write }));
}

/// F-8.4.3.2-1..3, D-48: Pull Data fits the request, and lies in this node's memory.
#[test]
fn answers_fit_their_requests() {
    let answer = |kind, length| Operation { kind, length, ..Operation::default() };
    let check = |kind, length, verb, work: &WorkRequest| {
        AnswerVerdict::of(&answer(kind, length), verb, 8, work, &DOMAIN)
    };
    let (read, swap) = (work(Verb::READ), work(Verb::COMPARE_SWAP));
    let data = OperationKind::ReadResponse;
    let value = OperationKind::AtomicResponse;
    assert_eq!(check(data, 8, Verb::READ, &read), AnswerVerdict::Data);
    assert_eq!(check(data, 7, Verb::READ, &read), AnswerVerdict::Data);
    assert_eq!(check(data, 9, Verb::READ, &read), AnswerVerdict::Misfit, "longer than asked for");
    assert_eq!(check(data, 8, Verb::COMPARE_SWAP, &swap), AnswerVerdict::Misfit);
    assert_eq!(check(value, 8, Verb::READ, &read), AnswerVerdict::Misfit);
    for verb in [Verb::COMPARE_SWAP, Verb::FETCH_ADD] {
        assert_eq!(check(value, 8, verb, &swap), AnswerVerdict::Value);
    }
    assert_eq!(check(OperationKind::ErrorResponse, 0, Verb::READ, &read), AnswerVerdict::Error);
    assert_eq!(check(OperationKind::Invalid, 8, Verb::READ, &read), AnswerVerdict::Misfit);
    for (offset, fits) in [(MEMORY - 8, true), (MEMORY - 7, false), (u64::MAX - 7, false)] {
        let at = |verb| WorkRequest { local_offset: offset, ..work(verb) };
        let (wanted_data, wanted_value) = if fits {
            (AnswerVerdict::Data, AnswerVerdict::Value)
        } else {
            (AnswerVerdict::Denied, AnswerVerdict::Denied)
        };
        assert_eq!(check(data, 8, Verb::READ, &at(Verb::READ)), wanted_data, "{offset}");
        assert_eq!(check(value, 8, Verb::FETCH_ADD, &at(Verb::FETCH_ADD)), wanted_value, "{offset}");
        assert_eq!(check(data, 9, Verb::READ, &at(Verb::READ)), AnswerVerdict::Misfit, "{offset}");
        let keyed = WorkRequest { lkey: LKey(9), ..at(Verb::READ) };
        assert_eq!(check(data, 8, Verb::READ, &keyed), AnswerVerdict::Data, "its region is judged later");
    }
}
