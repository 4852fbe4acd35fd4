//! Security of a connection (sections 6.5, 9.2.1, 9.2.2): which senders are accepted, and which packets are new.

use crate::counters::Counter;
use crate::ids::Spi;
use crate::units::{PicosecondSpan, Picoseconds, Ticks};
use crate::wire::packet::Packet;
use bytemuck::{Pod, Zeroable};

/// Largest drift between the peer's clock and ours: 2^-10 of the time that has passed.
const DRIFT_SHIFT: u32 = 10;

/// A round of the estimate of the peer's clock lasts 2^43 ps, 8.8 s.
const ROUND: PicosecondSpan = PicosecondSpan(1 << 43);

/// Largest error of the peer's clock as the connection manager knows it: the peer may have read its clock that long
/// before its message arrived. Longer than the connection manager waits for a message, and for the connection to it.
const SETUP: PicosecondSpan = PicosecondSpan(1 << 43);

/// The peer's clock, as known before its first packet (F-9.2.1-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTime {
    /// Newest IV that counts as received already, a time of the peer's clock.
    pub iv: Picoseconds,
    /// Our clock when the peer's showed `iv`, to within the time that the handshake of the connection manager takes.
    /// `None` if that is not known, as for a value from a node file: then the first packet sets it (D-87).
    pub read_at: Option<Picoseconds>,
}

impl From<Picoseconds> for RemoteTime {
    fn from(iv: Picoseconds) -> Self {
        Self { iv, read_at: None }
    }
}

/// The inner addresses of a connection in tunnel mode, their bytes in memory order; IPv4 in the first 4 bytes
/// (F-7.1.2-1).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Tunnel {
    /// Source of our inner packets.
    pub local: [u64; 2],
    /// Source of the peer's inner packets.
    pub peer: [u64; 2],
}

impl Tunnel {
    /// Returns whether a packet in tunnel mode has these inner addresses. A function of its own, because packets in
    /// transport mode do not need it.
    #[inline(never)]
    const fn carries(&self, packet: &Packet) -> bool {
        let (from, to) = (&packet.inner_source, &packet.inner_destination);
        from[0] == self.peer[0] && from[1] == self.peer[1] && to[0] == self.local[0] && to[1] == self.local[1]
    }
}

/// The estimate of the peer's clock (D-57, D-87).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PeerClock {
    /// Estimated lead of the peer's clock over ours, modulo 2^64.
    pub lead: PicosecondSpan,
    /// Time of the last packet by our clock; 0 while nothing is known of the peer's clock.
    pub seen: Picoseconds,
    /// Start of the current round, when the estimate was last decided, by our clock.
    pub round: Picoseconds,
    /// The step of the estimate on which all packets of the round agree, picoseconds; 0 if they do not agree.
    pub step: i64,
}

/// Security state of a connection.
///
/// ```
/// use transport_common::counters::Counter;
/// use transport_common::ids::Spi;
/// use transport_common::security::{PeerClock, Security, Tunnel};
/// use transport_common::units::{PicosecondSpan, Picoseconds};
/// use transport_common::wire::packet::Packet;
///
/// let time = |milliseconds: u64| Picoseconds::from_nanos(milliseconds * 1_000_000);
/// let mut security = Security {
///     version: 15,
///     peer: [1, 0],
///     rx_spi: Spi(8),
///     replay_margin: PicosecondSpan::from_nanos(10_000_000),
///     ..Security::default()
/// };
/// let sent_at = |milliseconds| Packet {
///     psp_version: 15,
///     source: [1, 0],
///     spi: 8,
///     iv: time(milliseconds),
///     ..Packet::default()
/// };
/// let (mut clock, no_tunnel) = (PeerClock::default(), Tunnel::default());
/// assert_eq!(security.check(&mut clock, &no_tunnel, &sent_at(100), time(500)), None);
/// let reordered = sent_at(95);
/// assert_eq!(security.check(&mut clock, &no_tunnel, &reordered, time(501)), None, "within the margin");
///
/// // A refused packet changes nothing.
/// let before = security;
/// let mut refused = |packet: Packet| security.check(&mut clock, &no_tunnel, &packet, time(502));
/// assert_eq!(refused(sent_at(80)), Some(Counter::DropReplay));
/// assert_eq!(refused(sent_at(200)), Some(Counter::DropIvAhead));
/// assert_eq!(refused(Packet { spi: 9, ..sent_at(101) }), Some(Counter::DropSpi));
/// assert_eq!(refused(Packet { source: [2, 0], ..sent_at(101) }), Some(Counter::DropSource));
/// assert_eq!(security, before);
///
/// // Our own IVs grow, even if the clock does not.
/// let iv = security.next_iv(time(502));
/// assert!(security.next_iv(time(502)).is_later_than(iv));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Security {
    /// Newest IV accepted (F-9.2.1-5).
    pub remote_time: Picoseconds,
    /// Last IV assigned. The next one is larger (D-12).
    pub last_iv: Picoseconds,
    /// Replay protection margin (F-9.2.1-7).
    pub replay_margin: PicosecondSpan,
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
    /// IP version of inner packets in tunnel mode, 4 or 6; 0 in transport mode (F-7.1.2-1).
    pub inner_version: u8,
    /// Always 0.
    pub reserved: [u8; 5],
}

