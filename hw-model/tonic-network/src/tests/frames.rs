//! The format of frames, and drop patterns.

use fabric_model::Probability;
use proptest::prelude::*;
use tonic_model::{ControlPacket, FlowId, Kind, Segment};

use crate::frame::{self, Contents, MIN_FRAME, Message};
use crate::{BadLine, DropPattern};

/// The sum of an intact IPv4 header's words is all ones (RFC 1071).
fn header_is_intact(frame: &[u8]) -> bool {
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

fn messages() -> impl Strategy<Value = Message> {
    let kinds = prop::sample::select(vec![Kind::Ack, Kind::Nack, Kind::Pull, Kind::Cnp]);
    let control = (any::<u16>(), kinds, any::<u32>(), prop::option::of(any::<u32>()), any::<u32>());
    let bitmaps = prop_oneof![Just([0; 2]), any::<[u64; 2]>()];
    let control = (control, bitmaps);
    prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(segment, stamp)| Message::Data { segment, stamp }),
        control.prop_map(|((flow, kind, cumulative, selective, data), bitmap)| Message::Control(
            ControlPacket {
                flow: FlowId(flow),
                kind,
                cumulative: Segment(cumulative),
                selective: selective.map(Segment),
                data,
                bitmap,
            }
        )),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        source: u16, destination: u16, flow: u16, marked: bool, message in messages(), length in 0usize..2_000,
    ) {
        let flow = if let Message::Control(packet) = message { packet.flow.0 } else { flow };
        let contents = Contents { source, destination, flow, marked, message };
        let mut buffer = vec![0xa5; 3_000];
        frame::write(&mut buffer, &contents, length);
        prop_assert!(buffer.len() >= length.max(MIN_FRAME) && buffer.len() <= length.max(MIN_FRAME + 16));
        prop_assert!(header_is_intact(&buffer));
        prop_assert_eq!(frame::read(&buffer), Some(contents));
        frame::mark(&mut buffer);
        prop_assert!(header_is_intact(&buffer));
        prop_assert_eq!(frame::read(&buffer), Some(Contents { marked: true, ..contents }));
    }

    #[test]
    fn whatever_comes_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let read = frame::read(&bytes);
        prop_assert!(read.is_none() || bytes.len() >= 58);
    }
}

#[test]
fn a_pattern_names_transmissions() {
    let mut pattern = DropPattern::none().with(3, 7, 2);
    assert!(!pattern.drops(3, 6) && !pattern.drops(2, 7));
    assert_eq!([0; 4].map(|_| pattern.drops(3, 7)), [true, true, false, false]);
}

#[test]
fn a_random_pattern_has_its_probability_and_its_seed() {
    let tenth = Probability::from_parts_per_billion(100_000_000).expect("below 1");
    let pattern = DropPattern::random(5, 0, 100_000, tenth);
    let lost = pattern.of(0).count();
    // About 10,000 are expected, with a deviation of 95. A tenth of these are lost twice.
    assert!((9_600..10_400).contains(&lost), "{lost}");
    let twice = pattern.of(0).filter(|(_, times)| *times >= 2).count();
    assert!((880..1_120).contains(&twice), "{twice}");
    assert_eq!(pattern, DropPattern::random(5, 0, 100_000, tenth));
    assert_ne!(pattern, DropPattern::random(6, 0, 100_000, tenth));
    assert_eq!(pattern.of(1).count(), 0);
}

#[test]
fn a_pattern_is_read() {
    let pattern = DropPattern::parse(2, "7 1\n90 2\n").expect("two lines");
    assert_eq!(pattern, DropPattern::none().with(2, 7, 1).with(2, 90, 2));
    for bad in ["7", "x 1", "7 0", "7 256", ""] {
        assert_eq!(DropPattern::parse(0, &format!("1 1\n{bad}\n")), Err(BadLine(2)), "{bad:?}");
    }
}
