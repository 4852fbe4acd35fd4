//! Congestion control in a simulation: an engine behind the queues that sometimes misbehaves.

use host_nic::HostNic;
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::congestion::admission::Admission;
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
use transport_common::congestion::event::{Direction, Event};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::queues::EVENT_QUEUES;
use transport_common::congestion::result::Outcome;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

use super::draw::scale;
use super::host::Host;

/// Starts the engine behind the queues. From now on events are admitted.
pub(super) fn open_queues(nic: &mut HostNic, rng: &mut StdRng) {
    let capacity = scale(rng, 1, 64) as u32;
    let thresholds = [capacity / 3, capacity / 2, capacity];
    nic.admit_events(Admission { thresholds, ..Admission::new(capacity) });
}

/// Runs the engine behind the queues. It answers waiting events, sometimes with nonsense, sometimes not at all,
/// and sometimes it sends results without an event.
pub(super) fn answer_events(host: &mut Host, rng: &mut StdRng) {
    let mut entry = [0; 8];
    for queue in 0..EVENT_QUEUES {
        while let Some(taken) = host.nic.take_event(queue) {
            let mut event = Event::default();
            event.decode(&taken);
            host.check_event(&event);
            let nic = &mut host.nic;
            event.stamp(NicTime::from_picoseconds(nic.now()));
            let mut outcome = Outcome::default();
            let mut engine = EngineState::default();
            AlgorithmId::Swift.update(&event, &mut engine, &Prepared::DEFAULT, &mut outcome);
            match rng.random_range(0..20) {
                0 => outcome.connection_id = rng.random(),
                1 => spoil(&mut outcome, rng),
                2 => continue,
                _ => {}
            }
            outcome.encode(&mut entry);
            nic.post_result(entry);
        }
    }
    if rng.random_bool(0.01) {
        host.nic.post_result(core::array::from_fn(|_| rng.random()));
    }
}

/// Makes nonsense values in all fields that do not make a run last for hours.
fn spoil(outcome: &mut Outcome, rng: &mut StdRng) {
    outcome.fcwnd = Fcwnd(rng.random());
    outcome.ncwnd = rng.random();
    outcome.inter_packet_gap = InterPacketGap(rng.random_range(0..2000));
    outcome.retransmit_timeout = Ticks(rng.random_range(0..20_000));
    outcome.fabric_window_time_marker = NicTime(rng.random());
    outcome.nic_window_time_marker = NicTime(rng.random());
    outcome.ncwnd_direction = Direction(rng.random());
    outcome.randomize_path = rng.random();
    outcome.cc_metadata = rng.random();
    outcome.cc_opaque = rng.random();
}