/// Packets that the security check of a connection refused, by cause (D-59).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct SecurityDrops {
    /// [`Counter::DropSource`].
    pub source: u64,
    /// [`Counter::DropTunnel`].
    pub tunnel: u64,
    /// [`Counter::DropSpi`].
    pub spi: u64,
    /// [`Counter::DropReplay`].
    pub replay: u64,
    /// [`Counter::DropIvAhead`].
    pub iv_ahead: u64,
    /// [`Counter::DropPspHeader`]: another PSP version than the connection's.
    pub version: u64,
}

impl SecurityDrops {
    /// The causes in the order of the fields.
    pub const CAUSES: [Counter; 6] = [
        Counter::DropSource,
        Counter::DropTunnel,
        Counter::DropSpi,
        Counter::DropReplay,
        Counter::DropIvAhead,
        Counter::DropPspHeader,
    ];

    /// Counts a packet. `cause` is one of [`Self::CAUSES`].
    #[inline(always)]
    pub fn count(&mut self, cause: Counter) {
        // All causes but the last have consecutive numbers. A number below them wraps.
        let first = (cause as u32).wrapping_sub(Self::CAUSES[0] as u32);
        let counts: &mut [u64; Self::CAUSES.len()] = bytemuck::cast_mut(self);
        counts[first.min(Self::CAUSES.len() as u32 - 1) as usize] += 1;
    }

    /// Returns the counts in the order of [`Self::CAUSES`].
    #[must_use]
    pub fn counts(self) -> [u64; Self::CAUSES.len()] {
        bytemuck::cast(self)
    }
}

const _: () = {
    let mut n = 1;
    while n < SecurityDrops::CAUSES.len() - 1 {
        assert!(SecurityDrops::CAUSES[n] as u32 == SecurityDrops::CAUSES[0] as u32 + n as u32);
        n += 1;
    }
    assert!((SecurityDrops::CAUSES[n] as u32) < SecurityDrops::CAUSES[0] as u32);
};

impl PeerClock {
    /// Returns whether an IV is no further ahead than the peer's clock can be: by the replay margin and the drift
    /// since the estimate of that clock was last decided. Updates the estimate.
    ///
    /// In plaintext mode, a forged packet that passes the other checks looks like one of the peer. Two rules keep it
    /// from making the peer's packets look like replays:
    ///
    /// - Remote Time follows an IV no further than half the margin ahead of the estimated clock ([`Security::check`]).
    /// - The estimate moves once in a round, no faster than clocks drift, and only if all packets of the round agree
    ///   on the direction. Then it moves by the smallest of their differences.
    ///
    /// So while the peer sends a packet in each round, forged packets, however many, cannot move the estimate beyond
    /// the peer's own packets. All of these are accepted if their delays differ by less than half the margin. Forged
    /// packets can do three things. They can keep the estimate from moving at all: clocks that differ by 20 ppm are
    /// half of the default margin apart after 40 minutes of that. If the peer is silent for a round or longer, they
    /// can move the estimate by 2^-10 of the time of silence, and keep it there when the peer sends again, so silences
    /// during an attack add up. And on a connection that knows nothing of the peer's
    /// clock, a forged packet can be the first one (D-87).
    #[inline(never)]
    fn follows(&mut self, iv: Picoseconds, now: Picoseconds, margin: PicosecondSpan) -> bool {
        // On rounded time, the recorded values are the same wherever a recording is replayed.
        let now = on_tick(now);
        if self.seen.0 == 0 {
            self.lead = iv.since(now);
            self.seen = now;
            self.round = now;
            return true;
        }
        // Another CPU may have read the clock later and taken the lock earlier.
        let silence = now.since(self.seen);
        let (now, silence) =
            if silence.signed() < 0 { (self.seen, PicosecondSpan(0)) } else { (now, silence) };
        let change = iv.since(now).minus(self.lead).signed();
        let elapsed = now.since(self.round);
        let drift = PicosecondSpan(elapsed.0 >> DRIFT_SHIFT);
        let most = margin.plus(drift).signed();
        if change > most {
            return false;
        }
        if change < -most {
            return true; // it waited, for example for a machine that was suspended, and says nothing of the clock
        }
        let is_first = silence >= ROUND || self.seen == self.round;
        let step = if is_first { change } else { agreed(self.step, change) };
        if elapsed >= ROUND {
            let step = step.clamp(-drift.signed(), drift.signed());
            self.lead = self.lead.plus(PicosecondSpan(step as u64));
            self.round = now;
        }
        self.step = step;
        self.seen = now;
        true
    }
}

