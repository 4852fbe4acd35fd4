//! The balance: a named counter accounts for every packet that a host sent, and for every fault that the fabric
//! injected.
//!
//! Sender, fabric and receiver count independently. The equations compare their counts, one direction at a time.

use std::collections::BTreeMap;

use fabric_model::{BitFlip, Corruption, LinkStats, Port};
use tiercel_node::NodeStats;
use tiercel_tests::LiveFabric;
use transport_common::connection::Statistics;
use transport_common::counters::Counter;

use crate::equation::Equation;
use crate::snapshot::Snapshot;

/// Length of an Ethernet header.
const ETHERNET: usize = 14;

/// Counters that only damaged packets increment.
const DAMAGE: [Counter; 10] = [
    Counter::DropUdpChecksum,
    Counter::DropIpv4Checksum,
    Counter::DropIpv4Header,
    Counter::DropIpv6Header,
    Counter::DropUdpLength,
    Counter::DropFragment,
    Counter::DropEthernetTruncated,
    Counter::PassPort,
    Counter::DropFalconLength,
    Counter::DropPspHeader,
];
/// Counters that both damaged packets and the hosts' own network stacks increment. At most as many as the
/// fabric's log shows count as damaged packets.
const SHARED: [Counter; 2] = [Counter::PassProtocol, Counter::PassAddress];
/// Counters of packets that arrived more than once, or too early.
const REDUNDANT: [Counter; 4] =
    [Counter::DropOldDuplicate, Counter::DropDuplicate, Counter::DropOutOfWindow, Counter::DropResources];
/// Counters of packets that were refused before the check of their window. If the machine stops for longer than
/// the replay margin, packets may arrive too late.
const REFUSED: [Counter; 5] = [
    Counter::DropReplay,
    Counter::DropSpi,
    Counter::DropFunction,
    Counter::DropUnknownCid,
    Counter::DropNotAlive,
];

/// The consequence of a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Increments the counter with this name.
    Counted(&'static str),
    /// No checksum covers the bit and nothing depends on it: the packet is handled like an undamaged one.
    Harmless,
}

/// Returns the equations of both directions.
pub(crate) fn of(end: &Snapshot, fabric: &LiveFabric) -> Vec<Equation> {
    let Some(statistics) = &end.fabric else { return Vec::new() };
    let [towards_a, towards_b] = &statistics.fabric.towards[..] else { return Vec::new() };
    let mut equations = Vec::new();
    let mut missing = Vec::new();
    let directions = [
        (["A", "B"], [&end.a, &end.b], towards_b, Port(1)),
        (["B", "A"], [&end.b, &end.a], towards_a, Port(0)),
    ];
    for (names, nodes, link, port) in directions {
        let direction = Direction { names, sender: nodes[0], receiver: nodes[1], link };
        missing.push(direction.missing());
        equations.extend(direction.equations(&fabric.corruptions(port)));
    }
    let kernel = Equation::new("Both: what the kernel dropped because the switch did not keep up")
        .left("frames of A missing at the fabric", missing[0])
        .left("frames of B", missing[1])
        .right("counted by the switch's sockets", statistics.overrun);
    let undeliverable = Equation::new("Both: what the switch could not deliver to the hosts")
        .left("undeliverable frames", statistics.undeliverable)
        .right("expected", 0);
    equations.extend([kernel, undeliverable]);
    equations
}

struct Direction<'a> {
    names: [&'static str; 2],
    sender: &'a NodeStats,
    receiver: &'a NodeStats,
    link: &'a LinkStats,
}

