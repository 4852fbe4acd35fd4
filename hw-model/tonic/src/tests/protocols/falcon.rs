//! Falcon's packet delivery.

use std::collections::HashMap;

use clocked::Cycle;
use fabric_model::Probability;
use transport_common::congestion::parameters as congestion;
use transport_common::packet_delivery::TxPacket;
use transport_common::units::Fcwnd;

use crate::protocols::{Falcon, SwiftWindow};
use crate::tests::testbed;
use crate::{
    Answer, ControlPacket, FlowId, IncomingRecord, Kind, Parameters, Path, Segment, user_state_bytes,
};

use super::{CLOCK, FLOW, Session};

fn falcon(initial_window: u16) -> Falcon {
    Falcon::new(SwiftWindow { initial_window, ..SwiftWindow::new(CLOCK, 100_000_000_000, 1_500) })
}

fn session(initial_window: u16) -> Session<Falcon> {
    let mut session = Session::new(falcon(initial_window));
    assert_eq!(session.sent().len(), usize::from(initial_window));
    session
}

/// Sends an EACK: all segments before `base` and those in `received` have arrived. It echoes a segment sent `age`
/// cycles ago.
fn aged_eack(session: &mut Session<Falcon>, base: u32, received: &[u32], age: u64) -> IncomingRecord {
    let bits = received.iter().fold(0u128, |bits, segment| bits | 1 << segment.wrapping_sub(base));
    let packet = ControlPacket {
        flow: FLOW,
        kind: Kind::Ack,
        cumulative: Segment(base),
        selective: None,
        bitmap: [bits as u64, (bits >> 64) as u64],
        data: session.clock.now().0.wrapping_sub(age) as u32,
    };
    let mut record = session.step(Some(packet)).incoming;
    for _ in 0..60 {
        record = record.or(session.step(None).incoming);
    }
    record.expect("packets are processed")
}

fn eack(session: &mut Session<Falcon>, base: u32, received: &[u32]) -> IncomingRecord {
    aged_eack(session, base, received, 50)
}

/// F-9.1.4-1, D-36: a gap at the out-of-order distance below the highest is not lost. A gap further below is lost.
#[test]
fn the_out_of_order_distance_shows_loss() {
    let mut session = session(12);
    assert_eq!(eack(&mut session, 1, &[2, 3, 4]).newly_acked, 4);
    assert_eq!(session.sent(), [12], "a window of one segment more, and no retransmission");
    assert_eq!(eack(&mut session, 1, &[2, 3, 4, 5]).mark, Some((Segment(1), Segment(2))));
    assert_eq!(session.sent(), [1]);
    // Two gaps are lost at once. A third one is not far enough below.
    assert_eq!(eack(&mut session, 1, &[2, 3, 4, 5, 8, 10]).mark, Some((Segment(2), Segment(7))));
    assert_eq!(session.sent(), [6]);
}

/// F-9.1.4-2: two EACKs in one RTT cause one retransmission. A lost retransmission is repeated after an RTT.
#[test]
fn a_copy_is_an_rtt_old_before_the_next() {
    let mut session = session(12);
    eack(&mut session, 0, &[1, 2, 3, 4]);
    assert_eq!(session.sent(), [0]);
    // From now on a round trip takes 2000 cycles. Within it nothing is sent again.
    session.wait(2_100);
    for _ in 0..20 {
        aged_eack(&mut session, 0, &[1, 2, 3, 4, 5], 2_000);
    }
    assert!(!session.sent().contains(&0));
    session.wait(1_500);
    aged_eack(&mut session, 0, &[1, 2, 3, 4, 5], 2_000);
    assert_eq!(session.sent().iter().filter(|sent| **sent == 0).count(), 1);
}

