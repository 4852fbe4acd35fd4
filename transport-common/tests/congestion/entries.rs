//! The 64-byte entries against lists of fields that are written bit by bit (10.6.2, D-74).

use proptest::prelude::*;
use transport_common::congestion::entry::Entry;
use transport_common::congestion::event::{Direction, Event, EventType, RetransmitReason};
use transport_common::congestion::nic_time::{DelayCode, NicTime};
use transport_common::congestion::result::Outcome;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};
use transport_common::wire::nack::NackCode;

/// The table of 10.6.2.1: name, width, value.
fn event_fields(e: &Event) -> Vec<(&'static str, usize, u64)> {
    vec![
        ("connection_id", 24, e.connection_id.into()),
        ("event_type", 2, e.event_type.0.into()),
        ("t1", 24, e.t1.0.into()),
        ("t2", 24, e.t2.0.into()),
        ("t3", 24, e.t3.0.into()),
        ("t4", 24, e.t4.0.into()),
        ("retransmit_count", 3, e.retransmit_count.into()),
        ("retransmit_reason", 1, e.retransmit_reason.0.into()),
        ("nack_code", 8, e.nack_code.0.into()),
        ("forward_hops", 4, e.forward_hops.into()),
        ("rx_buffer_level", 5, e.rx_buffer_level.into()),
        ("cc_metadata", 24, e.cc_metadata.into()),
        ("fcwnd_fraction", 10, u64::from(e.fcwnd.0) % 1024),
        ("fcwnd_integer", 11, u64::from(e.fcwnd.0) / 1024),
        ("inter_packet_gap", 20, e.inter_packet_gap.0.into()),
        ("ncwnd", 11, e.ncwnd.into()),
        ("retransmit_timeout", 24, e.retransmit_timeout.0.into()),
        ("num_packets_acked", 10, e.num_packets_acked.into()),
        ("eack_drop", 1, e.eack_drop.into()),
        ("eack", 1, e.eack.into()),
        ("reserved", 8, 0),
        ("event_queue_select", 2, e.event_queue_select.into()),
        ("delay_select", 2, e.delay_select.0.into()),
        ("fabric_window_time_marker", 24, e.fabric_window_time_marker.0.into()),
        ("nic_window_time_marker", 24, e.nic_window_time_marker.0.into()),
        ("ncwnd_direction", 1, e.ncwnd_direction.0.into()),
        ("base_delay_target", 24, e.base_delay_target.0.into()),
        ("delay_state", 24, e.delay_state.0.into()),
        ("rtt_state", 24, e.rtt_state.0.into()),
        ("cc_opaque", 2, e.cc_opaque.into()),
        ("ecn_accumulated", 14, e.ecn_accumulated.into()),
        ("reserved", 107, 0),
        ("gen", 1, e.generation.into()),
    ]
}

/// The table of 10.6.2.2 with the two fields that D-74 adds after retransmit_timeout.
fn result_fields(r: &Outcome) -> Vec<(&'static str, usize, u64)> {
    vec![
        ("connection_id", 24, r.connection_id.into()),
        ("randomize_path", 1, r.randomize_path.into()),
        ("cc_metadata", 24, r.cc_metadata.into()),
        ("fcwnd_fraction", 10, u64::from(r.fcwnd.0) % 1024),
        ("fcwnd", 11, u64::from(r.fcwnd.0) / 1024),
        ("inter_packet_gap", 20, r.inter_packet_gap.0.into()),
        ("ncwnd", 11, r.ncwnd.into()),
        ("retransmit_timeout", 24, r.retransmit_timeout.0.into()),
        ("event_queue_select", 2, r.event_queue_select.into()),
        ("delay_select", 2, r.delay_select.0.into()),
        ("fabric_window_time_marker", 24, r.fabric_window_time_marker.0.into()),
        ("nic_window_time_marker", 24, r.nic_window_time_marker.0.into()),
        ("ncwnd_direction", 1, r.ncwnd_direction.0.into()),
        ("base_delay_target", 24, r.base_delay_target.0.into()),
        ("delay_state", 24, r.delay_state.0.into()),
        ("rtt_state", 24, r.rtt_state.0.into()),
        ("cc_opaque", 2, r.cc_opaque.into()),
        ("reserved", 260, 0),
    ]
}

/// The reference: the low bits of each value, one by one, from bit 0 of byte 0.
fn pack(fields: &[(&str, usize, u64)]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut position = 0;
    for (_, width, value) in fields {
        for bit in 0..*width {
            if bit < 64 && value >> bit & 1 == 1 {
                bytes[position / 8] |= 1 << (position % 8);
            }
            position += 1;
        }
    }
    bytes
}

