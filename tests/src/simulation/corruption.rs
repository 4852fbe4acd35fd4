//! Checks that the counters account for every corrupted frame that arrived, under the name of the damaged field.

use fabric_model::Corruption;
use host_nic::HostNic;
use transport_common::counters::Counter;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Offsets in the UDP header.
const DESTINATION_PORT: usize = 2;
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// Returns the counter that a single flipped bit raises at its receiver; `None` if nothing checks the bit.
fn counter_of(corruption: &Corruption) -> Option<Counter> {
    let [flip] = corruption.flips[..] else { panic!("the fabric was asked for single flips") };
    let header = &corruption.header;
    let tagged = header[12..14] == [0x81, 0];
    let network = if tagged { ETHERNET + TAG } else { ETHERNET };
    let v6 = header[network] >> 4 == 6;
    let Some(place) = flip.offset.checked_sub(network) else { return in_tag(header, flip.offset, flip.bit) };
    let transport = if v6 { IPV6 } else { IPV4 };
    if let Some(place) = place.checked_sub(transport) {
        return in_udp(&header[network + transport..], place, flip.bit);
    }
    let flipped = header[flip.offset] ^ 1 << flip.bit;
    if v6 { in_ipv6(place, flip.bit, flipped) } else { in_ipv4(place, flipped) }
}

fn in_tag(header: &[u8], offset: usize, bit: u8) -> Option<Counter> {
    // Nothing checks the tag itself. The EtherType follows it.
    let ethertype = offset >= ETHERNET + 2;
    let mut shifted = [header[16], header[17]];
    if ethertype {
        shifted[offset - 16] ^= 1 << bit;
    }
    (ethertype && shifted != [8, 0] && shifted != [0x86, 0xdd]).then_some(Counter::PassEthertype)
}

fn in_ipv4(place: usize, flipped: u8) -> Option<Counter> {
    Some(match (place, flipped >> 4, flipped & 15) {
        // Options that the checksum does not cover.
        (0, 4, 6..) => Counter::DropIpv4Checksum,
        (0, _, _) => Counter::DropIpv4Header,
        _ => Counter::DropIpv4Checksum,
    })
}

fn in_ipv6(place: usize, bit: u8, flipped: u8) -> Option<Counter> {
    match place {
        0 if bit >= 4 => Some(Counter::DropIpv6Header),
        // No checksum covers traffic class, flow label and hop limit.
        0..4 | 7 => None,
        // A longer payload exceeds the frame, and a shorter one disagrees with the UDP length.
        4..6 if flipped & 1 << bit != 0 => Some(Counter::DropIpv6Header),
        4..6 => Some(Counter::DropUdpLength),
        6 if flipped == 44 => Some(Counter::DropFragment),
        6 if matches!(flipped, 0 | 43 | 50 | 51 | 60 | 135 | 139 | 140 | 253 | 254) => {
            Some(Counter::DropIpOptions)
        }
        6 => Some(Counter::PassProtocol),
        8..24 => Some(Counter::DropUdpChecksum),
        _ => Some(Counter::PassAddress),
    }
}

fn in_udp(udp: &[u8], place: usize, bit: u8) -> Option<Counter> {
    match place {
        DESTINATION_PORT..LENGTH => Some(Counter::PassPort),
        LENGTH..CHECKSUM => Some(Counter::DropUdpLength),
        // A checksum of 0 means that there is no checksum.
        CHECKSUM..8 => {
            let mut checksum = [udp[CHECKSUM], udp[CHECKSUM + 1]];
            checksum[place - CHECKSUM] ^= 1 << bit;
            (checksum != [0, 0]).then_some(Counter::DropUdpChecksum)
        }
        _ => Some(Counter::DropUdpChecksum),
    }
}

/// Counters that only damage can raise among correct hosts, in groups of which one is raised. A frame that looks
/// as if it had an extension header is Falcon or not, depending on the values of the shifted bytes (D-86).
const DAMAGE: [&[Counter]; 11] = [
    &[Counter::PassEthertype],
    &[Counter::PassPort],
    &[Counter::PassAddress],
    &[Counter::DropIpOptions, Counter::DropFragment, Counter::PassProtocol],
    &[Counter::DropIpv4Header],
    &[Counter::DropIpv4Checksum],
    &[Counter::DropIpv6Header],
    &[Counter::DropUdpLength],
    &[Counter::DropUdpChecksum],
    &[Counter::DropEthernetTruncated],
    &[
        Counter::DropPspHeader,
        Counter::DropInnerHeader,
        Counter::DropFalconLength,
        Counter::DropFalconVersion,
        Counter::DropFalconType,
        Counter::DropProtocol,
    ],
];

/// Compares the counters of the card at a port with the fabric's log of corruptions towards that port.
///
/// A card sums the memory that it sends before it copies it. If another CPU writes there in between (`concurrent`), the
/// frame leaves with the checksum of the old bytes, is dropped, and sent again.
///
/// # Panics
/// If they differ.
pub(crate) fn verify(nic: &HostNic, corruptions: &[Corruption], concurrent: bool) {
    for group in DAMAGE {
        let counted: u64 = group.iter().map(|counter| nic.counter(*counter)).sum();
        let expected =
            corruptions.iter().filter_map(counter_of).filter(|counter| group.contains(counter)).count();
        if concurrent && group == [Counter::DropUdpChecksum] && counted > expected as u64 {
            continue;
        }
        assert_eq!(counted, expected as u64, "{group:?}: corrupted frames that should raise it (D-91)");
    }
}
