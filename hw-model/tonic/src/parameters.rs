//! The parameters of the hardware, and the conversion between time and cycles.

use serde::{Deserialize, Serialize};

/// The largest number of flows with which the paper's hardware meets timing (table 4).
pub const MAX_FLOWS: u16 = 2048;

/// The rule that limits how many segment addresses of a flow may wait for credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    /// The rule of the paper: a flow generates while fewer than N addresses are outstanding (section 3.1).
    #[default]
    Paper,
    /// The behaviour of the published hardware, for comparison with its traces. A flow stops at N-5 outstanding
    /// addresses and restarts below N-6. The hardware forgets marks and selective acknowledgments outside of the
    /// window. Until it forgets such a mark, it treats the mark as something to send. If a flow is processed with
    /// nothing to send, because its window shrank while it waited, the hardware counts one address as outstanding
    /// and never takes it back. After enough of these the flow stalls.
    Published,
}

/// Cycles between the stages. The defaults were measured on the published hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the input pins to the fixed stage of Incoming.
    pub incoming: usize,
    /// From Segment Generation to Enqueue in the credit engine. Parameters for the credit engine take the same
    /// time.
    pub to_credit: usize,
    /// From Transmit to Segment Transmitted in the data delivery engine.
    pub from_credit: usize,
    /// Latency of the divider that computes when a flow has credit again.
    pub divider: usize,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { incoming: 2, to_credit: 7, from_credit: 7, divider: 1 }
    }
}

/// The parameters of a Tonic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The number of flows, 1 to [`MAX_FLOWS`]. Under [`Rules::Published`] the last flow id means "none".
    pub flows: u16,
    /// N: the number of segment addresses of a flow that may wait for credit, 1 to 64. At least 8 under
    /// [`Rules::Published`].
    pub outstanding: u8,
    /// The rule about N.
    pub rules: Rules,
    /// The bytes of every segment on the wire.
    pub segment_bytes: u32,
    /// The most credit that a flow can save up, in bytes. At least one segment.
    pub burst_bytes: u32,
    /// The quanta, in cycles, in ascending order, at most 8. Each rate has one representation per quantum: a whole
    /// number of bytes per quantum.
    pub quanta: Vec<u32>,
    /// The entries of the queue between the credit engine and the pins. At least 3, because as many segments can
    /// be in flight to the queue.
    pub output_queue: usize,
    /// Cycles between the stages.
    pub latencies: Latencies,
}

impl Default for Parameters {
    /// The parameters of the paper: 1024 flows, 10 ns per cycle. The lowest rate is 1 byte in 512 cycles, 1.56
    /// Mb/s.
    fn default() -> Self {
        Self {
            flows: 1024,
            outstanding: 16,
            rules: Rules::Paper,
            segment_bytes: 1500,
            burst_bytes: 4 * 1500,
            quanta: vec![1, 8, 64, 512],
            output_queue: 16,
            latencies: Latencies::default(),
        }
    }
}

/// Parameters that describe no possible hardware. Each message says which values are possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// See [`Parameters::flows`].
    #[error(
        "{0} flows: choose 1 to {MAX_FLOWS}, and at least 2 under the published rules, where one id means \"none\""
    )]
    Flows(u16),
    /// See [`Parameters::outstanding`].
    #[error(
        "{0} outstanding segments per flow: choose 1 to 64, and at least 8 under the published rules, \
         which restart a flow only when 7 are free"
    )]
    Outstanding(u8),
    /// See [`Parameters::segment_bytes`].
    #[error("segments of {0} bytes: choose 1 to 1048575")]
    SegmentBytes(u32),
    /// See [`Parameters::burst_bytes`].
    #[error("a burst of {burst} bytes: choose at least a segment, {segment} bytes, and at most 2^30 bytes")]
    Burst {
        /// The burst.
        burst: u32,
        /// The segment.
        segment: u32,
    },
    /// See [`Parameters::quanta`].
    #[error("quanta of {0:?} cycles: choose 1 to 8 ascending numbers from 1 to 1048576")]
    Quanta(Vec<u32>),
    /// See [`Parameters::output_queue`].
    #[error(
        "an output queue of {0} entries: choose at least 3, because as many segments can be in flight to it"
    )]
    OutputQueue(usize),
    /// See [`Latencies`].
    #[error("a latency of 0 or of more than 1024 cycles: choose 1 to 1024 for each of {0:?}")]
    Latency(Latencies),
}

