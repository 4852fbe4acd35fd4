//! The node's counters: one list of all reasons why a packet is dropped, passed on or counted, with one name each.

use bytemuck::{CheckedBitPattern, Zeroable};
use strum::{IntoStaticStr, VariantArray};

/// A node-wide counter. The discriminant is the index into the counter map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u32)]
pub enum Counter {
    /// Not IPv4 or IPv6: passed to the kernel's network stack.
    PassEthertype,
    /// Not UDP: passed to the kernel's network stack.
    PassProtocol,
    /// Another UDP port: passed to the kernel's network stack.
    PassPort,
    /// Not an address of this node: passed to the kernel's network stack (D-86).
    PassAddress,
    /// Falcon packets received that passed the parser.
    Received,
    /// Frames of the engine that were passed on to the card.
    SentByEngine,
    /// Packets sent in the frame that was just received.
    SentInReceivedFrame,
    /// Received with UDP checksum 0: nothing to verify.
    ChecksumAbsent,
    /// Frame shorter than its Ethernet header.
    DropEthernetTruncated,
    /// IPv4 header cut short, wrong version or length fields.
    DropIpv4Header,
    /// IPv4 header checksum wrong.
    DropIpv4Checksum,
    /// IPv4 options or IPv6 extension headers (D-86).
    DropIpOptions,
    /// A fragment, either version (D-86).
    DropFragment,
    /// IPv6 header cut short or payload length wrong.
    DropIpv6Header,
    /// UDP header cut short, or its length disagrees with the bytes received (F-9.2.2.1-2).
    DropUdpLength,
    /// UDP checksum wrong (D-91).
    DropUdpChecksum,
    /// PSP header cut short or malformed, or a version this connection does not use.
    DropPspHeader,
    /// Inner IP header of a tunnel whose protocol is not Falcon, or whose length is not that of the UDP payload
    /// (F-7.1.2-1). Its other faults raise the counters of the outer header.
    DropInnerHeader,
    /// Falcon header cut short, or its lengths contradict each other (D-16).
    DropFalconLength,
    /// Falcon version other than 1 (D-09).
    DropFalconVersion,
    /// Reserved packet type, protocol type or Resync packet type (D-09, D-24).
    DropFalconType,
    /// Request of another upper layer protocol than the connection's (F-7.2-6, F-11-31).
    DropProtocol,
    /// No connection has this CID (D-50).
    DropUnknownCid,
    /// The connection is closed or has failed (F-11-18).
    DropNotAlive,
    /// Destination function differs from the connection's (D-15).
    DropFunction,
    /// Source address differs from the peer's.
    DropSource,
    /// Tunnel mode on a connection without a tunnel, transport mode on one with a tunnel, or other inner addresses than
    /// the connection's (F-7.1.2-1).
    DropTunnel,
    /// SPI check failed (F-9.2.2.3-2).
    DropSpi,
    /// Replay check failed (F-9.2.2.2-2).
    DropReplay,
    /// IV further ahead than the peer's clock can be.
    DropIvAhead,
    /// PSN below the window: an old duplicate (F-9.2.2.4-1).
    DropOldDuplicate,
    /// PSN in the window and already received (D-21).
    DropDuplicate,
    /// PSN beyond the window (F-9.2.2.4-2).
    DropOutOfWindow,
    /// No receive cell, response slot or reorder slot. A new request gets a resource NACK (F-11-16), unless one was sent
    /// shortly before.
    DropResources,
    /// Request of either end while the host function is being reset (xLR, F-11-17, F-11-20).
    DropXlr,
    /// Request RSN below the next expected one on an ordered connection (D-53).
    DropRsn,
    /// Pull Data that matches no outstanding pull (F-8.4.3.2-1).
    DropPullDataUnknown,
    /// Acknowledgement older than the transmitter's state (D-35).
    AckStale,
    /// Acknowledgement of a packet that was never sent (D-19).
    AckInvalid,
    /// NACK with a reserved code, or for a PSN that is not outstanding (D-38).
    NackIgnored,
    /// A memory or frame operation of the platform failed. A packet to send is sent again later. A received packet
    /// ends its transaction in error.
    PlatformFault,
    /// The connection's lock could not be taken within 8 million tries or 250 ms. The packet or the service is dropped.
    LockTimeout,
    /// A reply could not be built in the received frame. The engine sends it.
    ReplyByEngine,
    /// A completion, or a message of the peer that would cause one, had to wait, because the application's completion
    /// queue was full.
    CompletionQueueFull,
    /// A connection was given up because its table of transactions was broken. No input can do that: it is a defect of
    /// Tiercel, or of the machine's memory.
    TransactionTableBroken,
    /// A work request of the application was malformed and completed in error.
    BadWorkRequest,
    /// A work request or a receive named memory that is not the application's, and completed in error.
    LocalProtection,
    /// Congestion event queued: occupancy below T1 (D-73).
    #[strum(serialize = "event_admitted_below_t1")]
    EventAdmittedBelowFirst,
    /// Congestion event queued between T1 and T2 by P1 or P2.
    #[strum(serialize = "event_admitted_t1_to_t2")]
    EventAdmittedBelowSecond,
    /// Congestion event queued between T2 and T3 by P1.
    #[strum(serialize = "event_admitted_t2_to_t3")]
    EventAdmittedBelowThird,
    /// Congestion event queued from T3 up by P1 and P2.
    #[strum(serialize = "event_admitted_above_t3")]
    EventAdmittedAboveThird,
    /// Congestion event refused between T1 and T2.
    #[strum(serialize = "event_refused_t1_to_t2")]
    EventRefusedBelowSecond,
    /// Congestion event refused between T2 and T3.
    #[strum(serialize = "event_refused_t2_to_t3")]
    EventRefusedBelowThird,
    /// Congestion event refused from T3 up.
    #[strum(serialize = "event_refused_above_t3")]
    EventRefusedAboveThird,
    /// Congestion event refused: the queue is full, or there is no rate update engine.
    #[strum(serialize = "event_refused_queue_full")]
    EventRefusedFull,
    /// Congestion event refused: the previous event has no result yet.
    EventRefusedOutstanding,
    /// A queued congestion event got no result in time: the rate update engine stalls or is gone.
    CongestionEventLost,
    /// Congestion result that was not expected: dropped.
    CongestionResultUnexpected,
    /// Congestion result that was not legal and was repaired.
    CongestionResultRepaired,
    /// Received with the card's timestamp, converted to our clock.
    StampHardware,
    /// The driver had no timestamp for the packet. The program's clock was used.
    StampAbsent,
    /// The relation of the card's clock to ours is currently unknown. The program's clock was used.
    StampClockUnknown,
    /// The card's timestamp is in the future. The program's clock was used.
    StampInFuture,
    /// The card's timestamp is older than a packet can be. The program's clock was used.
    StampTooOld,
    /// Frames of the engine that went into the kernel's stack, because the card takes none from XDP. Those that the stack
    /// passed on to the card are counted as sent by the engine too, those that it refused as not sent.
    HandedToStack,
    /// Frames of the engine that did not leave: XDP or the stack could not pass them on to the card.
    DropNotSent,
    /// Sleeping applications whose notice did not fit the ring. They are woken with those before them.
    NoticeRingFull,
}

