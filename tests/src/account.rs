//! Accounts for every frame that a fabric carried, by the counters of the node that received it.

use std::collections::BTreeMap;

use fabric_model::{Corruption, LinkStats, Port};
use tiercel::Connection;
use tiercel_node::Node;
use transport_common::counters::Counter;
use transport_common::wire::udp::IP_PROTOCOL_UDP;

use crate::checks::{counters, info, settle, wait_until};
use crate::nodes::TwoNodes;

/// Counters of frames that the parser drops or passes on.
const PARSER: [Counter; 15] = [
    Counter::DropEthernetTruncated,
    Counter::DropIpv4Header,
    Counter::DropIpv4Checksum,
    Counter::DropIpOptions,
    Counter::DropFragment,
    Counter::DropIpv6Header,
    Counter::DropUdpLength,
    Counter::DropUdpChecksum,
    Counter::DropPspHeader,
    Counter::DropInnerHeader,
    Counter::DropFalconLength,
    Counter::DropFalconVersion,
    Counter::DropFalconType,
    Counter::DropProtocol,
    Counter::PassPort,
];
/// Counters that must stay 0, whatever a fabric does to the frames of correct nodes.
const NEVER: [Counter; 12] = [
    Counter::DropTunnel,
    Counter::DropUnknownCid,
    Counter::DropNotAlive,
    Counter::DropFunction,
    Counter::DropSpi,
    Counter::DropReplay,
    Counter::DropRsn,
    Counter::DropPullDataUnknown,
    Counter::AckInvalid,
    Counter::PlatformFault,
    Counter::BadWorkRequest,
    Counter::LocalProtection,
];

/// Waits until both nodes are idle and no frame is in flight.
///
/// # Panics
/// If this does not happen, or if no fabric connects the nodes.
pub fn stand_still(nodes: &TwoNodes) {
    let fabric = nodes.pair.fabric().expect("the nodes are joined by a fabric");
    settle(&nodes.a);
    settle(&nodes.b);
    let look = || (fabric.stats(), counters(&nodes.a), counters(&nodes.b));
    let (mut before, mut quiet) = (look(), 0);
    wait_until("the last frame arrives", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = look();
        let links = || now.0.fabric.towards.iter().chain(&now.0.fabric.trunks);
        let still = now == before && links().all(|link| link.in_flight == 0);
        before = now;
        // Twice, because the fabric's thread may have waited for a CPU in one of these pauses.
        quiet = if still { quiet + 1 } else { 0 };
        quiet == 2
    });
    settle(&nodes.a);
    settle(&nodes.b);
}

/// Accounts for every frame towards one of the nodes (port 0 is A) since they came up. Each corrupted frame
/// must be in the counter for this corruption, each duplicated frame among the duplicates, and nothing else may
/// be dropped. The nodes must [`stand_still`], and have one connection. Only its frames may be impaired
/// (`scope=udp`).
///
/// # Panics
/// If the counts do not agree.
pub fn account(nodes: &TwoNodes, towards: Port) -> LinkStats {
    let fabric = nodes.pair.fabric().expect("the nodes are joined by a fabric");
    let (receiver, sender) = match towards {
        Port(0) => ((&nodes.a, &nodes.at_a), (&nodes.b, &nodes.at_b)),
        _ => ((&nodes.b, &nodes.at_b), (&nodes.a, &nodes.at_a)),
    };
    let stats = fabric.stats();
    assert_eq!(
        (stats.overrun, stats.undeliverable),
        (0, 0),
        "the machine lost frames: nothing to account for"
    );
    let link = stats.fabric.towards[usize::from(towards.0)].clone();
    assert_eq!(link.link_down_dropped, 0, "also drops frames that are not impaired");
    let corruptions = fabric.corruptions(towards);
    assert_eq!(corruptions.len() as u64, link.corrupted, "the log is complete");
    frames(receiver.0, sender.0, &link, &corruptions);
    packets(receiver, sender.1, &link);
    link
}

/// Compares the frames sent, the frames that the fabric delivered, and the results of the parser.
fn frames(receiver: &Node, sender: &Node, link: &LinkStats, corruptions: &[Corruption]) {
    let (here, there) = (counters(receiver), counters(sender));
    let of = |counter: Counter| here[counter.name()];
    let sent = there[Counter::SentByEngine.name()] + there[Counter::SentInReceivedFrame.name()];
    assert_eq!(link.offered - link.spared, sent, "the fabric got what the node sent: {link:?}");

    let mut expected = BTreeMap::<&str, u64>::new();
    let mut harmless = 0;
    for corruption in corruptions {
        match fate(corruption) {
            Some(counter) => *expected.entry(counter.name()).or_default() += 1,
            None => harmless += 1,
        }
    }
    for counter in PARSER {
        let foretold = expected.get(counter.name()).copied().unwrap_or(0);
        assert_eq!(of(counter), foretold, "{} of {corruptions:?}", counter.name());
    }
    let arrived = link.offered - link.spared + link.duplicated - link.dropped();
    let refused: u64 = expected.values().sum();
    assert_eq!(of(Counter::Received), arrived - refused, "{refused} refused, {harmless} harmless: {link:?}");
}