impl Parameters {
    /// Checks that the parameters describe possible hardware.
    ///
    /// # Errors
    /// Returns the error of the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let published = self.rules == Rules::Published;
        if self.flows == 0 || self.flows > MAX_FLOWS || (published && self.flows < 2) {
            return Err(ParameterError::Flows(self.flows));
        }
        let least = if published { 8 } else { 1 };
        if !(least..=64).contains(&self.outstanding) {
            return Err(ParameterError::Outstanding(self.outstanding));
        }
        if !(1..1 << 20).contains(&self.segment_bytes) {
            return Err(ParameterError::SegmentBytes(self.segment_bytes));
        }
        if !(self.segment_bytes..=1 << 30).contains(&self.burst_bytes) {
            return Err(ParameterError::Burst { burst: self.burst_bytes, segment: self.segment_bytes });
        }
        let in_range = self.quanta.iter().all(|quantum| (1..=RATE_CYCLES as u32).contains(quantum));
        if !(1..=8).contains(&self.quanta.len()) || !in_range || !self.quanta.is_sorted_by(|a, b| a < b) {
            return Err(ParameterError::Quanta(self.quanta.clone()));
        }
        if self.output_queue < 3 {
            return Err(ParameterError::OutputQueue(self.output_queue));
        }
        let latencies = self.latencies;
        let all = [latencies.incoming, latencies.to_credit, latencies.from_credit, latencies.divider];
        if all.iter().any(|latency| !(1..=1024).contains(latency)) {
            return Err(ParameterError::Latency(latencies));
        }
        Ok(())
    }

    /// Returns the number of outstanding addresses at which a flow stops generating.
    #[must_use]
    pub const fn stop_at(&self) -> u8 {
        match self.rules {
            Rules::Paper => self.outstanding,
            Rules::Published => self.outstanding - 5,
        }
    }

    /// Returns the limit for a restart: a stopped flow is active again when fewer addresses than this are
    /// outstanding.
    #[must_use]
    pub const fn restart_below(&self) -> u8 {
        match self.rules {
            Rules::Paper => self.outstanding,
            Rules::Published => self.outstanding - 6,
        }
    }

    /// Returns the number of flow ids that can be used.
    #[must_use]
    pub const fn usable_flows(&self) -> u16 {
        match self.rules {
            Rules::Paper => self.flows,
            Rules::Published => self.flows - 1,
        }
    }
}

/// User logic gives rates in bytes per this many cycles, 2^20. At 100 MHz one step is 763 b/s.
pub const RATE_CYCLES: u64 = 1 << 20;

/// A clock frequency, to convert between time and cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// Cycles per second.
    pub hertz: u64,
}

impl Default for Frequency {
    /// 100 MHz, as in the paper.
    fn default() -> Self {
        Self { hertz: 100_000_000 }
    }
}

impl Frequency {
    /// Returns the length of a cycle in picoseconds, rounded down.
    #[must_use]
    pub const fn period_ps(self) -> u64 {
        1_000_000_000_000 / self.hertz
    }

    /// Returns the number of cycles in `nanos` nanoseconds, rounded up.
    #[must_use]
    pub const fn cycles(self, nanos: u64) -> u64 {
        (nanos as u128 * self.hertz as u128).div_ceil(1_000_000_000) as u64
    }

    /// Converts a rate in bits per second to the unit of user logic, bytes per [`RATE_CYCLES`]. Rounds down.
    #[must_use]
    pub const fn rate(self, bits_per_second: u64) -> u64 {
        (bits_per_second as u128 * RATE_CYCLES as u128 / (8 * self.hertz as u128)) as u64
    }

    /// Converts a rate in the unit of user logic to bits per second. Rounds down.
    #[must_use]
    pub const fn bits_per_second(self, rate: u64) -> u64 {
        (rate as u128 * 8 * self.hertz as u128 / RATE_CYCLES as u128) as u64
    }
}
