//! A frame that says less is otherwise as it was, and as its host would have made it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use falcon_conformance::{Flow, encoded};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::ack::{AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::push_data::PushData;
use transport_common::wire::{PacketType, ProtocolType};

use super::*;
use crate::simulation::scenario::Profile;

/// Returns a flow of each kind: over IPv4 and IPv6, without and with a tag, in each tunnel.
fn flows() -> Vec<Flow> {
    let four = |last: u8| IpAddr::from([10, 7, 0, last]);
    let six = |last: u8| IpAddr::from([0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    let mut all = vec![];
    for (source, destination) in [(four(1), four(2)), (six(1), six(2))] {
        for inner in [None, Some((four(3), four(4))), Some((six(3), six(4)))] {
            for vlan in [None, Some(7)] {
                all.push(Flow {
                    source_mac: [2, 0, 0, 0, 0, 1],
                    destination_mac: [2, 0, 0, 0, 0, 2],
                    vlan,
                    source,
                    destination,
                    source_port: 50_000,
                    inner,
                });
            }
        }
    }
    all
}

fn frame(flow: &Flow, falcon: &[u8]) -> Vec<u8> {
    flow.frame(&flow.psp(Spi(9), Picoseconds(1 << 40)), falcon)
}

fn header([data, request]: [u32; 2]) -> AckHeader {
    AckHeader {
        dest_cid: Cid(5),
        data_base_psn: Psn(data),
        request_base_psn: Psn(request),
        t1: FalconTime(7),
        t2: FalconTime(8),
        cc: CongestionInfo { forward_hops: 3, rx_buffer_level: 4, ecn_count: 5, rue: 6 },
        own_request: true,
        own_data: false,
    }
}

fn back(bases: [u32; 2]) -> Vec<u8> {
    encoded::<{ AckHeader::LEN }>(|out| header(bases).encode(out)).to_vec()
}

fn eack(bases: [u32; 2], data_ack: [u64; 2], data_received: [u64; 2], request: u64) -> Vec<u8> {
    let eack = Eack { header: header(bases), data_ack, data_received, request };
    encoded::<{ Eack::LEN }>(|out| eack.encode(out)).to_vec()
}

/// Returns a push with an odd number of bytes.
fn push([data, request]: [u32; 2]) -> Vec<u8> {
    let base = BaseHeader {
        dest_cid: Cid(5),
        dest_function: 0,
        protocol: ProtocolType::Rdma as u8,
        packet_type: PacketType::PushData,
        ack_request: true,
        data_base_psn: Psn(data),
        request_base_psn: Psn(request),
        psn: Psn(1),
        rsn: Rsn(1),
    };
    let header = PushData { base, request_length: 3 };
    [&encoded::<{ PushData::LEN }>(|out| header.encode(out))[..], &[1, 2, 3]].concat()
}

fn late(lateness: Lateness) -> LateAcknowledgements {
    LateAcknowledgements::new(0, lateness, Time::ZERO)
}

/// The bases when it begins to acknowledge late.
const FIRST: [u32; 2] = [100, 200];

#[test]
fn only_the_oldest_packets_are_left_out() {
    let all_of_64 = !1_u64;
    for flow in flows() {
        let mut late = late(Lateness::Oldest);
        let mut find = |sent: &[u8], told: &[u8], leaves_out: bool| {
            let mut changed = frame(&flow, sent);
            assert_eq!(late.hold_back(&mut changed), leaves_out, "{flow:?}");
            assert_eq!(changed, frame(&flow, told), "{flow:?}");
        };
        find(&back(FIRST), &back(FIRST), false);
        find(&back([101, 200]), &eack(FIRST, [0; 2], [0; 2], 0), false);
        find(&back([105, 203]), &eack(FIRST, [0b1_1110, 0], [0b1_1110, 0], 0b110), true);
        find(
            &eack([103, 200], [0b100, 0], [0b111, 0], 0b10),
            &eack(FIRST, [0b10_0110, 0], [0b11_1110, 0], 0b10),
            true,
        );
        // Up to the ends of both windows.
        let (high, top) = ((1_u64 << 62) - 1, 1_u64 << 63);
        find(
            &eack([226, 263], [0b10, 0], [0b11, 0], 0),
            &eack(FIRST, [all_of_64, high | top], [all_of_64, u64::MAX], all_of_64 & !top),
            true,
        );
        // What has no bitmaps acknowledges nothing.
        find(&push([105, 203]), &push(FIRST), false);
    }
}

#[test]
fn a_window_is_kept_back_and_the_other_one_is_not() {
    let sent = eack([105, 203], [0b100, 0], [0b111, 0], 0b10);
    for flow in flows() {
        for (window, told, pushed) in [
            (Window::Data, eack([100, 203], [0; 2], [0; 2], 0b10), push([100, 203])),
            (Window::Request, eack([105, 200], [0b100, 0], [0b111, 0], 0), push([105, 200])),
        ] {
            let mut late = late(Lateness::Window(window));
            assert!(!late.hold_back(&mut frame(&flow, &back(FIRST))));
            for (sent, told) in [(&sent, told), (&push([105, 203]), pushed)] {
                let mut changed = frame(&flow, sent);
                assert!(late.hold_back(&mut changed), "{window:?} {flow:?}");
                assert_eq!(changed, frame(&flow, &told), "{window:?} {flow:?}");
            }
        }
    }
}

#[test]
fn a_frame_without_a_checksum_gets_none() {
    for flow in flows() {
        let plain = |falcon: &[u8]| {
            let mut frame = frame(&flow, falcon);
            frame[flow.udp_offset() + 6..][..2].fill(0);
            frame
        };
        let mut late = late(Lateness::Oldest);
        late.hold_back(&mut plain(&back(FIRST)));
        let mut changed = plain(&back([102, 200]));
        assert!(late.hold_back(&mut changed));
        assert_eq!(changed, plain(&eack(FIRST, [0b10, 0], [0b10, 0], 0)));
    }
}

/// A frame that was made before the first one that left, and frames of the next connection with this CID.
#[test]
fn what_is_older_or_of_another_connection_is_as_it_was() {
    let flow = flows()[0];
    let mut late = late(Lateness::Oldest);
    for bases in [FIRST, [99, 200], [5000, 9000]] {
        let mut changed = frame(&flow, &back(bases));
        assert!(!late.hold_back(&mut changed));
        assert_eq!(changed, frame(&flow, &back(bases)));
    }
    let mut changed = frame(&flow, &back([5002, 9000]));
    assert!(late.hold_back(&mut changed));
    assert_eq!(changed, frame(&flow, &eack([5000, 9000], [0b10, 0], [0b10, 0], 0)));
}

#[test]
fn hosts_of_some_scenarios_acknowledge_late() {
    let faults = (0..200).flat_map(|seed| Scenario::with_faults(seed, Profile::Lossy).faults);
    let names = faults.filter_map(|fault| match fault.kind {
        FaultKind::Late { lateness, .. } => Some(lateness.name()),
        _ => None,
    });
    assert_eq!(names.collect::<BTreeSet<_>>().len(), Lateness::ALL.len());
}
