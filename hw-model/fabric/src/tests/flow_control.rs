//! Tests priority flow control: when hosts are paused, and the control frames.

use super::{drain, fabric, numbered};
use crate::{Alpha, ByteCount, Fabric, FlowControl, PauseThreshold, Port, Time, pauses};

const A: Port = Port(0);
const B: Port = Port(1);
const C: Port = Port(2);

/// Returns a fabric with flow control. Its links have 1 Gb/s and 1 us, so a frame of 1000 bytes takes 8 us.
fn controlled(threshold: PauseThreshold) -> Fabric {
    let mut fabric = fabric(3, "rate=1Gbps,delay=1us,queue=1MiB");
    fabric.set_flow_control(FlowControl { threshold, hysteresis: ByteCount(2_000) });
    fabric
}

/// Returns a fabric with a dynamic threshold: an alpha of 1, and 10,000 bytes that are not headroom.
fn dynamic() -> Fabric {
    let (buffer, headroom) = (ByteCount(12_000), ByteCount(2_000));
    controlled(PauseThreshold::Dynamic { buffer, headroom, alpha: Alpha::default() })
}

/// Offers `count` frames of 1000 bytes at once.
fn fill(fabric: &mut Fabric, from: Port, count: u64) {
    (0..count).for_each(|number| fabric.offer(Time::ZERO, from, numbered(from, C, number, 966)));
}

/// Returns the control frames: the time in nanoseconds, the port, and true for a pause.
fn control(fabric: &mut Fabric) -> Vec<(u64, Port, bool)> {
    let delivered = drain(fabric);
    let said = delivered.iter().filter_map(|of| Some((of.time, of.port, pauses(&of.frame)?)));
    said.map(|(time, port, pauses)| (time.0 / 1_000, port, pauses)).collect()
}

/// A single host may hold half of the 10,000 bytes. It is paused at the sixth frame. It resumes when its bytes are
/// 2000 below the threshold: 4 frames held, 6 frames free.
#[test]
fn a_host_is_paused_and_goes_on() {
    let mut fabric = dynamic();
    fill(&mut fabric, A, 5);
    assert_eq!(control(&mut fabric), []);
    let mut fabric = dynamic();
    fill(&mut fabric, A, 7);
    // A control frame of 60 bytes takes 480 ns. Nothing else is on the wire to A.
    let said = control(&mut fabric);
    assert_eq!(said, [(1_480, A, true), (3 * 8_000 + 1_480, A, false)]);
    let towards = &fabric.stats().towards[0];
    assert_eq!((towards.offered, towards.delivered, towards.in_flight), (2, 2, 0));
}

/// The memory is shared: the bytes of one host lower the threshold of the other. Each host is paused on its own.
#[test]
fn hosts_share_the_memory() {
    let mut fabric = dynamic();
    fill(&mut fabric, A, 4);
    // With 4 frames of A and 3 of B, 3 frames are free. With the fourth frame of B, 2 are free.
    fill(&mut fabric, B, 3);
    let mut other = dynamic();
    fill(&mut other, A, 4);
    fill(&mut other, B, 4);
    assert_eq!(control(&mut fabric), []);
    let said = control(&mut other);
    assert_eq!(said.first().map(|(_, port, pauses)| (*port, *pauses)), Some((B, true)));
    assert!(said.iter().all(|(_, port, _)| *port == B), "{said:?}");
    assert_eq!(said.len(), 2, "a pause and a resumption");
}

/// A static threshold applies to each host alone. Two hosts that hold exactly the threshold are not paused. One
/// more frame of one host pauses that host, until it holds two frames less than the threshold.
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
    // A's frames were first. A resumes when three of its five frames have left.
    assert_eq!(control(&mut fabric), [(1_480, A, true), (3 * 8_000 + 1_480, A, false)]);
}

/// A pause goes before the frames that wait for the same host, and after the one on the wire.
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