/// Checks packet delivery for the frames that passed the parser: every packet once, and the others as duplicates.
fn packets((node, connection): (&Node, &Connection), peer: &Connection, link: &LinkStats) {
    let here = counters(node);
    let of = |counter: Counter| here[counter.name()];
    for counter in NEVER {
        assert_eq!(of(counter), 0, "{}", counter.name());
    }
    let (mine, theirs) = (info(connection).statistics, info(peer).statistics);
    assert_eq!(theirs.resyncs_sent, 0, "a Resync was sent");
    let dropped = mine.duplicates + mine.out_of_window + of(Counter::DropResources);
    assert_eq!(
        mine.packets_received,
        theirs.packets_sent + dropped,
        "every packet once: {mine:?}, {theirs:?}"
    );
    // A duplicate of a push that waits for its ULP is handed over again instead (D-43).
    let counted = of(Counter::DropDuplicate) + of(Counter::DropOldDuplicate);
    assert!(counted <= mine.duplicates && mine.duplicates <= counted + mine.nacks_sent, "{here:?}, {mine:?}");
    let resent = theirs.retransmissions();
    assert!(mine.duplicates <= resent + link.duplicated, "a duplicate from nowhere: {mine:?}, {theirs:?}");
    let acknowledgements = of(Counter::Received) - mine.packets_received;
    let ignored = acknowledgements - mine.acks_received;
    assert!(ignored <= of(Counter::AckStale), "{ignored} acknowledgements were neither used nor stale");
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Returns the counter that a frame with one flipped bit raises; none if nothing depends on the bit.
fn fate(corruption: &Corruption) -> Option<Counter> {
    let [flip] = corruption.flips[..] else { panic!("corrupt_bits=1 is what can be foretold") };
    let header = &corruption.header;
    let at = flip.offset - ETHERNET;
    if header[12..14] == [0x86, 0xdd] {
        return match at {
            IPV6.. => udp_fate(header, ETHERNET + IPV6, at - IPV6, flip.bit),
            0 if flip.bit >= 4 => Some(Counter::DropIpv6Header),
            0..4 => None, // traffic class and flow label
            4..6 => Some(shorter_or_longer(header, 18, flip.offset, flip.bit)),
            6 => {
                assert_eq!(header[20], IP_PROTOCOL_UDP);
                Some(Counter::PassProtocol) // no extension header is one bit away from UDP
            }
            7 => None,                               // hop limit
            8..24 => Some(Counter::DropUdpChecksum), // by the pseudo header
            _ => Some(Counter::PassAddress),
        };
    }
    match at {
        IPV4.. => udp_fate(header, ETHERNET + IPV4, at - IPV4, flip.bit),
        // Version, and a header length of 5. One flipped bit makes 4 or 1, or 7 or 13. The latter two announce
        // options, and the bytes in their place do not fit the checksum.
        0 if !matches!(flip.bit, 1 | 3) => Some(Counter::DropIpv4Header),
        _ => Some(Counter::DropIpv4Checksum),
    }
}

/// A payload length of IPv6 that became longer than the frame, or shorter than its UDP datagram.
fn shorter_or_longer(header: &[u8], field: usize, offset: usize, bit: u8) -> Counter {
    let was = u16::from_be_bytes([header[field], header[field + 1]]);
    let flipped = if offset == field { 1u16 << (8 + bit) } else { 1 << bit };
    if was & flipped == 0 { Counter::DropIpv6Header } else { Counter::DropUdpLength }
}

fn udp_fate(header: &[u8], udp: usize, at: usize, bit: u8) -> Option<Counter> {
    match at {
        2..4 => Some(Counter::PassPort),
        4..6 => Some(Counter::DropUdpLength),
        6..8 => {
            let was = [header[udp + 6], header[udp + 7]];
            let mut is = was;
            is[at - 6] ^= 1 << bit;
            // The frame then has no checksum, and the covered bytes are intact.
            if is == [0, 0] { None } else { Some(Counter::DropUdpChecksum) }
        }
        _ => Some(Counter::DropUdpChecksum),
    }
}