fn bytes(entry: &Entry) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (word, chunk) in entry.iter().zip(bytes.chunks_mut(8)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// F-10.6.2.1-13, F-10.6.2.2-3, D-74.
#[test]
fn both_entries_have_512_bits() {
    let sum = |fields: &[(&str, usize, u64)]| fields.iter().map(|(_, width, _)| width).sum::<usize>();
    assert_eq!(sum(&event_fields(&Event::default())), 512);
    assert_eq!(sum(&result_fields(&Outcome::default())), 512);
    assert_eq!(size_of::<Entry>(), 64);
}

/// F-10.6.2.1-2 to F-10.6.2.1-13: each field alone, with all bits set, is where the table says.
#[test]
fn each_event_field_has_its_bits() {
    let names: Vec<_> = event_fields(&Event::default()).iter().map(|(name, ..)| *name).collect();
    for (index, name) in names.iter().enumerate().filter(|(_, name)| **name != "reserved") {
        let mut fields = event_fields(&Event::default());
        fields[index].2 = u64::MAX;
        let expected = pack(&fields);
        let mut event = Event::default();
        event.decode(&words(&expected));
        let mut entry = [u64::MAX; 8];
        event.encode(&mut entry);
        assert_eq!(bytes(&entry), expected, "{name}");
        assert_eq!(pack(&event_fields(&event)), expected, "{name}");
    }
}

fn words(bytes: &[u8; 64]) -> Entry {
    let mut entry = [0; 8];
    for (word, chunk) in entry.iter_mut().zip(bytes.chunks(8)) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap());
    }
    entry
}

prop_compose! {
    /// Any values, also wider than the fields.
    fn any_event()(
        w in any::<[u32; 14]>(),
        h in any::<[u16; 3]>(),
        b in any::<[u8; 13]>(),
    ) -> Event {
        Event {
            connection_id: w[0], t1: NicTime(w[1]), t2: NicTime(w[2]), t3: NicTime(w[3]), t4: NicTime(w[4]),
            cc_metadata: w[5], fcwnd: Fcwnd(w[6]), inter_packet_gap: InterPacketGap(w[7]), retransmit_timeout: Ticks(w[8]),
            fabric_window_time_marker: NicTime(w[9]), nic_window_time_marker: NicTime(w[10]),
            base_delay_target: Ticks(w[11]), delay_state: Ticks(w[12]), rtt_state: Ticks(w[13]),
            ncwnd: h[0], num_packets_acked: h[1], ecn_accumulated: h[2],
            event_type: EventType(b[0]), retransmit_count: b[1], retransmit_reason: RetransmitReason(b[2]), nack_code: NackCode(b[3]),
            forward_hops: b[4], rx_buffer_level: b[5], eack_drop: b[6], eack: b[7], event_queue_select: b[8],
            delay_select: DelayCode(b[9]), ncwnd_direction: Direction(b[10]), cc_opaque: b[11], generation: b[12], reserved: 0,
        }
    }
}

prop_compose! {
    fn any_result()(w in any::<[u32; 10]>(), h in any::<u16>(), b in any::<[u8; 5]>()) -> Outcome {
        Outcome {
            connection_id: w[0], cc_metadata: w[1], fcwnd: Fcwnd(w[2]), inter_packet_gap: InterPacketGap(w[3]),
            retransmit_timeout: Ticks(w[4]), fabric_window_time_marker: NicTime(w[5]),
            nic_window_time_marker: NicTime(w[6]), base_delay_target: Ticks(w[7]), delay_state: Ticks(w[8]),
            rtt_state: Ticks(w[9]), ncwnd: h, randomize_path: b[0], event_queue_select: b[1],
            delay_select: DelayCode(b[2]), ncwnd_direction: Direction(b[3]), cc_opaque: b[4], reserved: 0,
        }
    }
}

/// Reserved bits of the event table: 255..263 and 404..511.
fn without_event_reserved(mut entry: Entry) -> Entry {
    for bit in (255..263).chain(404..511) {
        entry[bit / 64] &= !(1 << (bit % 64));
    }
    entry
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-10.6.2.1-2 to F-10.6.2.1-13: a value that is too wide is cut and changes no other field.
    #[test]
    fn events_are_packed_as_listed(event in any_event(), old in any::<Entry>()) {
        let mut entry = old;
        event.encode(&mut entry);
        let fields: Vec<_> = event_fields(&event)
            .into_iter()
            .map(|(name, width, value)| (name, width, if width < 64 { value % (1 << width) } else { value }))
            .collect();
        prop_assert_eq!(bytes(&entry), pack(&fields));
        prop_assert_eq!(Event::generation_of(&entry), event.generation & 1);
    }

    /// Every entry decodes, and encodes to the same bits, except the reserved ones.
    #[test]
    fn events_survive_the_round_trip(entry in any::<Entry>()) {
        let mut event = Event::default();
        event.decode(&entry);
        let mut again = [u64::MAX; 8];
        event.encode(&mut again);
        prop_assert_eq!(again, without_event_reserved(entry));
        let mut same = Event { reserved: 9, ..Event::default() };
        same.decode(&again);
        prop_assert_eq!(same, event);
    }

    /// F-10.6.2.2-2, F-10.6.2.2-3.
    #[test]
    fn results_are_packed_as_listed(result in any_result(), old in any::<Entry>()) {
        let mut entry = old;
        result.encode(&mut entry);
        let fields: Vec<_> = result_fields(&result)
            .into_iter()
            .map(|(name, width, value)| (name, width, if width < 64 { value % (1 << width) } else { value }))
            .collect();
        prop_assert_eq!(bytes(&entry), pack(&fields));
    }

    /// Bits 252 to 511 of a result are reserved. All other bits survive.
    #[test]
    fn results_survive_the_round_trip(entry in any::<Entry>()) {
        let mut result = Outcome::default();
        result.decode(&entry);
        let mut again = [u64::MAX; 8];
        result.encode(&mut again);
        let mut expected = entry;
        expected[3] &= (1 << 60) - 1;
        expected[4..].fill(0);
        prop_assert_eq!(again, expected);
    }
}
