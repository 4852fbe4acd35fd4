//! PSNs, RSNs and AR of the peer's requests (sections 6.1, 7.2, 8.4.1, 9.1.1 and 9.1.3).

use super::requests::{Read, Write, burst, copy, need_windows, request};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Operation;
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "F-9.1.1-2",
        "the first packets of both windows have the PSNs of the configuration",
        first_psns,
    ),
    Check::new(
        "F-8.4.1-2",
        "the first transactions have the RSN of the configuration, and then the next",
        first_rsns,
    ),
    Check::new("F-6.1.1-1", "the RSN grows by one from transaction to transaction", rsns),
    Check::new("F-6.1.2-2", "the PSN of Push Data grows by one from packet to packet", push_psns),
    Check::new("F-7.2-12", "Pull Requests are numbered in a window of their own", two_windows),
    Check::new("F-8.2.1.2-3", "Pull Requests and Pull Data are numbered apart", apart_from_answers),
    Check::new("F-9.1.3-1", "pushes of a burst leave in the order of their PSNs, without a gap", psn_order),
    Check::ordered("F-9.1.3-2", "pushes and pulls of a burst leave in RSN order", rsn_order),
    Check::new("F-9.1.6-3", "a copy carries the latest bases, not those of the original", latest_bases),
    Check::new("F-9.1.3.1-2", "at least as many requests have AR as is configured", ack_requests),
];

fn expect(what: &str, expected: &[u32], found: &[u32]) -> Outcome {
    judge(found == expected, format!("{what} {expected:?}"), format!("{found:?}"))
}

/// Makes the peer submit these operations, and acknowledges the packet of each. Returns the packets.
fn series(s: &mut Session<'_>, operations: &[Operation]) -> Outcome<Vec<Received>> {
    let mut packets = Vec::new();
    for operation in operations {
        packets.push(request(s, *operation)?.packet);
        s.acknowledge()?;
    }
    Ok(packets)
}

fn words(packets: &[Received], number: usize) -> Vec<u32> {
    packets.iter().map(|packet| packet.word(number)).collect()
}

fn first_psns(s: &mut Session<'_>) -> Outcome {
    // The first check of a connection sees the first packets. What the peer sent before counts as well.
    let expected = [s.seen_data().0, s.seen_requests().0];
    let packets = series(s, &[Write, Read])?;
    expect("the data and request PSN", &expected, &words(&packets, 4))
}

fn first_rsns(s: &mut Session<'_>) -> Outcome {
    let next = s.seen_rsn();
    let packets = series(s, &[Read, Write])?;
    expect("the RSNs", &[next.0, next.add(1).0], &words(&packets, 5))
}

fn rsns(s: &mut Session<'_>) -> Outcome {
    let packets = series(s, &[Write, Read, Read, Write])?;
    let first = packets[0].word(5);
    let expected: Vec<_> = (0..4).map(|n| first.wrapping_add(n)).collect();
    expect("the RSNs", &expected, &words(&packets, 5))
}

fn push_psns(s: &mut Session<'_>) -> Outcome {
    let packets = series(s, &[Write; 4])?;
    let first = packets[0].word(4);
    let expected: Vec<_> = (0..4).map(|n| first.wrapping_add(n)).collect();
    expect("the PSNs", &expected, &words(&packets, 4))
}

fn two_windows(s: &mut Session<'_>) -> Outcome {
    let packets = series(s, &[Read, Write, Write, Read])?;
    let [read, write] = [packets[0].word(4), packets[1].word(4)];
    let expected = [read, write, write.wrapping_add(1), read.wrapping_add(1)];
    expect("the PSNs of READ, WRITE, WRITE, READ", &expected, &words(&packets, 4))
}

fn apart_from_answers(s: &mut Session<'_>) -> Outcome {
    let mut found = Vec::new();
    for _ in 0..2 {
        found.push(request(s, Read)?.packet.word(4));
        s.acknowledge()?;
        s.answer_requests()?;
        let read = s.read(0, 8);
        s.send(&read)?;
        found.push(s.answer(&read)?.word(4));
        s.acknowledge()?;
    }
    let expected = [found[0], found[1], found[0].wrapping_add(1), found[1].wrapping_add(1)];
    expect("the PSNs of Pull Request, Pull Data, Pull Request, Pull Data", &expected, &found)
}

/// Makes the peer submit operations at once. Returns their packets in the order in which they arrive.
fn at_once(s: &mut Session<'_>, operations: &[Operation]) -> Outcome<Vec<Received>> {
    need_windows(s, operations)?;
    let mut burst = burst(s, operations)?;
    burst.expect(s, operations.len())?;
    Ok(burst.packets)
}

fn psn_order(s: &mut Session<'_>) -> Outcome {
    let first = s.seen_data().0;
    let packets = at_once(s, &[Write; 4])?;
    let expected: Vec<_> = (0..4).map(|n| first.wrapping_add(n)).collect();
    expect("the PSNs", &expected, &words(&packets, 4))
}

fn rsn_order(s: &mut Session<'_>) -> Outcome {
    let first = s.seen_rsn().0;
    let packets = at_once(s, &[Write, Read, Write, Read, Read, Write])?;
    let expected: Vec<_> = (0..6).map(|n| first.wrapping_add(n)).collect();
    expect("the RSNs", &expected, &words(&packets, 5))
}

fn latest_bases(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    let [data, request] = [s.next().data_psn.0, s.next().request_psn.0];
    // A copy may have left before the WRITE arrived.
    s.forget()?;
    let again = copy(s, &push)?;
    expect("words 2 and 3", &[data, request], &[again.word(2), again.word(3)])
}

fn ack_requests(s: &mut Session<'_>) -> Outcome {
    const PACKETS: u32 = 20;
    let settings = s.subject.settings;
    let (Some(fcwnd), Some(threshold), Some(percent)) =
        (settings.fcwnd, settings.ack_request_threshold, settings.ack_request_percent)
    else {
        return Err(Stop::Skip("give --fcwnd, --ar-threshold and --ar-percent of the peer".to_owned()));
    };
    let packets = series(s, &[Write; PACKETS as usize])?;
    let found = packets.iter().filter(|packet| packet.word(1) & 1 == 1).count() as u32;
    // D-81: up to one packet. A peer may ask more often (F-9.1.3.1-1).
    let least = if fcwnd <= threshold { PACKETS } else { (PACKETS * percent / 100).saturating_sub(1) };
    judge(found >= least, format!("AR in {least} or more of {PACKETS} packets"), format!("AR in {found}"))
}
