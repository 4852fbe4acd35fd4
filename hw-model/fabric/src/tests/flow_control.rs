//! Priority flow control: when hosts are paused, and the frames that say so.

use super::{drain, fabric, numbered};
use crate::{Alpha, ByteCount, Fabric, FlowControl, PauseThreshold, Port, Time, pauses};

const A: Port = Port(0);
const B: Port = Port(1);
const C: Port = Port(2);

/// 1 Gb/s and 1 us; a frame of 1000 bytes takes 8 us.
fn controlled(threshold: PauseThreshold) -> Fabric {
    let mut fabric = fabric(3, "rate=1Gbps,delay=1us,queue=1MiB");
    fabric.set_flow_control(FlowControl { threshold, hysteresis: ByteCount(2_000) });
    fabric
}

/// An alpha of 1 over 10,000 bytes that are not headroom.
fn dynamic() -> Fabric {
    let (buffer, headroom) = (ByteCount(12_000), ByteCount(2_000));
    controlled(PauseThreshold::Dynamic { buffer, headroom, alpha: Alpha::default() })
}

/// Offers `count` frames of 1000 bytes at once.
fn fill(fabric: &mut Fabric, from: Port, count: u64) {
    (0..count).for_each(|number| fabric.offer(Time::ZERO, from, numbered(from, C, number, 966)));
}

/// The frames of flow control: when, to whom, and whether they pause.
fn control(fabric: &mut Fabric) -> Vec<(u64, Port, bool)> {
    let delivered = drain(fabric);
    let said = delivered.iter().filter_map(|of| Some((of.time, of.port, pauses(&of.frame)?)));
    said.map(|(time, port, pauses)| (time.0 / 1_000, port, pauses)).collect()
}

/// Alone a host may hold half of the 10,000 bytes. It pauses at the sixth frame
/// and goes on when 2000 bytes are below the threshold: 3 held, 7 free.
#[test]
fn a_host_is_paused_and_goes_on() {
    let mut fabric = dynamic();
    fill(&mut fabric, A, 5);
    assert_eq!(control(&mut fabric), []);
    let mut fabric = dynamic();
    fill(&mut fabric, A, 7);
    // 60 bytes take 480 ns. Nothing else is on the wire to A.
    let said = control(&mut fabric);
    assert_eq!(said, [(1_480, A, true), (3 * 8_000 + 1_480, A, false)]);
    let towards = &fabric.stats().towards[0];
    assert_eq!((towards.offered, towards.delivered, towards.in_flight), (2, 2, 0));
}

/// The memory is shared: what one holds lowers the other's threshold. Each is told by itself.
#[test]
fn hosts_share_the_memory() {
    let mut fabric = dynamic();
    fill(&mut fabric, A, 4);
    // With 4 of A and 3 of B 3 are free; the fourth finds 2.
    fill(&mut fabric, B, 3);
    let mut other = dynamic();
    fill(&mut other, A, 4);
    fill(&mut other, B, 4);
    assert_eq!(control(&mut fabric), []);
    let said = control(&mut other);
    assert_eq!(said.first().map(|(_, port, pauses)| (*port, *pauses)), Some((B, true)));
    assert!(said.iter().all(|(_, port, _)| *port == B), "{said:?}");
    assert_eq!(said.len(), 2, "and goes on");
}

/// With a static threshold each host is judged alone: two that hold as much as is allowed pause nobody, and one more frame
/// of one pauses that one, until it holds two frames less than that.
#[test]
fn a_static_threshold_looks_at_one_host() {
    let threshold = PauseThreshold::Static(ByteCount(4_000));
    let mut fabric = controlled(threshold);
    fill(&mut fabric, A, 4);
    fill(&mut fabric, B, 4);
    assert_eq!(control(&mut fabric), []);
    let mut fabric = controlled(threshold);
    fill(&mut fabric, A, 5);
    fill(&mut fabric, B, 4);
    // A's frames were first: with three of five gone it goes on.
    assert_eq!(control(&mut fabric), [(1_480, A, true), (3 * 8_000 + 1_480, A, false)]);
}

/// A pause goes before the frames that wait for the same host, behind the one on the wire.
#[test]
fn a_pause_does_not_wait() {
    let mut fabric = dynamic();
    (0..3).for_each(|number| fabric.offer(Time::ZERO, B, numbered(B, A, number, 966)));
    fill(&mut fabric, A, 6);
    let said = control(&mut fabric);
    assert_eq!(said[0], (8_000 + 480 + 1_000, A, true));
}

#[test]
fn other_frames_pause_nobody() {
    assert_eq!(pauses(&numbered(A, B, 0, 966)), None);
    assert_eq!(pauses(&[0; 20]), None);
    assert_eq!(pauses(&[]), None);
}
