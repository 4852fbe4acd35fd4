//! The parameters of the hardware: those that the patent gives, and those that it must have.

use serde::{Deserialize, Serialize};
use transport_common::connection::Connection;
use transport_common::ids::Cid;

/// The eviction policy. It chooses an entry by its index in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// A random entry.
    #[default]
    Random,
    /// One index after the other. Free entries are taken in the order in which they became free. So this is first
    /// in, first out, except for entries that were skipped because they had work pending.
    Fifo,
}

/// The parameters of a memory behind the cache. The patent names the kinds (system-level cache, DRAM) but gives no
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryParameters {
    /// Minimum number of cycles from the cycle in which the memory takes a request to the cycle in which its
    /// completion can enter the pipeline. At least 1.
    pub latency: u64,
    /// Maximum random addition to the latency, in cycles. The memory does not keep requests in order, not even for
    /// one address.
    pub jitter: u64,
    /// Maximum number of outstanding requests, at least 1.
    pub outstanding: usize,
    /// Bytes that the memory transfers per cycle, at least 1. This sets the number of cycles between two requests.
    pub bytes_per_cycle: u32,
}

/// Parameters of a connection-context cache.
///
/// The patent is EP 4 145 803 A1, "Off-chip memory backed reliable transport connection cache hardware
/// architecture". Where it gives no number, the value is an assumption and is marked as one below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Entries of the cache, 1 to 2^20. Patent: "thousands"; 4096 by default.
    pub entries: u32,
    /// The cache evicts while more entries than this are occupied. It must be less than [`Self::entries`]. Patent:
    /// configurable. By default 64 entries stay free for misses, an assumption.
    pub threshold: u32,
    /// The eviction policy. Patent: random and serial. Random by default.
    pub eviction: Eviction,
    /// Cycles of a CID lookup, at least 1. Patent: 6.
    pub lookup_cycles: usize,
    /// Cycles of command processing, at least 2. The context is read in the first cycle and written in the last
    /// one. Commands of one connection enter the pipeline at least this many cycles apart. Patent: 2.
    pub command_cycles: usize,
    /// Cycles for which a connection is stalled when its memory-write completion enters the pipeline. Patent: 6.
    pub deallocation_stall: u64,
    /// Number of commands that the miss queues of all connections can hold together, at least 1. An assumption.
    pub miss_queue: usize,
    /// Number of connections, 1 to 2^24 (F-6.2-2). All CIDs are less than this. Patent: "a million, or more".
    pub connections: u32,
    /// Bytes of a connection context. The default is the size of Tiercel's connection context.
    pub context_bytes: u32,
    /// Connections with a CID less than this have their context in the on-chip memory. The others have it in the
    /// off-chip memory.
    /// Patent: user configuration.
    pub on_chip_connections: u32,
    /// Bytes of the on-chip memory (system-level cache) that contexts may take. An assumption.
    pub on_chip_bytes: u64,
    /// The on-chip memory. All its numbers are assumptions.
    pub on_chip: MemoryParameters,
    /// The off-chip memory. All its numbers are assumptions.
    pub off_chip: MemoryParameters,
    /// Seed of the random choices: entries to evict, and jitter of the memories.
    pub seed: u64,
}

impl Default for Parameters {
    /// Returns the numbers of the patent, and these assumptions at 1 GHz: 200 ns to a DRAM of 25 GB/s (a DDR4-3200
    /// channel), 40 ns to the system-level cache at 64 GB/s, 64 outstanding requests at each memory.
    fn default() -> Self {
        Self {
            entries: 4096,
            threshold: 4096 - 64,
            eviction: Eviction::Random,
            lookup_cycles: 6,
            command_cycles: 2,
            deallocation_stall: 6,
            miss_queue: 1024,
            connections: 1 << 20,
            context_bytes: size_of::<Connection>() as u32,
            on_chip_connections: 0,
            on_chip_bytes: 8 << 20,
            on_chip: MemoryParameters { latency: 40, jitter: 8, outstanding: 64, bytes_per_cycle: 64 },
            off_chip: MemoryParameters { latency: 200, jitter: 40, outstanding: 64, bytes_per_cycle: 25 },
            seed: 1,
        }
    }
}

