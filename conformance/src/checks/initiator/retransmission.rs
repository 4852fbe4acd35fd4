//! Retransmission by timeout of the peer's requests (sections 6.4, 8.2, 9, 9.1.5 and 11).

use super::requests::{Read, Request, Write, burst, need_windows, request, true_copy};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Operation;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9-7", "a request that is not acknowledged is sent again and again", again_and_again),
    Check::new("F-9-6", "a copy has the payload of the original", same_payload),
    Check::new("F-11-4", "a copy of a push has CID, type, PSN and RSN of the original", same_push),
    Check::new("F-9.1.5-2", "a copy of a Pull Request has CID, type, PSN and RSN of the original", same_pull),
    Check::new("F-9.1.5-5", "the copies have equal distances", equal_gaps),
    Check::ordered("F-8.2.1.1-2", "lost pushes are sent again in RSN order", push_order),
    Check::ordered("F-9.1.5-3", "lost pushes and pulls are sent again in RSN order", mixed_order),
];

fn again_and_again(s: &mut Session<'_>) -> Outcome {
    let requests = [request(s, Write)?, request(s, Read)?];
    for _ in 0..2 {
        for request in &requests {
            true_copy(s, request)?;
        }
    }
    Ok(())
}

/// Returns a request and a copy of it.
fn with_copy(s: &mut Session<'_>, operation: Operation) -> Outcome<(Request, Received)> {
    let request = request(s, operation)?;
    let again = true_copy(s, &request)?;
    Ok((request, again))
}

fn same_payload(s: &mut Session<'_>) -> Outcome {
    for operation in [Write, Read] {
        let (request, again) = with_copy(s, operation)?;
        // With the length field and the reserved words before it.
        let [expected, found] = [&request.packet, &again].map(|packet| packet.falcon()[24..].to_vec());
        judge(found == expected, format!("{expected:x?}"), format!("{found:x?}"))?;
    }
    Ok(())
}

fn same_header(s: &mut Session<'_>, operation: Operation) -> Outcome {
    let (request, again) = with_copy(s, operation)?;
    // Without AR and the bases, which may differ (F-9-6).
    let [expected, found] = [&request.packet, &again]
        .map(|packet| [packet.word(0), packet.word(1) & !1, packet.word(4), packet.word(5)]);
    judge(found == expected, format!("words 0, 1, 4, 5: {expected:x?}"), format!("{found:x?}"))
}

fn same_push(s: &mut Session<'_>) -> Outcome {
    same_header(s, Write)
}

fn same_pull(s: &mut Session<'_>) -> Outcome {
    same_header(s, Read)
}

fn equal_gaps(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let mut times = vec![push.packet.at];
    for _ in 0..3 {
        times.push(true_copy(s, &push)?.at);
    }
    let gaps: Vec<_> = times.windows(2).map(|two| two[1].since(two[0]).as_nanos() / 1000).collect();
    // A machine that is busy may be late with one copy, and the next then seems early.
    let (least, most) = (gaps.iter().min().copied().unwrap_or(0), gaps.iter().max().copied().unwrap_or(0));
    judge(least * 2 > most, "gaps that differ by less than a factor of two", format!("{gaps:?} us"))
}

/// Makes the peer submit operations at once, and acknowledges nothing. The first copies have to come in RSN
/// order.
fn copies_in_order(s: &mut Session<'_>, operations: &[Operation]) -> Outcome {
    need_windows(s, operations)?;
    let mut burst = burst(s, operations)?;
    burst.expect(s, operations.len())?;
    let mut copies: Vec<Received> = Vec::new();
    let patience = s.patience.answer;
    while copies.len() < operations.len() {
        let first = &burst.packets;
        let again = s.expect_within(patience, "a copy of every request", |received| {
            first.iter().any(|packet| packet.same_place(received))
                && !copies.iter().any(|packet| packet.same_place(received))
        })?;
        copies.push(again);
    }
    let found: Vec<_> = copies.iter().map(|packet| packet.word(5)).collect();
    let first = burst.packets.iter().map(|packet| packet.word(5)).reduce(|a, b| {
        // D-53: a serial comparison.
        if (b.wrapping_sub(a) as i32) < 0 { b } else { a }
    });
    let first = first.unwrap_or_default();
    let expected: Vec<_> = (0..found.len() as u32).map(|n| first.wrapping_add(n)).collect();
    judge(found == expected, format!("copies with RSN {expected:?}"), format!("{found:?}"))
}

fn push_order(s: &mut Session<'_>) -> Outcome {
    copies_in_order(s, &[Write; 4])
}

fn mixed_order(s: &mut Session<'_>) -> Outcome {
    copies_in_order(s, &[Write, Read, Read, Write, Read, Write])
}
