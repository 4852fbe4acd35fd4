//! A peer that acknowledges late, and what came last before what came first: all of that is legal.
//!
//! Nothing says when a packet that arrived is acknowledged, and a response need not acknowledge its request (D-54). An EACK is
//! always legal (F-9.1.6-8). So a host may keep all of a window to itself for a time, or only the oldest packet of it.
//!
//! One seed in six has a link whose one end reads much while one of its hosts acknowledges in such a way, in addition to what
//! else its scenario has. A generator of its own draws what is different there. So the other seeds are the same runs as
//! without.

mod frame;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use fabric_model::{Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::packet_delivery::{DATA_WINDOW, REQUEST_WINDOW, Window};
use transport_common::queues::SEND_QUEUE_DEPTH;

use super::draw::scale;
use super::faults::{Fault, FaultKind, Lateness};
use super::scenario::{Link, Scenario};
use frame::Packet;

/// Sizes of the windows, by [`Window`]. A base that is further away belongs to another connection with this CID.
const WINDOWS: [u32; 2] = [DATA_WINDOW, REQUEST_WINDOW];
/// One seed in so many has a link that reads much and a host that acknowledges late.
const LATE: u32 = 6;
/// Operations of the end that reads much: more than its target keeps answers for. The memory of an end has room for them.
const OPERATIONS: RangeInclusive<usize> = 270..=300;
/// For how long its host, or its peer's, acknowledges late, nanoseconds.
const LENGTH: RangeInclusive<u64> = 20_000_000..=60_000_000;

/// What a host keeps to itself.
#[derive(Debug)]
pub(super) struct LateAcknowledgements {
    /// The host.
    pub host: usize,
    /// When it tells everything again.
    pub until: Time,
    /// What it keeps to itself.
    pub lateness: Lateness,
    /// The bases that it tells, by receiver and CID: those of its first packet.
    told: HashMap<(u8, [u8; 4]), [u32; 2]>,
}

impl LateAcknowledgements {
    pub(super) fn new(host: usize, lateness: Lateness, until: Time) -> Self {
        Self { host, until, lateness, told: HashMap::new() }
    }

    /// Changes a frame of the host: it acknowledges nothing that the host is to keep to itself and has not acknowledged
    /// before. Returns whether it is late: a base is older than it could be. If only the oldest packets are kept back, whether
    /// something behind one of them is acknowledged.
    pub(super) fn hold_back(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(packet) = Packet::of(frame) else { return false };
        let bases = packet.bases(frame);
        let told = self.told.entry(packet.connection(frame)).or_insert(bases);
        let behind: [u32; 2] = core::array::from_fn(|w| {
            let (behind, before) = (bases[w].wrapping_sub(told[w]), told[w].wrapping_sub(bases[w]));
            if behind <= WINDOWS[w] {
                return behind;
            }
            // A frame that was made earlier tells less by itself.
            if before > WINDOWS[w] {
                told[w] = bases[w];
            }
            0
        });
        match self.lateness {
            Lateness::Window(window) => {
                let behind = behind[window as usize];
                packet.hold_back(frame, window, bases[window as usize].wrapping_sub(behind));
                behind != 0
            }
            Lateness::Oldest => packet.leave_out_the_oldest(frame, behind),
        }
    }
}

impl Scenario {
    /// Lets a host of a scenario acknowledge late, if its seed says so.
    pub(super) fn add_lateness(&mut self) {
        let mut rng = StdRng::seed_from_u64(self.seed ^ 0x1a7e5);
        let rng = &mut rng;
        // In a crowd each connection has few operations, and a link that keeps a queue full has a number of its own.
        let occupied = self.hosts.len() > 3 || self.links.iter().any(|link| link.keen != [false; 2]);
        if !rng.random_ratio(1, LATE) || occupied {
            return;
        }
        let (number, side) = (rng.random_range(0..self.links.len()), rng.random_range(0..2));
        let link = &mut self.links[number];
        link.read_much(rng, side);
        let hosts = link.ends.map(|end| end.host);
        let (reader, target) = (hosts[side], hosts[1 - side]);
        // The target keeps all its answers, or the oldest request is open when all others are done.
        let first = if rng.random_bool(0.5) {
            (reader, Lateness::Window(Window::Data))
        } else {
            (target, Lateness::Oldest)
        };
        let lateness = Lateness::ALL[rng.random_range(0..Lateness::ALL.len())];
        let second = (hosts[rng.random_range(0..2)], lateness);
        for ((host, lateness), latest) in [(first, 300_000), (second, 20_000_000)] {
            let kind = FaultKind::Late { host, lateness, length: Span::from_nanos(rng.random_range(LENGTH)) };
            let at = Time::ZERO + Span::from_nanos(scale(rng, 1_000, latest));
            self.faults.push(Fault { at, kind });
        }
        self.faults.sort_by_key(|fault| fault.at);
    }
}

impl Link {
    /// Lets one end have its send queue full, of READs above all.
    fn read_much(&mut self, rng: &mut StdRng, side: usize) {
        self.keen[side] = true;
        self.depth[side] = SEND_QUEUE_DEPTH;
        self.operations[side] = rng.random_range(OPERATIONS);
        self.mix[side][1] += rng.random_range(100..1000);
    }
}