impl Direction<'_> {
    fn equations(&self, log: &[Corruption]) -> Vec<Equation> {
        let [from, to] = self.names;
        let corrupted = self.corrupted(log);
        let harmless = log.iter().filter(|corruption| fate(corruption) == Fate::Harmless).count() as u64;
        let caught = self.link.corrupted - harmless;
        vec![
            self.sent(format!("{from} → {to}: what {from} sent")),
            self.entered(format!("{from} → {to}: on the wire")),
            self.crossed(format!("{from} → {to}: what the fabric did")),
            corrupted,
            self.arrived(format!("{from} → {to}: what {to} received"), caught),
            self.accepted(format!("{from} → {to}: reliable packets at {to}")),
            self.duplicated(caught),
        ]
    }

    fn received(&self, counter: Counter) -> u64 {
        self.receiver.counters[counter.name()]
    }

    /// Returns the number of UDP frames that arrived at the link. All other frames are the hosts' own traffic,
    /// which the fabric does not impair.
    fn offered(&self) -> u64 {
        self.link.offered - self.link.spared
    }

    fn delivered(&self) -> u64 {
        self.link.delivered - self.link.spared
    }

    /// Returns the number of ACKs and NACKs that arrived and were not refused.
    fn acks_arrived(&self) -> u64 {
        let refused: u64 = REFUSED.map(|counter| self.received(counter)).iter().sum();
        self.received(Counter::Received).saturating_sub(self.receiver.connections.packets_received + refused)
    }

    /// Returns the number of copies of reliable packets after the first.
    fn copies(&self) -> u64 {
        let s = &self.sender.connections;
        s.retransmissions() + s.resyncs_sent
    }

    /// Returns the numbers of frames by the way in which they left the sender.
    fn frames(&self) -> [(&'static str, u64); 2] {
        [Counter::SentByEngine, Counter::SentInReceivedFrame]
            .map(Counter::name)
            .map(|name| (name, self.sender.counters[name]))
    }

    fn frames_sent(&self) -> u64 {
        self.frames().iter().map(|(_, n)| n).sum()
    }

    /// Returns the number of frames that left the sender and never arrived at the fabric.
    fn missing(&self) -> u64 {
        self.frames_sent().saturating_sub(self.offered())
    }

    /// Returns the number of acknowledgements that were booked but did not fit into the frame.
    /// `reply_by_engine` counts each. The engine sent, and booked, another one.
    fn unsent(&self) -> u64 {
        let s = &self.sender.connections;
        let booked = s.packets_sent + self.copies() + acks_sent(s);
        booked.saturating_sub(self.frames_sent()).min(self.sender.counters[Counter::ReplyByEngine.name()])
    }

    fn sent(&self, what: String) -> Equation {
        let s = &self.sender.connections;
        let equation = Equation::new(what)
            .left("new packets", s.packets_sent)
            .left("retransmitted early", s.retransmitted_early)
            .left("retransmitted by timeout", s.retransmitted_timeout)
            .left("retransmitted as the peer was not ready", s.retransmitted_rnr)
            .left("tail probes", s.tail_probes)
            .left("Resyncs", s.resyncs_sent)
            .left("ACKs and NACKs", acks_sent(s));
        let equation =
            self.frames().into_iter().fold(equation, |equation, (name, n)| equation.right(name, n));
        equation.right_if_any("ACKs left to the engine", self.unsent())
    }

    fn entered(&self, what: String) -> Equation {
        let equation = Equation::new(what);
        let equation = self.frames().into_iter().fold(equation, |equation, (name, n)| equation.left(name, n));
        equation.right("offered to the fabric", self.offered()).right_if_any("missing there", self.missing())
    }

    fn crossed(&self, what: String) -> Equation {
        let l = self.link;
        Equation::new(what)
            .left("offered", self.offered())
            .left("duplicated", l.duplicated)
            .right("delivered", self.delivered())
            .right("lost", l.lost)
            .right_if_any("lost in bursts", l.burst_lost)
            .right_if_any("dropped by the full queue", l.queue_dropped)
            .right_if_any("out of hops", l.hop_limit_expired)
            .right_if_any("dropped by the link being down", l.link_down_dropped)
            .right_if_any("in flight", l.in_flight)
    }

    /// Returns the equation that each corrupted packet incremented a counter.
    fn corrupted(&self, log: &[Corruption]) -> Equation {
        let [from, to] = self.names;
        let mut fates = BTreeMap::<_, u64>::new();
        for corruption in log {
            *fates.entry(fate(corruption)).or_default() += 1;
        }
        let expected = |counter: Counter| fates.get(&Fate::Counted(counter.name())).copied().unwrap_or(0);
        let mut equation = Equation::new(format!("{from} → {to}: every corrupted packet"))
            .left("corrupted by the fabric", self.link.corrupted);
        for counter in DAMAGE {
            equation = equation.right_if_any(counter.name(), self.received(counter));
        }
        for counter in SHARED {
            equation = equation.right_if_any(counter.name(), self.received(counter).min(expected(counter)));
        }
        let harmless = fates.get(&Fate::Harmless).copied().unwrap_or(0);
        equation.right_if_any("harmless (a bit that no checksum covers)", harmless)
    }

    fn arrived(&self, what: String, caught: u64) -> Equation {
        Equation::new(what)
            .left("delivered by the fabric", self.delivered())
            .right("packets that passed the parser", self.received(Counter::Received))
            .right("refused as corrupted", caught)
    }

    /// Returns the equation that each new packet was accepted once, and that all its other copies have a counter.
    fn accepted(&self, what: String) -> Equation {
        let mut equation = Equation::new(what)
            .left("arrived", self.receiver.connections.packets_received)
            .right(format!("new packets of {}", self.names[0]), self.sender.connections.packets_sent);
        for counter in REDUNDANT {
            equation = equation.right_if_any(counter.name(), self.received(counter));
        }
        equation
    }

    /// Returns the equation for duplicates. Each one arrived in addition to the packets that arrive without it.
    /// It is either a reliable packet, which is dropped under a named counter, or an acknowledgement, which
    /// does no harm.
    fn duplicated(&self, caught: u64) -> Equation {
        let [from, to] = self.names;
        let mut equation = Equation::new(format!("{from} → {to}: every duplicate, and every other copy"))
            .left("duplicated by the fabric", self.link.duplicated)
            .left("retransmitted", self.copies())
            .left("ACKs and NACKs sent", acks_sent(&self.sender.connections))
            .right("lost", self.link.dropped() + self.missing())
            .right_if_any("ACKs left to the engine", self.unsent())
            .right("corrupted", caught)
            .right("ACKs and NACKs arrived", self.acks_arrived());
        for counter in REDUNDANT.into_iter().chain(REFUSED) {
            equation = equation.right_if_any(counter.name(), self.received(counter));
        }
        equation
    }
}

