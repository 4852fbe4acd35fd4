//! Early retransmission of the peer's requests by EACK (sections 6.6.6 and 9.1.4).

use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::ack::Eack;

use super::exhaustion::count_copies;
use super::requests::{Read, Write, attempts, burst, need_windows, timeout};
use crate::check::Check;
use crate::checks::early::one_copy;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Operation;
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "F-6.6.6-2",
        "an EACK makes the peer resend only the lost push, before its timeout",
        only_lost,
    ),
    Check::new("F-9.1.4-1", "a hole close below the highest received push is not resent early", close_hole),
    Check::new("F-9.1.4-2", "two EACKs in a round trip cause one early copy", once),
    Check::new("F-9.1.4-3", "the received bitmap decides about early copies", received_decides),
    Check::new("F-9.1.4-4", "OWN makes the peer resend the pushes that were not received", own),
    Check::new("F-9.2.3-8", "the request bitmap makes the peer resend the lost Pull Request", lost_pull),
    Check::new("D-37", "OWN of the request window makes the peer resend Pull Requests", own_of_requests),
    Check::new("D-36", "early copies do not count as attempts", not_counted),
];

/// How often the tester tries to get the requests quickly enough.
const TRIES: usize = 10;

/// Makes the peer submit six operations at once. Returns their packets in the order of their PSNs, and the time
/// until which a copy is early.
///
/// On a busy machine the operations may be submitted so slowly that the first times out too soon. Then the tester
/// tries again.
fn six(s: &mut Session<'_>, operation: Operation) -> Outcome<(Vec<Received>, Picoseconds)> {
    let operations = [operation; 6];
    need_windows(s, &operations)?;
    let timeout = timeout(s)?;
    for _ in 0..TRIES {
        let mut burst = burst(s, &operations)?;
        burst.expect(s, operations.len())?;
        let mut packets = burst.packets;
        // Everything before them was acknowledged.
        let (data, requests) = s.bases();
        let base = if operation == Write { data.0 } else { requests.0 };
        packets.sort_by_key(|packet| packet.word(4).wrapping_sub(base));
        let first = Picoseconds(packets.iter().map(|packet| packet.at.0).min().unwrap_or_default());
        if s.now().since(first).0 < timeout.0 / 2 {
            return Ok((packets, first.after(PicosecondSpan(timeout.0 * 3 / 4))));
        }
        s.settle()?;
    }
    Err(Stop::Skip("the peer submits too slowly to tell an early copy from one by timeout".to_owned()))
}

/// Returns which of the requests, as a bitmap, the peer sends again until then, and how many copies those are.
fn copies(s: &mut Session<'_>, requests: &[Received], until: Picoseconds) -> Outcome<(u64, usize)> {
    let (mut sent, mut count) = (0, 0);
    loop {
        let found =
            s.find_by(until, |received| requests.iter().any(|request| request.same_place(received)))?;
        let Some(received) = found else { return Ok((sent, count)) };
        let place = requests.iter().position(|request| request.same_place(&received));
        sent |= place.map_or(0, |place| 1 << place);
        count += 1;
    }
}

/// What an EACK says about six open requests.
#[derive(Clone, Copy, Default)]
struct Told {
    acknowledged: u64,
    received: u64,
    requests: u64,
    own_data: bool,
    own_request: bool,
}

/// Lets the peer send six requests and tells it `told`. Returns the early copies.
fn after_eack(s: &mut Session<'_>, operation: Operation, told: Told) -> Outcome<(u64, usize)> {
    let (requests, until) = six(s, operation)?;
    send(s, told)?;
    copies(s, &requests, until)
}

fn send(s: &mut Session<'_>, told: Told) -> Outcome {
    let eack = eack(s, told);
    s.send_eack(&eack, None)
}

fn eack(s: &Session<'_>, told: Told) -> Eack {
    let (data, _) = s.bases();
    let mut eack = s.eack_of(data, told.acknowledged, told.received);
    eack.request = told.requests;
    (eack.header.own_data, eack.header.own_request) = (told.own_data, told.own_request);
    eack
}

fn expect_copies(found: u64, expected: u64) -> Outcome {
    let text = |bits| format!("early copies of {bits:#08b}");
    judge(found == expected, text(expected), text(found))
}

fn only_lost(s: &mut Session<'_>) -> Outcome {
    let told = Told { acknowledged: 0b11_1110, received: 0b11_1110, ..Told::default() };
    expect_copies(after_eack(s, Write, told)?.0, 1)
}

fn close_hole(s: &mut Session<'_>) -> Outcome {
    let told = Told { acknowledged: 0b10_1110, received: 0b10_1110, ..Told::default() };
    expect_copies(after_eack(s, Write, told)?.0, 1)
}

fn once(s: &mut Session<'_>) -> Outcome {
    let told = Told { acknowledged: 0b11_1110, received: 0b11_1110, ..Told::default() };
    one_copy(s, |s, pair| {
        let (requests, until) = six(s, Write)?;
        let eack = eack(s, told);
        pair.send(s, &eack)?;
        copies(s, &requests, until)
    })
}

fn received_decides(s: &mut Session<'_>) -> Outcome {
    let told = Told { received: 0b11_1110, ..Told::default() };
    expect_copies(after_eack(s, Write, told)?.0, 1)
}

fn own(s: &mut Session<'_>) -> Outcome {
    let told = Told { received: 0b10, own_data: true, ..Told::default() };
    expect_copies(after_eack(s, Write, told)?.0, 0b11_1101)
}

fn lost_pull(s: &mut Session<'_>) -> Outcome {
    let told = Told { requests: 0b11_1110, ..Told::default() };
    expect_copies(after_eack(s, Read, told)?.0, 1)
}

fn own_of_requests(s: &mut Session<'_>) -> Outcome {
    let told = Told { requests: 0b10, own_request: true, ..Told::default() };
    expect_copies(after_eack(s, Read, told)?.0, 0b11_1101)
}

fn not_counted(s: &mut Session<'_>) -> Outcome {
    let attempts = attempts(s)?;
    let (pushes, until) = six(s, Write)?;
    let told = Told { acknowledged: 0b11_1110, received: 0b11_1110, ..Told::default() };
    send(s, told)?;
    let (sent, _) = copies(s, &pushes[..1], until)?;
    expect_copies(sent, 1)?;
    let found = count_copies(s, &pushes[0])?;
    judge(found == attempts, format!("{attempts} copies by timeout after the early one"), found)
}