impl Security {
    /// Checks a packet's version, source, tunnel, SPI and IV, and records the newest IV and the peer's clock. If the packet
    /// is refused, returns the reason and changes nothing (D-23).
    #[inline(always)]
    pub fn check(
        &mut self,
        clock: &mut PeerClock,
        tunnel: &Tunnel,
        packet: &Packet,
        now: Picoseconds,
    ) -> Option<Counter> {
        if packet.psp_version != self.version {
            return Some(Counter::DropPspHeader);
        }
        if packet.source[0] != self.peer[0] || packet.source[1] != self.peer[1] {
            return Some(Counter::DropSource);
        }
        if packet.inner_version != self.inner_version || self.inner_version != 0 && !tunnel.carries(packet) {
            return Some(Counter::DropTunnel); // F-7.1.2-1
        }
        if self.rx_spi.0 == 0 || self.rx_spi.0 != packet.spi {
            return Some(Counter::DropSpi); // F-9.2.2.3-8
        }
        if self.remote_time_known != 0 {
            let edge = self.remote_time.before(self.replay_margin);
            if !packet.iv.is_later_than(edge) {
                return Some(Counter::DropReplay); // D-56
            }
        }
        if !clock.follows(packet.iv, now, self.replay_margin) {
            return Some(Counter::DropIvAhead);
        }
        let half_margin = PicosecondSpan(self.replay_margin.0 / 2);
        let most = clock.seen.after(clock.lead).after(half_margin);
        let time = if packet.iv.is_later_than(most) { most } else { packet.iv };
        if self.remote_time_known == 0 || time.is_later_than(self.remote_time) {
            self.remote_time = time; // D-57, D-87
            self.remote_time_known = 1;
        }
        None
    }

    /// Sets what is known of the peer's clock before its first packet.
    pub fn know_clock(&mut self, clock: &mut PeerClock, time: RemoteTime) {
        self.remote_time = time.iv;
        self.remote_time_known = 1;
        if let Some(at) = time.read_at {
            let at = on_tick(at);
            clock.lead = time.iv.since(at);
            // So the drift that the first packet may show is the error of `read_at`.
            clock.round = at.before(PicosecondSpan(SETUP.0 << DRIFT_SHIFT));
            clock.seen = clock.round;
        }
    }

    /// Returns the next IV: the clock, but always larger than the last IV (D-12, D-90).
    #[inline(always)]
    pub fn next_iv(&mut self, now: Picoseconds) -> Picoseconds {
        let last = self.last_iv;
        let iv = if now.is_later_than(last) { now } else { last.after(PicosecondSpan(1)) };
        self.last_iv = iv;
        iv
    }
}

/// Rounds a time to whole ticks, plus one, so that it is not 0.
#[inline(always)]
const fn on_tick(time: Picoseconds) -> Picoseconds {
    Picoseconds(((time.0 >> Ticks::PICOS_SHIFT) + 1) << Ticks::PICOS_SHIFT)
}

