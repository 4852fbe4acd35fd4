//! What was a parameter of the hardware is one here.

use serde::{Deserialize, Serialize};

/// Flows the paper's hardware meets timing with (table 4).
pub const MAX_FLOWS: u16 = 2048;

/// Which rule decides how many segment addresses of a flow may wait for credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    /// The paper's: a flow generates while fewer than N addresses are outstanding (section 3.1).
    #[default]
    Paper,
    /// What the published hardware does, for comparison with its traces. It stops at N-5 and restarts below N-6. It
    /// forgets marks and selective acknowledgments outside of the window, but takes such a mark for something to send
    /// until then. A flow that is processed with nothing to send, as its window shrank while it waited, has an address
    /// counted as outstanding that is never given back: enough of these and the flow stalls.
    Published,
}

/// Cycles between the stages. The defaults are those measured of the published hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the input pins to the fixed stage of Incoming.
    pub incoming: usize,
    /// From Segment Generation to Enqueue in the credit engine; parameters for the credit engine take as long.
    pub to_credit: usize,
    /// From Transmit to Segment Transmitted in the data delivery engine.
    pub from_credit: usize,
    /// Of the divider that computes when a flow has credit again.
    pub divider: usize,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { incoming: 2, to_credit: 7, from_credit: 7, divider: 1 }
    }
}

/// Parameters of a Tonic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Flows, 1 to [`MAX_FLOWS`]. Under [`Rules::Published`] the last flow id means "none".
    pub flows: u16,
    /// N: segment addresses of a flow that may wait for credit, 1 to 64; 8 at least under [`Rules::Published`].
    pub outstanding: u8,
    /// The rule about N.
    pub rules: Rules,
    /// Bytes of every segment on the wire.
    pub segment_bytes: u32,
    /// The most credit a flow can save up, bytes; at least a segment.
    pub burst_bytes: u32,
    /// Rates are represented as whole bytes per so many cycles, once for each of these, ascending. At most 8.
    pub quanta: Vec<u32>,
    /// Entries of the queue between credit engine and pins, at least 3: as many as can be under way to it.
    pub output_queue: usize,
    /// Cycles between the stages.
    pub latencies: Latencies,
}

impl Default for Parameters {
    /// The paper's: 1024 flows, 10 ns a cycle. Rates from 1 byte in 512 cycles, 1.56 Mb/s, upwards.
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

/// Parameters that describe no hardware. Each message says what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// See [`Parameters::flows`].
    #[error(
        "{0} flows: there are 1 to {MAX_FLOWS}, and under the published rules one at least besides \"none\""
    )]
    Flows(u16),
    /// See [`Parameters::outstanding`].
    #[error(
        "{0} outstanding segments a flow: there are 1 to 64, and under the published rules, \
         which keep 7 of them free, 8 at least"
    )]
    Outstanding(u8),
    /// See [`Parameters::segment_bytes`].
    #[error("segments of {0} bytes: there are 1 to 1048575 bytes in a segment")]
    SegmentBytes(u32),
    /// See [`Parameters::burst_bytes`].
    #[error("a burst of {burst} bytes holds no segment of {segment} bytes; more than 2^30 cannot be counted")]
    Burst {
        /// The burst.
        burst: u32,
        /// The segment.
        segment: u32,
    },
    /// See [`Parameters::quanta`].
    #[error("rates per {0:?} cycles: 1 to 8 ascending numbers from 1 to 1048576 are needed")]
    Quanta(Vec<u32>),
    /// See [`Parameters::output_queue`].
    #[error("an output queue of {0} entries: 3 at least are under way to it")]
    OutputQueue(usize),
    /// See [`Latencies`].
    #[error("a latency of 0 cycles, or of more than 1024: {0:?}")]
    Latency(Latencies),
}

impl Parameters {
    /// # Errors
    /// The first parameter that is out of range.
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

    /// Outstanding addresses at which a flow stops generating.
    #[must_use]
    pub const fn stop_at(&self) -> u8 {
        match self.rules {
            Rules::Paper => self.outstanding,
            Rules::Published => self.outstanding - 5,
        }
    }

    /// A stopped flow is active again when fewer than this are outstanding.
    #[must_use]
    pub const fn restart_below(&self) -> u8 {
        match self.rules {
            Rules::Paper => self.outstanding,
            Rules::Published => self.outstanding - 6,
        }
    }

    /// Flow ids that can be used.
    #[must_use]
    pub const fn usable_flows(&self) -> u16 {
        match self.rules {
            Rules::Paper => self.flows,
            Rules::Published => self.flows - 1,
        }
    }
}

/// User logic gives rates in bytes per so many cycles, 2^20: at 100 MHz steps of 763 b/s.
pub const RATE_CYCLES: u64 = 1 << 20;

/// A clock, to convert between time and cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// Cycles a second.
    pub hertz: u64,
}

impl Default for Frequency {
    /// 100 MHz, as in the paper.
    fn default() -> Self {
        Self { hertz: 100_000_000 }
    }
}

impl Frequency {
    /// Length of a cycle in picoseconds, rounded down.
    #[must_use]
    pub const fn period_ps(self) -> u64 {
        1_000_000_000_000 / self.hertz
    }

    /// Cycles in `nanos` nanoseconds, rounded up.
    #[must_use]
    pub const fn cycles(self, nanos: u64) -> u64 {
        (nanos as u128 * self.hertz as u128).div_ceil(1_000_000_000) as u64
    }

    /// A rate in bits a second as user logic gives it, bytes per [`RATE_CYCLES`], rounded down.
    #[must_use]
    pub const fn rate(self, bits_per_second: u64) -> u64 {
        (bits_per_second as u128 * RATE_CYCLES as u128 / (8 * self.hertz as u128)) as u64
    }

    /// A rate as user logic gives it in bits a second, rounded down.
    #[must_use]
    pub const fn bits_per_second(self, rate: u64) -> u64 {
        (rate as u128 * 8 * self.hertz as u128 / RATE_CYCLES as u128) as u64
    }
}