/// F-9.1.5: all missing packets are sent again, within the window that Swift allows.
#[test]
fn a_timeout_sends_what_is_missing() {
    let mut session = session(12);
    eack(&mut session, 0, &[2, 3]);
    session.sent();
    session.wait_for_timeout();
    // The window is a little more than half of 12 packets: 0, 1, 4, 5 are missing inside it.
    assert_eq!(session.status().window_size, 6);
    assert_eq!(session.sent(), [0, 1, 4, 5]);
    assert_eq!(session.status().user.timeouts.0, 1);
    eack(&mut session, 6, &[]);
    assert_eq!(session.status().user.timeouts.0, 0);
}

/// The fixed stage: each bit counts once. Bits of packets that were never sent, and bits in an older packet, do
/// not count (D-35, D-19).
#[test]
fn a_bitmap_counts_what_is_new() {
    let mut session = session(8);
    assert_eq!(eack(&mut session, 2, &[4, 6]).newly_acked, 4);
    assert_eq!(eack(&mut session, 2, &[4, 6]).newly_acked, 0);
    let status = session.status();
    assert_eq!((status.window_start, status.acked), (Segment(2), 2));
    assert_eq!(eack(&mut session, 5, &[6, 100]).newly_acked, 2, "2 and 3; 4 and 6 were known");
    assert_eq!(eack(&mut session, 3, &[7]).newly_acked, 0, "an older packet");
    assert_eq!(session.status().acked, 1);
}

/// On a lossy path, the copies of early retransmission leave one RTT apart, and few of them are unnecessary. The
/// window is smaller than the capacity of the path, so no packet waits long for credit.
#[test]
fn recency_holds_under_loss() {
    const ROUND_TRIP: u64 = 600;
    let parameters =
        congestion::Parameters { max_fcwnd: Fcwnd::from_packets(32), ..congestion::Parameters::DEFAULT };
    let mut protocol = falcon(32);
    protocol.swift.parameters = parameters.prepare().expect("in range");
    let loss = Probability::from_parts_per_billion(50_000_000).expect("less than certain");
    for seed in 0..4 {
        let path = Path { delay: 300, return_delay: 300, loss, seed, ..Path::default() };
        let parameters = Parameters { flows: 4, outstanding: 4, ..Parameters::default() };
        let all = (1, Segment(7), Some(3_000));
        let mut testbed = testbed(protocol, &parameters, Answer::Falcon, path, all);
        let mut last: HashMap<u32, Cycle> = HashMap::new();
        let (mut timeouts, mut again, mut last_timeout) = (0, 0, Cycle::ZERO);
        while let Some((now, output)) = testbed.step(Cycle(100_000_000)) {
            if output.timeout.is_some() {
                timeouts += 1;
                last_timeout = now;
            }
            let Some(address) = output.transmit else { continue };
            let before = last.insert(address.segment.0, now);
            if let Some(before) = before.filter(|before| *before >= last_timeout) {
                again += 1;
                // Three packets before it in the ring take 12 cycles each. Add a tick of 13 cycles and the way to
                // generation.
                assert!(
                    now - before + 100 >= ROUND_TRIP,
                    "segment {} after {}",
                    address.segment,
                    now - before
                );
            }
        }
        assert_eq!(testbed.receiver().next(FlowId(0)), Segment(3_007));
        assert!(again > 100 && timeouts < 10, "{again} early, {timeouts} by timeout");
        assert!(testbed.receiver().duplicates() < 20, "{} unnecessary", testbed.receiver().duplicates());
    }
}

/// The datapath's state per packet, for all packets of a window, is larger than table 4 allows for a flow.
#[test]
fn the_packet_table_of_the_datapath_does_not_fit() {
    const PACKETS: usize = 128;
    assert_eq!(size_of::<TxPacket>() * PACKETS, 2_048);
    assert_eq!(size_of::<u32>() * PACKETS, 512, "the times of the last copies alone");
    assert!(size_of::<u32>() * PACKETS > crate::Credit::Window.user_state_limit());
    assert_eq!(user_state_bytes::<Falcon>(), 24);
}