/// The counters that a step raises. A step raises each counter at most once, so one bit per counter is enough. A second
/// raise would be lost. [`Self::raise`] asserts that there is none, in builds with debug assertions. The tests of steps are
/// such builds: the simulation plays every kind of step with them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Raised {
    low: u64,
    high: u64,
}

impl Raised {
    /// Raises `counter`.
    #[inline(always)]
    pub const fn raise(&mut self, counter: Counter) {
        self.raise_index(counter as u32);
    }

    /// Raises a counter by its index.
    #[inline(always)]
    pub const fn raise_index(&mut self, index: u32) {
        let bit = 1 << (index & 63);
        debug_assert!(if index < 64 { self.low } else { self.high } & bit == 0, "raised twice in one step");
        if index < 64 {
            self.low |= bit;
        } else {
            self.high |= bit;
        }
    }

    /// Returns whether `counter` is raised.
    #[inline(always)]
    pub const fn contains(&self, counter: Counter) -> bool {
        let word = if (counter as u32) < 64 { self.low } else { self.high };
        word & 1 << (counter as u32 & 63) != 0
    }

    /// Returns whether no counter is raised.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.low | self.high == 0
    }

    /// Clears all counters.
    #[inline(always)]
    pub const fn clear(&mut self) {
        self.low = 0;
        self.high = 0;
    }

    /// Removes one raised counter and returns its index.
    #[inline(always)]
    pub const fn take(&mut self) -> Option<u32> {
        if self.low != 0 {
            let index = self.low.trailing_zeros();
            self.low &= self.low - 1;
            return Some(index);
        }
        if self.high != 0 {
            let index = self.high.trailing_zeros();
            self.high &= self.high - 1;
            return Some(64 + index);
        }
        None
    }
}

const _: () = assert!(Counter::COUNT <= 128);

impl Counter {
    /// All counters, in map order.
    pub const ALL: &'static [Self] = Self::VARIANTS;
    /// Number of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether it counts dropped packets.
    pub fn is_drop(self) -> bool {
        self.name().starts_with("drop_")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::{Counter, Raised};
    use crate::congestion::admission::Verdict;

    #[test]
    fn discriminants_are_map_indices_and_names_are_unique() {
        for (index, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, index);
            assert_eq!(Counter::ALL.iter().filter(|c| c.name() == counter.name()).count(), 1);
        }
    }

    #[test]
    fn every_counter_that_was_asked_for_comes_out_once() {
        let mut raised = Raised::default();
        assert!(raised.is_empty());
        for counter in Counter::ALL {
            raised.raise(*counter);
            assert!(raised.contains(*counter));
        }
        let taken: Vec<u32> = core::iter::from_fn(|| raised.take()).collect();
        let all = Counter::ALL.iter().map(|c| *c as u32);
        assert!(taken.into_iter().eq(all));
        assert!(raised.is_empty());
    }

    /// Without debug assertions no test of a step could find a counter that is raised twice. Then this test fails.
    #[test]
    #[should_panic(expected = "raised twice in one step")]
    fn a_counter_that_is_raised_twice_is_found() {
        let mut raised = Raised::default();
        raised.raise(Counter::DropDuplicate);
        raised.raise(Counter::DropDuplicate);
    }

    /// The step adds a verdict to the index of the first of its counters.
    #[test]
    fn verdicts_of_admission_have_their_counters() {
        for verdict in Verdict::ALL {
            let counter = Counter::ALL[Counter::EventAdmittedBelowFirst as usize + verdict as usize];
            assert_eq!(counter.name(), verdict.name());
        }
    }
}
