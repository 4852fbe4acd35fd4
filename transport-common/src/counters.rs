//! Every reason for which a packet is dropped, passed on or worth counting: one list, one name each.

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// A node-wide counter. The discriminant is the index into the counter map.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Counter { $($(#[$doc])* $variant),+ }

        impl Counter {
            /// All counters, in map order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),+];

            /// The name under which people see it.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name),+ }
            }
        }
    };
}

counters! {
    /// Not IPv4 or IPv6: handed to the kernel's stack.
    PassEthertype = "pass_ethertype",
    /// Not UDP: handed to the kernel's stack.
    PassProtocol = "pass_protocol",
    /// Another UDP port: handed to the kernel's stack.
    PassPort = "pass_port",
    /// Another address than this node's: handed to the kernel's stack (D-86).
    PassAddress = "pass_address",
    /// Falcon packets received that passed the parser.
    Received = "received",
    /// Frames sent by the engine.
    SentByEngine = "sent_by_engine",
    /// Frames sent in the frame that was received.
    SentInReceivedFrame = "sent_in_received_frame",
    /// Received with UDP checksum 0: nothing to verify.
    ChecksumAbsent = "checksum_absent",
    /// Shorter than its Ethernet header.
    DropEthernetTruncated = "drop_ethernet_truncated",
    /// IPv4 header cut short, wrong version or length fields.
    DropIpv4Header = "drop_ipv4_header",
    /// IPv4 header checksum wrong.
    DropIpv4Checksum = "drop_ipv4_checksum",
    /// IPv4 options or IPv6 extension headers (D-86).
    DropIpOptions = "drop_ip_options",
    /// A fragment, either version (D-86).
    DropFragment = "drop_fragment",
    /// IPv6 header cut short or payload length wrong.
    DropIpv6Header = "drop_ipv6_header",
    /// UDP header cut short, or its length disagrees with the bytes received (F-9.2.2.1-2).
    DropUdpLength = "drop_udp_length",
    /// UDP checksum wrong (D-91).
    DropUdpChecksum = "drop_udp_checksum",
    /// PSP header cut short or malformed, or a version this connection does not use.
    DropPspHeader = "drop_psp_header",
    /// Falcon header cut short or lengths that disagree (D-16).
    DropFalconLength = "drop_falcon_length",
    /// Falcon version other than 1 (D-09).
    DropFalconVersion = "drop_falcon_version",
    /// Reserved packet type, protocol type or Resync packet type (D-09, D-24).
    DropFalconType = "drop_falcon_type",
    /// Protocol type of an upper layer protocol that this node does not have, as NVMe (F-7.2-6).
    DropProtocol = "drop_protocol",
    /// No connection has this CID (D-50).
    DropUnknownCid = "drop_unknown_cid",
    /// The connection is closed or has failed (F-11-18).
    DropNotAlive = "drop_not_alive",
    /// Destination function differs from the connection's (D-15).
    DropFunction = "drop_function",
    /// SPI check failed (F-9.2.2.3-2).
    DropSpi = "drop_spi",
    /// Replay check failed (F-9.2.2.2-2).
    DropReplay = "drop_replay",
    /// PSN below the window: an old duplicate (F-9.2.2.4-1).
    DropOldDuplicate = "drop_old_duplicate",
    /// PSN in the window and already received (D-21).
    DropDuplicate = "drop_duplicate",
    /// PSN beyond the window (F-9.2.2.4-2).
    DropOutOfWindow = "drop_out_of_window",
    /// No receive cell, response slot or reorder slot: resource NACK sent (F-11-16).
    DropResources = "drop_resources",
    /// Request RSN below the next expected one on an ordered connection (D-53).
    DropRsn = "drop_rsn",
    /// Pull Data that matches no outstanding pull (F-8.4.3.2-1).
    DropPullDataUnknown = "drop_pull_data_unknown",
    /// Acknowledgement older than the transmitter's state (D-35).
    AckStale = "ack_stale",
    /// Acknowledgement of something never sent (D-19).
    AckInvalid = "ack_invalid",
    /// NACK with a reserved code, or for a PSN that is not outstanding (D-38).
    NackIgnored = "nack_ignored",
    /// A registered-memory or frame operation of the platform failed; the packet is retried.
    PlatformFault = "platform_fault",
    /// A connection's lock was not to be had in a quarter of a second: the packet or turn is given up.
    LockTimeout = "lock_timeout",
    /// A response did not fit into the received frame and went by the engine.
    ReplyByEngine = "reply_by_engine",
    /// A completion had to wait because the application does not empty its completion queue.
    CompletionQueueFull = "completion_queue_full",
    /// A work request of the application was malformed and completed in error.
    BadWorkRequest = "bad_work_request",
    /// Congestion event queued: occupancy below T1 (D-73).
    EventAdmittedBelowFirst = "event_admitted_below_t1",
    /// Congestion event queued between T1 and T2 by P1 or P2.
    EventAdmittedBelowSecond = "event_admitted_t1_to_t2",
    /// Congestion event queued between T2 and T3 by P1.
    EventAdmittedBelowThird = "event_admitted_t2_to_t3",
    /// Congestion event queued from T3 up by P1 and P2.
    EventAdmittedAboveThird = "event_admitted_above_t3",
    /// Congestion event refused between T1 and T2.
    EventRefusedBelowSecond = "event_refused_t1_to_t2",
    /// Congestion event refused between T2 and T3.
    EventRefusedBelowThird = "event_refused_t2_to_t3",
    /// Congestion event refused from T3 up.
    EventRefusedAboveThird = "event_refused_above_t3",
    /// Congestion event refused: the queue is full, or there is no rate update engine.
    EventRefusedFull = "event_refused_queue_full",
    /// Congestion event refused: the last one has no result yet.
    EventRefusedOutstanding = "event_refused_outstanding",
    /// Queued congestion event without a result in time: the rate update engine stalls or is gone.
    CongestionEventLost = "congestion_event_lost",
    /// Congestion result nobody waits for: dropped.
    CongestionResultUnexpected = "congestion_result_unexpected",
    /// Congestion result that was not legal and was repaired.
    CongestionResultRepaired = "congestion_result_repaired",
    /// Received with the card's timestamp, converted to our clock.
    StampHardware = "stamp_hardware",
    /// The driver had no timestamp for the packet: the program's clock was taken.
    StampAbsent = "stamp_absent",
    /// It is not known at present how the card's clock relates to ours: the program's clock was taken.
    StampClockUnknown = "stamp_clock_unknown",
    /// The card's timestamp lies in the future: the program's clock was taken.
    StampInFuture = "stamp_in_future",
    /// The card's timestamp is older than a packet can be: the program's clock was taken.
    StampTooOld = "stamp_too_old",
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Whether it counts packets that were dropped.
    pub fn is_drop(self) -> bool {
        self.name().starts_with("drop_")
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;
    use crate::congestion::admission::Verdict;

    #[test]
    fn discriminants_are_map_indices_and_names_are_unique() {
        for (index, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, index);
            assert_eq!(Counter::ALL.iter().filter(|c| c.name() == counter.name()).count(), 1);
        }
    }

    /// The step adds a verdict to the first of its counters.
    #[test]
    fn verdicts_of_admission_have_their_counters() {
        for verdict in Verdict::ALL {
            let counter = Counter::ALL[Counter::EventAdmittedBelowFirst as usize + verdict as usize];
            assert_eq!(counter.name(), verdict.name());
        }
    }
}