/// Returns the step that is part of both steps: 0 if they have different directions.
#[inline(always)]
const fn agreed(a: i64, b: i64) -> i64 {
    if a > 0 && b > 0 {
        if a < b { a } else { b }
    } else if a < 0 && b < 0 {
        if a > b { a } else { b }
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: PicosecondSpan = PicosecondSpan::from_nanos(100_000_000);
    const MILLI: u64 = 1_000_000_000;
    const SECOND: u64 = 1000 * MILLI;
    /// Our clock and the peer's at the start.
    const HERE: u64 = 5 * SECOND;
    const THERE: u64 = 900 * SECOND;

    /// The security of a connection, with what it rarely uses.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Guard {
        security: Security,
        clock: PeerClock,
        tunnel: Tunnel,
    }

    impl Guard {
        fn of(security: Security) -> Self {
            Self { security, clock: PeerClock::default(), tunnel: Tunnel::default() }
        }

        fn check(&mut self, packet: &Packet, now: Picoseconds) -> Option<Counter> {
            self.security.check(&mut self.clock, &self.tunnel, packet, now)
        }

        fn know_clock(&mut self, time: RemoteTime) {
            self.security.know_clock(&mut self.clock, time);
        }
    }

    fn plain() -> Security {
        let (rx_spi, version) = (Spi(7), 15);
        Security { rx_spi, version, replay_margin: MARGIN, peer: [1, 2], ..Security::default() }
    }

    fn security() -> Guard {
        Guard::of(plain())
    }

    fn packet(iv: u64) -> Packet {
        Packet { psp_version: 15, source: [1, 2], spi: 7, iv: Picoseconds(iv), ..Packet::default() }
    }

    /// Sends a packet of the peer at `time` after the start, `ahead` picoseconds ahead of the peer's clock.
    fn send(s: &mut Guard, time: u64, ahead: u64) -> Option<Counter> {
        s.check(&packet((THERE + time).wrapping_add(ahead)), Picoseconds(HERE + time))
    }

    /// Sends the packet that is furthest ahead of those that the connection accepts.
    fn forge(s: &mut Guard, time: u64) {
        let (mut accepted, mut refused) = (0, 1 << 50);
        while refused - accepted > MILLI / 1000 {
            let middle = accepted + (refused - accepted) / 2;
            match send(&mut { *s }, time, middle) {
                Some(Counter::DropIvAhead) => refused = middle,
                _ => accepted = middle,
            }
        }
        assert_eq!(send(s, time, accepted), None, "at {time}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many packets")]
    fn packets_from_the_future_lock_nobody_out() {
        // Idle for a second, then forged packets at 1000 per second. The peer sends as many, or one in 4 s. Its packets
        // are up to 40 ms late.
        for pause in [1, 10, 4000] {
            let mut s = security();
            assert_eq!(send(&mut s, 0, 0), None);
            for milli in 1000..201_000 {
                let time = milli * MILLI;
                forge(&mut s, time);
                if milli % pause == 0 {
                    let late = (milli / pause * 7 % 41) * MILLI;
                    let verdict = send(&mut s, time + 1000, late.wrapping_neg());
                    assert_eq!(verdict, None, "a packet of the peer, {late} ps late, at {time}");
                }
            }
            assert_eq!(send(&mut s, 300 * SECOND, SECOND), Some(Counter::DropIvAhead));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many packets")]
    fn packets_from_the_past_lock_nobody_out() {
        let mut s = security();
        for milli in 0..100_000 {
            let time = milli * MILLI;
            assert_eq!(send(&mut s, time, 0), None, "at {time}");
            // As old as the margin allows.
            let old = s.security.remote_time.before(MARGIN).after(PicosecondSpan(1));
            assert_eq!(s.check(&packet(old.0), Picoseconds(HERE + time)), None);
        }
        assert_eq!(
            send(&mut s, 100 * SECOND, MARGIN.0 / 2),
            None,
            "a packet that waited less than the others"
        );
    }

    #[test]
    fn the_edge_follows_the_newest_packet() {
        let mut s = security();
        for (time, ahead) in [(0, 0), (1, 40), (2, 49), (1000, 3)] {
            assert_eq!(send(&mut s, time * MILLI, ahead * MILLI), None);
            assert_eq!(
                s.security.remote_time,
                Picoseconds(THERE + (time + ahead) * MILLI),
                "D-56: an IV up to half the margin ahead"
            );
        }
    }

    #[test]
    fn a_delay_that_ends_is_no_forgery() {
        let mut s = security();
        for milli in 0..100_000 {
            // The first packets waited 90 ms longer than the others.
            let ahead = if milli < 100 { 0 } else { 90 * MILLI };
            assert_eq!(send(&mut s, milli * MILLI, ahead), None, "at {milli} ms");
        }
        assert_eq!(
            s.security.remote_time,
            Picoseconds(THERE + 99_999 * MILLI + 90 * MILLI),
            "the estimate has followed"
        );
    }

    /// Frames of the peer wait while a machine is suspended, and its clock goes on.
    #[test]
    fn what_waited_for_long_says_nothing_of_the_clock() {
        for stop in [20, 300, 100_000] {
            let mut s = security();
            assert_eq!(send(&mut s, 0, 0), None);
            let now = stop * SECOND;
            assert_eq!(send(&mut s, now, (now - MILLI).wrapping_neg()), None, "sent after the first");
            assert_eq!(send(&mut s, now + MILLI, 0), None, "{stop} s later");
            assert_eq!(s.security.remote_time, Picoseconds(THERE + now + MILLI));
        }
    }

    #[test]
    fn a_time_that_was_read_too_early_opens_nothing() {
        let mut s = security();
        assert_eq!(send(&mut s, SECOND, 0), None);
        // Another CPU read the clock before, and took the lock after.
        let forged = packet(THERE + 1000 * SECOND);
        assert_eq!(s.check(&forged, Picoseconds(HERE + SECOND - MILLI)), Some(Counter::DropIvAhead));
        assert_eq!(send(&mut s, SECOND - MILLI, 0), None);
    }

    /// D-87: the peer's clock as the connection manager knows it. The first packet, too, has to fit it.
    #[test]
    fn the_first_packet_has_to_fit_the_agreed_clock() {
        let mut s = Guard::of(Security { remote_time: Picoseconds(THERE), remote_time_known: 1, ..plain() });
        s.know_clock(RemoteTime { iv: Picoseconds(THERE), read_at: Some(Picoseconds(HERE)) });
        let untouched = s;
        assert_eq!(send(&mut s, MILLI, 20 * SECOND), Some(Counter::DropIvAhead));
        assert_eq!(s, untouched, "a refused packet changes nothing");
        // The peer read its clock 4 s before the message arrived.
        for milli in 1..20_000 {
            assert_eq!(send(&mut s, milli * MILLI, 4 * SECOND), None);
        }
        assert_eq!(send(&mut s, 20 * SECOND, 4 * SECOND + 2 * MARGIN.0), Some(Counter::DropIvAhead));
    }

    /// D-87: a static connection takes any first IV.
    #[test]
    fn without_an_agreed_clock_the_first_packet_sets_it() {
        let mut s = Guard::of(Security { remote_time: Picoseconds(7), remote_time_known: 1, ..plain() });
        s.know_clock(RemoteTime { iv: Picoseconds(7), read_at: None });
        assert_eq!(send(&mut s, 0, 0), None);
        assert_eq!(send(&mut s, MILLI, 2 * MARGIN.0), Some(Counter::DropIvAhead));
    }

    #[test]
    fn clocks_that_drift_are_followed() {
        for pause in [1, 3, 60, 3600] {
            for fast in [true, false] {
                let mut s = security();
                for n in 0..2000 {
                    // 500 ppm: an hour in 83 days.
                    let time = n * pause * SECOND;
                    let drift = time / 2000;
                    let ahead = if fast { drift } else { drift.wrapping_neg() };
                    assert_eq!(send(&mut s, time, ahead), None, "packet {n}, {pause} s apart, fast {fast}");
                    assert_eq!(send(&mut s, time + MILLI, ahead), None, "the packet after it");
                }
            }
        }
    }

    #[test]
    fn another_source_is_refused_whatever_else_is_right() {
        let mut s = security();
        let forged = Packet { source: [1, 3], ..packet(1) };
        assert_eq!(s.check(&forged, Picoseconds(1)), Some(Counter::DropSource));
        assert_eq!(s.security.remote_time_known, 0, "a refused packet changes nothing");
    }

    /// F-7.1.2-1: the mode, the IP version and both inner addresses have to be the connection's.
    #[test]
    fn another_tunnel_is_refused_whatever_else_is_right() {
        let tunnel = Tunnel { local: [3, 4], peer: [5, 6] };
        let inside =
            Packet { inner_version: 6, inner_source: [5, 6], inner_destination: [3, 4], ..packet(1) };
        let mut s = Guard { tunnel, ..Guard::of(Security { inner_version: 6, ..plain() }) };
        for other in [
            Packet { inner_version: 0, ..inside },
            Packet { inner_version: 4, ..inside },
            Packet { inner_source: [5, 7], ..inside },
            Packet { inner_source: [4, 6], ..inside },
            Packet { inner_destination: [3, 5], ..inside },
            Packet { inner_destination: [2, 4], ..inside },
            Packet { inner_source: [3, 4], inner_destination: [5, 6], ..inside },
        ] {
            assert_eq!(s.check(&other, Picoseconds(1)), Some(Counter::DropTunnel));
        }
        let foreign = Packet { source: [1, 3], inner_version: 0, ..inside };
        assert_eq!(
            s.check(&foreign, Picoseconds(1)),
            Some(Counter::DropSource),
            "the outer address is first"
        );
        assert_eq!(s.security.remote_time_known, 0, "a refused packet changes nothing");
        assert_eq!(s.check(&inside, Picoseconds(1)), None);
        let mut without = security();
        assert_eq!(without.check(&inside, Picoseconds(1)), Some(Counter::DropTunnel));
        // In transport mode the inner addresses are those of an earlier packet.
        let transport = Packet { inner_version: 0, ..inside };
        assert_eq!(without.check(&transport, Picoseconds(1)), None);
    }
}