fn acks_sent(s: &Statistics) -> u64 {
    s.backs_sent + s.eacks_sent + s.nacks_sent
}

/// Returns what the receiver does with a packet in which one bit was flipped.
fn fate(corruption: &Corruption) -> Fate {
    let (header, flip) = (&corruption.header, corruption.flips[0]);
    let at = flip.offset - ETHERNET;
    let ipv6 = header[ETHERNET] >> 4 == 6;
    let network = if ipv6 { 40 } else { 20 };
    let counter = match (at, ipv6) {
        // Version and header length, 4 and 5. The length becomes 4 or 1, which is too short, or 7 or 13. The
        // latter two announce options, and with these the checksum is wrong.
        (0, false) if !matches!(flip.bit, 1 | 3) => Counter::DropIpv4Header,
        (0..20, false) => Counter::DropIpv4Checksum,
        (0, true) if flip.bit >= 4 => Counter::DropIpv6Header,
        // Traffic class, flow label and hop limit are not in the pseudo header.
        (0..4 | 7, true) => return Fate::Harmless,
        // Longer than the frame, or shorter than UDP says.
        (4..6, true) if header[flip.offset] & 1 << flip.bit == 0 => Counter::DropIpv6Header,
        (4..6, true) => Counter::DropUdpLength,
        (6, true) => Counter::PassProtocol,
        (8..24, true) => Counter::DropUdpChecksum,
        (24..40, true) => Counter::PassAddress,
        _ => match at - network {
            2..4 => Counter::PassPort,
            4..6 => Counter::DropUdpLength,
            6..8 if is_last_one(header, flip, ETHERNET + network + 6) => return Fate::Harmless,
            _ => Counter::DropUdpChecksum,
        },
    };
    Fate::Counted(counter.name())
}

/// Returns whether the flip makes the UDP checksum at `at` zero, which means that there is no checksum.
fn is_last_one(header: &[u8], flip: BitFlip, at: usize) -> bool {
    let mut checksum = [header[at], header[at + 1]];
    checksum[flip.offset - at] ^= 1 << flip.bit;
    checksum == [0; 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flipped(first: u8, offset: usize, bit: u8) -> Fate {
        let mut header = vec![0; 62];
        header[ETHERNET] = first;
        header[ETHERNET + 5] = 0x10;
        // The UDP checksum of IPv4: a single one.
        header[41] = 1;
        let flips = vec![BitFlip { offset, bit }];
        fate(&Corruption { ingress: 0, ordinal: 0, copy: 0, header, length: 500, flips })
    }

    #[test]
    fn each_field_has_the_counter_of_its_check() {
        let counted = |counter: Counter| Fate::Counted(counter.name());
        for (offset, bit, counter) in [
            (14, 6, Counter::DropIpv4Header),
            (14, 0, Counter::DropIpv4Header),
            (14, 1, Counter::DropIpv4Checksum),
            (14, 3, Counter::DropIpv4Checksum),
            (20, 5, Counter::DropIpv4Checksum),
            (33, 0, Counter::DropIpv4Checksum),
            (34, 0, Counter::DropUdpChecksum),
            (37, 7, Counter::PassPort),
            (38, 0, Counter::DropUdpLength),
            (40, 0, Counter::DropUdpChecksum),
            (499, 3, Counter::DropUdpChecksum),
        ] {
            assert_eq!(flipped(0x45, offset, bit), counted(counter), "IPv4, byte {offset}, bit {bit}");
        }
        for (offset, bit, counter) in [
            (14, 4, Counter::DropIpv6Header),
            (19, 0, Counter::DropIpv6Header),
            (19, 4, Counter::DropUdpLength),
            (20, 1, Counter::PassProtocol),
            (22, 0, Counter::DropUdpChecksum),
            (38, 0, Counter::PassAddress),
            (54, 0, Counter::DropUdpChecksum),
            (56, 0, Counter::PassPort),
            (58, 0, Counter::DropUdpLength),
        ] {
            assert_eq!(flipped(0x60, offset, bit), counted(counter), "IPv6, byte {offset}, bit {bit}");
        }
        for offset in [14, 15, 17, 21] {
            assert_eq!(flipped(0x60, offset, 0), Fate::Harmless);
        }
        assert_eq!(flipped(0x45, 41, 0), Fate::Harmless);
        assert_eq!(flipped(0x45, 41, 1), counted(Counter::DropUdpChecksum));
    }
}
