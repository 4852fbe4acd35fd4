//! The queues between datapath and rate update engine (10.6), and the histograms of delays.

use transport_common::congestion::admission::Admission;
use transport_common::congestion::event::Event;
use transport_common::congestion::histogram::bucket_of;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::queues::{EVENT_QUEUE_DEPTH, EVENT_QUEUES};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::settings::Placement;
use transport_common::datapath::{CongestionQueues as _, Host as _};
use transport_common::units::Ticks;

use super::fixture::{Fixture, frame_of, scratch};
use crate::{HostNic, testbed};

/// The slot of a connection for which an engine in user space decides.
const SLOT: usize = 11;

fn event(number: u32, queue: u8) -> Event {
    Event { connection_id: number, event_queue_select: queue, rx_buffer_level: 17, ..Event::default() }
}

/// Takes everything from an event queue.
fn taken(nic: &mut HostNic, queue: usize) -> Vec<Event> {
    std::iter::from_fn(|| nic.take_event(queue))
        .map(|entry| {
            let mut event = Event::default();
            event.decode(&entry);
            event
        })
        .collect()
}

/// D-73: the admission sees the entries that nobody has taken yet.
pub(super) fn the_admission_sees_the_queues(node: &mut impl Fixture) {
    let policy = Admission { thresholds: [1, 2, 3], ..Admission::new(10) };
    node.arrange(|nic| {
        let mut parameters = testbed::connection(0, SLOT);
        parameters.settings.placement = Placement::User as u32;
        nic.open(SLOT, &parameters);
        nic.admit_events(policy);
    });
    let mut s = scratch();
    let mut platform = node.with(frame_of(vec![0; 64]));
    platform.observe(&mut s, SLOT as u32, true);
    assert_eq!(s.step.input.event_queues.admission, policy);
    assert_eq!(s.step.input.event_queues.occupancy, [0; EVENT_QUEUES]);
    for queue in [0, 2, 2] {
        s.step.output.event = event(1, queue);
        platform.publish_event(&mut s);
    }
    platform.observe(&mut s, SLOT as u32, true);
    assert_eq!(s.step.input.event_queues.occupancy, [1, 0, 2, 0]);
    drop(platform);
    node.look(|nic| (0..EVENT_QUEUES).for_each(|queue| drop(taken(nic, queue))));
    node.with(frame_of(vec![0; 64])).observe(&mut s, SLOT as u32, true);
    assert_eq!(s.step.input.event_queues.occupancy, [0; EVENT_QUEUES], "somebody took them");
}

/// F-10.6.2.1-11, D-74: an event goes to its queue in order, and its poll bit toggles with each lap of the ring.
pub(super) fn events_are_published_in_order(node: &mut impl Fixture) {
    const AT_ONCE: usize = 64;
    const QUEUE: u8 = 1;
    let mut s = scratch();
    for round in 0..2 * EVENT_QUEUE_DEPTH / AT_ONCE {
        let numbers = || round * AT_ONCE..(round + 1) * AT_ONCE;
        let mut platform = node.with(frame_of(vec![0; 64]));
        for number in numbers() {
            s.step.output.event = event(number as u32, QUEUE);
            platform.publish_event(&mut s);
        }
        drop(platform);
        let generation = if round * AT_ONCE < EVENT_QUEUE_DEPTH { 1 } else { 0 };
        let expected: Vec<Event> =
            numbers().map(|number| Event { generation, ..event(number as u32, QUEUE) }).collect();
        assert_eq!(node.look(|nic| taken(nic, usize::from(QUEUE))), expected);
    }
    s.step.output.event = event(1, QUEUE + EVENT_QUEUES as u8);
    node.with(frame_of(vec![0; 64])).publish_event(&mut s);
    let last = node.look(|nic| taken(nic, usize::from(QUEUE)));
    assert_eq!(last, [Event { generation: 1, ..event(1, QUEUE) }], "the queue number has 2 bits");
}

/// F-10.6.2.2: results are taken in order, each once.
pub(super) fn results_are_taken_in_order(node: &mut impl Fixture) {
    let result = |number: u32| Outcome { connection_id: number, ncwnd: 700, ..Outcome::default() };
    node.arrange(|nic| {
        for number in 1..=2 {
            let mut entry = Default::default();
            result(number).encode(&mut entry);
            nic.post_result(entry);
        }
    });
    let mut s = scratch();
    let mut platform = node.with(frame_of(vec![0; 64]));
    for number in 1..=2 {
        assert!(platform.next_result(&mut s));
        assert_eq!(s.step.input.outcome, result(number));
    }
    assert!(!platform.next_result(&mut s));
    assert_eq!(s.step.input.outcome, result(2), "without a result nothing is written");
}

/// F-10.1-3.
pub(super) fn delays_are_counted_in_their_buckets(node: &mut impl Fixture) {
    let mut expected = node.look(|nic| *nic.delay_histograms());
    let mut s = scratch();
    let [t1, t2, t3, t4] = [0x00ff_fff0, 0x40, 0x60, 0x1000].map(NicTime);
    s.step.output.event = Event { t1, t2, t3, t4, ..Event::default() };
    let mut platform = node.with(frame_of(vec![0; 64]));
    platform.record_delays(&s);
    platform.record_delays(&s);
    drop(platform);
    for (histogram, delay) in expected.iter_mut().zip([0x1010, 0x0ff0, 0x50, 0x0fa0]) {
        histogram[bucket_of(Ticks(delay))] += 2;
    }
    assert_eq!(node.look(|nic| *nic.delay_histograms()), expected, "full, fabric, forward, reverse");
}
