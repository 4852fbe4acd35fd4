//! Security of a connection (sections 6.5, 9.2.1, 9.2.2): which senders are accepted, and which packets are new.

use crate::counters::Counter;
use crate::ids::Spi;
use crate::units::Picoseconds;
use crate::wire::packet::Packet;
use bytemuck::{Pod, Zeroable};

/// Largest drift between the peer's clock and ours: 2^-10 of the time that has passed.
const DRIFT_SHIFT: u32 = 10;

/// A tick of the protocol's clock is 2^17 ps, as in [`crate::units::FalconTime`].
const TICK_SHIFT: u32 = 17;

/// Security state of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Security {
    /// Newest IV accepted (F-9.2.1-5).
    pub remote_time: u64,
    /// Last IV assigned. The next one is larger (D-12).
    pub last_iv: u64,
    /// Accepted lead of the peer's clock over ours, picoseconds.
    pub clock_lead: u64,
    /// Time of the last update of `clock_lead` by our clock, picoseconds; 0 before the first packet.
    pub clock_seen: u64,
    /// Replay protection margin in picoseconds (F-9.2.1-7).
    pub replay_margin: u64,
    /// Peer's address, its bytes in memory order; IPv4 in the first 4 bytes.
    pub peer: [u64; 2],
    /// SPI written into packets to the peer.
    pub tx_spi: Spi,
    /// SPI expected in packets to us; 0 rejects everything (F-9.2.2.3-8).
    pub rx_spi: Spi,
    /// PSP version on this connection; 15 is plaintext (D-83).
    pub version: u8,
    /// 0 until `remote_time` has a value (D-87).
    pub remote_time_known: u8,
    /// Always 0.
    pub reserved: [u8; 6],
}

impl Security {
    /// Checks a packet's version, source, SPI and IV, and records the newest IV. If the packet is refused, returns
    /// the reason and changes nothing (D-23).
    #[inline(always)]
    pub fn check(&mut self, packet: &Packet, now: Picoseconds) -> Option<Counter> {
        if packet.psp_version != self.version {
            return Some(Counter::DropPspHeader);
        }
        if packet.source[0] != self.peer[0] || packet.source[1] != self.peer[1] {
            return Some(Counter::DropSource);
        }
        if self.rx_spi.0 == 0 || self.rx_spi.0 != packet.spi {
            return Some(Counter::DropSpi); // F-9.2.2.3-8
        }
        if self.remote_time_known != 0 {
            let edge = self.remote_time.wrapping_sub(self.replay_margin);
            if packet.iv.wrapping_sub(edge) as i64 <= 0 {
                return Some(Counter::DropReplay); // D-56
            }
        }
        if !self.follows_clock(packet.iv, now) {
            return Some(Counter::DropIvAhead);
        }
        if self.remote_time_known == 0 || packet.iv.wrapping_sub(self.remote_time) as i64 > 0 {
            self.remote_time = packet.iv; // D-57, D-87
            self.remote_time_known = 1;
        }
        None
    }

    /// Returns whether an IV is no further ahead than the peer's clock can be, with the replay margin as
    /// tolerance. A forged IV from the future would otherwise make all later packets look like replays. The
    /// recorded lead of the peer's clock changes no faster than clocks drift, so many small steps gain nothing
    /// either.
    #[inline(always)]
    fn follows_clock(&mut self, iv: u64, now: Picoseconds) -> bool {
        // The time is rounded to whole ticks, plus one. So the recorded values are the same wherever a recording
        // is replayed, and never 0.
        let now = Picoseconds(((now.0 >> TICK_SHIFT) + 1) << TICK_SHIFT);
        let lead = iv.wrapping_sub(now.0);
        if self.clock_seen == 0 {
            self.clock_lead = lead;
            self.clock_seen = now.0;
            return true;
        }
        let drift = now.0.wrapping_sub(self.clock_seen) >> DRIFT_SHIFT;
        let change = lead.wrapping_sub(self.clock_lead) as i64;
        if change > (self.replay_margin.wrapping_add(drift)) as i64 {
            return false;
        }
        let drift = drift as i64;
        let step = if change > drift {
            drift
        } else if change < -drift {
            -drift
        } else {
            change
        };
        self.clock_lead = self.clock_lead.wrapping_add(step as u64);
        self.clock_seen = now.0;
        true
    }

    /// Forgets the peer's clock. The peer's next packet that passes all other checks sets it again, as on a new
    /// connection (D-87). For a peer that is known to have restarted: its packets alone cannot be distinguished
    /// from replays.
    pub fn expect_restart(&mut self) {
        self.remote_time_known = 0;
        self.clock_seen = 0;
    }

    /// Returns the next IV: the clock, but always larger than the last IV (D-12, D-90).
    #[inline(always)]
    pub fn next_iv(&mut self, now: Picoseconds) -> u64 {
        let last = self.last_iv;
        let iv = if (now.0.wrapping_sub(last) as i64) > 0 { now.0 } else { last.wrapping_add(1) };
        self.last_iv = iv;
        iv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: u64 = 100_000_000_000;
    const SECOND: u64 = 1_000_000_000_000;

    fn security() -> Security {
        let (rx_spi, version) = (Spi(7), 15);
        Security { rx_spi, version, replay_margin: MARGIN, peer: [1, 2], ..Security::default() }
    }

    fn packet(iv: u64) -> Packet {
        Packet { psp_version: 15, source: [1, 2], spi: 7, iv, ..Packet::default() }
    }

    #[test]
    fn a_packet_from_the_future_locks_nobody_out() {
        let mut s = security();
        let (here, there) = (5 * SECOND, 900 * SECOND);
        assert_eq!(s.check(&packet(there), Picoseconds(here)), None);
        // Each forged packet goes as far ahead as the previous one allows.
        for n in 1..1000 {
            s.check(&packet(there + n * MARGIN), Picoseconds(here + n));
            s.check(&packet(s.remote_time + MARGIN), Picoseconds(here + n));
        }
        assert_eq!(
            s.check(&packet(there + 2000), Picoseconds(here + 2000)),
            None,
            "the peer is still accepted"
        );
        assert_eq!(s.check(&packet(there + SECOND), Picoseconds(here + 3000)), Some(Counter::DropIvAhead));
    }

    #[test]
    fn clocks_that_drift_are_followed() {
        let mut s = security();
        let (here, there) = (5 * SECOND, 900 * SECOND);
        for second in 0..100_000 {
            // 500 ppm fast: 50 s ahead at the end.
            let fast = there + second * (SECOND + SECOND / 2000);
            assert_eq!(s.check(&packet(fast), Picoseconds(here + second * SECOND)), None, "second {second}");
        }
    }

    #[test]
    fn a_peer_that_restarted_is_heard_again_once_that_is_known() {
        let mut s = security();
        let now = Picoseconds(5 * SECOND);
        assert_eq!(s.check(&packet(900 * SECOND), now), None);
        assert_eq!(s.check(&packet(2 * SECOND), now), Some(Counter::DropReplay));
        s.expect_restart();
        assert_eq!(s.check(&packet(2 * SECOND), now), None);
        assert_eq!(
            s.check(&packet(900 * SECOND), now),
            Some(Counter::DropIvAhead),
            "the old clock is forgotten"
        );
    }

    #[test]
    fn another_source_is_refused_whatever_else_is_right() {
        let mut s = security();
        let forged = Packet { source: [1, 3], ..packet(1) };
        assert_eq!(s.check(&forged, Picoseconds(1)), Some(Counter::DropSource));
        assert_eq!(s.remote_time_known, 0, "a refused packet changes nothing");
    }
}
