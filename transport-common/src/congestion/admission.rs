//! Which events enter the queue of the rate update engine (10.6.1, D-73).

use crate::units::Ticks;
use bytemuck::{Pod, Zeroable};

/// The admission policy of an event queue. The default, `thresholds[0]` equal to the queue's capacity, admits
/// every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Admission {
    /// Entries that the queue holds.
    pub capacity: u32,
    /// Occupancies T1, T2, T3 from which the policy gets stricter; ascending.
    pub thresholds: [u32; 3],
    /// P1 holds if more time than this passed since the connection's last event (F-10.6.1-3).
    pub elapsed: Ticks,
    /// P2 holds if more packets than this were acknowledged since then (F-10.6.1-3, F-10.6.1-4).
    pub packets: u32,
}

/// Result for an event that the datapath wants to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Verdict {
    /// Admitted: occupancy below T1.
    AdmittedBelowFirst = 0,
    /// Admitted between T1 and T2 by P1 or P2.
    AdmittedBelowSecond = 1,
    /// Admitted between T2 and T3 by P1.
    AdmittedBelowThird = 2,
    /// Admitted from T3 up by P1 and P2.
    AdmittedAboveThird = 3,
    /// Refused between T1 and T2: neither P1 nor P2.
    RefusedBelowSecond = 4,
    /// Refused between T2 and T3: not P1.
    RefusedBelowThird = 5,
    /// Refused from T3 up: not both P1 and P2.
    RefusedAboveThird = 6,
    /// Refused: no free entry.
    RefusedFull = 7,
    /// Refused: the connection's last event has no result yet (D-73).
    RefusedOutstanding = 8,
}

impl Verdict {
    /// All verdicts; the discriminant is the index.
    pub const ALL: [Self; 9] = [
        Self::AdmittedBelowFirst,
        Self::AdmittedBelowSecond,
        Self::AdmittedBelowThird,
        Self::AdmittedAboveThird,
        Self::RefusedBelowSecond,
        Self::RefusedBelowThird,
        Self::RefusedAboveThird,
        Self::RefusedFull,
        Self::RefusedOutstanding,
    ];

    /// Returns the name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdmittedBelowFirst => "event_admitted_below_t1",
            Self::AdmittedBelowSecond => "event_admitted_t1_to_t2",
            Self::AdmittedBelowThird => "event_admitted_t2_to_t3",
            Self::AdmittedAboveThird => "event_admitted_above_t3",
            Self::RefusedBelowSecond => "event_refused_t1_to_t2",
            Self::RefusedBelowThird => "event_refused_t2_to_t3",
            Self::RefusedAboveThird => "event_refused_above_t3",
            Self::RefusedFull => "event_refused_queue_full",
            Self::RefusedOutstanding => "event_refused_outstanding",
        }
    }

    /// Returns whether the event enters the queue. A refused event does not change the connection's count of
    /// acknowledged packets (D-73, D-75).
    #[inline(always)]
    pub const fn is_admitted(self) -> bool {
        (self as u32) < Self::RefusedBelowSecond as u32
    }
}

impl Admission {
    /// Default of `elapsed`: 134 us (D-78).
    pub const ELAPSED: Ticks = Ticks::from_nanos(134_000);
    /// Default of `packets` (D-78).
    pub const PACKETS: u32 = 512;

    /// Returns the default policy for a queue of `capacity` entries: every event is admitted until the queue is
    /// full (D-73).
    pub const fn new(capacity: u32) -> Self {
        Self { capacity, thresholds: [capacity; 3], elapsed: Self::ELAPSED, packets: Self::PACKETS }
    }

    /// Judges an event of any type (F-10.6.1-2, D-73). `occupancy` is the number of entries in the queue.
    /// `since_last` and `acked` are the time and the number of acknowledged packets since the connection's last
    /// event. `outstanding` is true if that event still waits for its result. For a connection without an event so
    /// far, `since_last` is the time since it was opened.
    #[inline(always)]
    pub const fn judge(&self, occupancy: u32, since_last: Ticks, acked: u32, outstanding: bool) -> Verdict {
        let p1 = since_last.0 > self.elapsed.0;
        let p2 = acked > self.packets;
        if outstanding {
            Verdict::RefusedOutstanding
        } else if occupancy >= self.capacity {
            Verdict::RefusedFull
        } else if occupancy < self.thresholds[0] {
            Verdict::AdmittedBelowFirst
        } else if occupancy < self.thresholds[1] {
            if p1 || p2 { Verdict::AdmittedBelowSecond } else { Verdict::RefusedBelowSecond }
        } else if occupancy < self.thresholds[2] {
            if p1 { Verdict::AdmittedBelowThird } else { Verdict::RefusedBelowThird }
        } else if p1 && p2 {
            Verdict::AdmittedAboveThird
        } else {
            Verdict::RefusedAboveThird
        }
    }
}
