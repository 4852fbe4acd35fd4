//! The receiver: RFC 5681, 4.2, and RFC 7323, 4.3.

use std::collections::BTreeSet;

use fabric_model::{Span, Time};
use proptest::prelude::*;

use crate::{TcpAck, TcpReceiver};

use super::at;

const DELAY: Span = Span::from_millis(40);

fn receiver() -> TcpReceiver {
    TcpReceiver::new(Some(DELAY), 128)
}

#[test]
fn every_second_segment_or_the_timer() {
    let mut receiver = receiver();
    assert_eq!(receiver.on_segment(at(0), 0, 100), None);
    assert_eq!(receiver.timer(), Some(at(40_000)));
    assert_eq!(receiver.on_segment(at(1), 1, 101), Some(TcpAck { next: 2, echo: 100 }), "the earlier stamp");
    assert_eq!(receiver.timer(), None);
    assert_eq!(receiver.on_segment(at(2), 2, 102), None);
    assert_eq!(receiver.on_timer(at(40_001)), None, "too early");
    assert_eq!(receiver.on_timer(at(40_002)), Some(TcpAck { next: 3, echo: 102 }));
}

#[test]
fn out_of_order_and_filling_are_acknowledged_at_once() {
    let mut receiver = receiver();
    receiver.on_segment(at(0), 0, 10);
    assert_eq!(
        receiver.on_segment(at(1), 2, 12),
        Some(TcpAck { next: 1, echo: 10 }),
        "acknowledges the delayed segment too"
    );
    assert_eq!(receiver.on_segment(at(2), 4, 14), Some(TcpAck { next: 1, echo: 10 }));
    assert_eq!(receiver.on_segment(at(3), 1, 15), Some(TcpAck { next: 3, echo: 15 }));
    assert_eq!(receiver.on_segment(at(4), 3, 16), Some(TcpAck { next: 5, echo: 16 }));
    assert_eq!(receiver.on_segment(at(5), 3, 17), Some(TcpAck { next: 5, echo: 17 }), "a duplicate");
    assert_eq!((receiver.delivered(), receiver.duplicates()), (5, 1));
    assert_eq!(receiver.on_segment(at(6), 133, 18).map(|ack| ack.next), Some(5), "beyond the window");
    assert_eq!(receiver.delivered(), 5);
}

proptest! {
    /// For segments in any order, the acknowledgment is the first segment that is missing.
    #[test]
    fn the_first_missing_segment(segments in prop::collection::vec(0u64..60, 1..200)) {
        let mut receiver = TcpReceiver::new(None, 128);
        let mut arrived = BTreeSet::new();
        for segment in segments {
            arrived.insert(segment);
            let missing = (0..).find(|segment| !arrived.contains(segment));
            let ack = receiver.on_segment(Time::ZERO, segment, 0);
            prop_assert_eq!(ack.map(|ack| ack.next), missing);
            prop_assert_eq!(receiver.delivered(), arrived.len() as u64);
        }
    }
}