/// A parameter that is out of range. Each message gives the valid range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// See [`Parameters::entries`].
    #[error("a cache of {0} entries is impossible: set 1 to 1048576 entries")]
    Entries(u32),
    /// See [`Parameters::threshold`].
    #[error(
        "with an eviction threshold of {threshold} in a cache of {entries} entries nothing is ever evicted: \
         set a threshold below the number of entries"
    )]
    Threshold {
        /// The threshold.
        threshold: u32,
        /// The entries.
        entries: u32,
    },
    /// See [`Parameters::lookup_cycles`].
    #[error("a lookup of {0} cycles is impossible: set 1 to 1024 cycles")]
    LookupCycles(usize),
    /// See [`Parameters::command_cycles`].
    #[error(
        "command processing of {0} cycles is impossible: set 2 to 1024 cycles, because it reads the context in \
         the first cycle and writes it in the last"
    )]
    CommandCycles(usize),
    /// See [`Parameters::deallocation_stall`].
    #[error("a stall of {0} cycles after a write completion is too long: set 1024 cycles at most")]
    DeallocationStall(u64),
    /// See [`Parameters::miss_queue`].
    #[error("miss queues for {0} commands are impossible: set 1 to 1048576 commands")]
    MissQueue(usize),
    /// See [`Parameters::connections`].
    #[error("{0} connections are impossible: set 1 to 16777216, because a CID has 24 bits")]
    Connections(u32),
    /// See [`Parameters::context_bytes`].
    #[error("contexts of {0} bytes are impossible: set 1 to 1048576 bytes")]
    ContextBytes(u32),
    /// See [`Parameters::on_chip_connections`].
    #[error(
        "{connections} contexts of {bytes} bytes do not fit into {room} bytes of on-chip memory: set fewer \
         on-chip connections or more on-chip bytes"
    )]
    OnChip {
        /// Connections whose context is in the on-chip memory.
        connections: u32,
        /// Bytes of each context.
        bytes: u32,
        /// Bytes of the memory.
        room: u64,
    },
    /// See [`MemoryParameters`].
    #[error(
        "a memory with {0:?} is impossible: set latency and bytes per cycle to 1 to 1048576, jitter to \
         1048576 at most, outstanding requests to 1 to 65536"
    )]
    Memory(MemoryParameters),
}

const MILLION: u32 = 1 << 20;

impl MemoryParameters {
    fn check(&self) -> Result<(), ParameterError> {
        let large = u64::from(MILLION);
        let fits = (1..=large).contains(&self.latency)
            && self.jitter <= large
            && (1..=1 << 16).contains(&self.outstanding)
            && (1..=MILLION).contains(&self.bytes_per_cycle);
        if fits { Ok(()) } else { Err(ParameterError::Memory(*self)) }
    }

    /// Returns the number of cycles between two requests for contexts of `context_bytes` bytes.
    #[must_use]
    pub const fn request_interval(&self, context_bytes: u32) -> u64 {
        context_bytes.div_ceil(self.bytes_per_cycle) as u64
    }
}

impl Parameters {
    /// Checks all parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParameterError> {
        if !(1..=MILLION).contains(&self.entries) {
            return Err(ParameterError::Entries(self.entries));
        }
        if self.threshold >= self.entries {
            return Err(ParameterError::Threshold { threshold: self.threshold, entries: self.entries });
        }
        if !(1..=1024).contains(&self.lookup_cycles) {
            return Err(ParameterError::LookupCycles(self.lookup_cycles));
        }
        if !(2..=1024).contains(&self.command_cycles) {
            return Err(ParameterError::CommandCycles(self.command_cycles));
        }
        if self.deallocation_stall > 1024 {
            return Err(ParameterError::DeallocationStall(self.deallocation_stall));
        }
        if !(1..=MILLION as usize).contains(&self.miss_queue) {
            return Err(ParameterError::MissQueue(self.miss_queue));
        }
        if !(1..=Cid::MAX + 1).contains(&self.connections) {
            return Err(ParameterError::Connections(self.connections));
        }
        if !(1..=MILLION).contains(&self.context_bytes) {
            return Err(ParameterError::ContextBytes(self.context_bytes));
        }
        let backed = self.on_chip_connections.min(self.connections);
        if u64::from(backed) * u64::from(self.context_bytes) > self.on_chip_bytes {
            return Err(ParameterError::OnChip {
                connections: backed,
                bytes: self.context_bytes,
                room: self.on_chip_bytes,
            });
        }
        self.on_chip.check()?;
        self.off_chip.check()
    }

    /// Returns the number of cycles from the entry of a command into the pipeline to the read of its context.
    #[must_use]
    pub const fn hit_cycles(&self) -> u64 {
        self.lookup_cycles as u64
    }

    /// Returns the number of cycles from the entry of a command into the pipeline to the first cycle in which its
    /// effect is visible.
    #[must_use]
    pub const fn pipeline_cycles(&self) -> u64 {
        (self.lookup_cycles + self.command_cycles) as u64
    }
}
