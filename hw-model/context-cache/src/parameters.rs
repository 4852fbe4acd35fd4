//! What was, or must have been, a parameter of the hardware.

use serde::{Deserialize, Serialize};
use transport_common::connection::Connection;
use transport_common::ids::Cid;

/// How the entry to be evicted is chosen, by its index in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Any.
    #[default]
    Random,
    /// One after the other. Free entries are taken in the order in which they became free, so this is first in,
    /// first out but for entries that were passed over because they had work pending.
    Fifo,
}

/// A memory behind the cache. The patent names the kinds (system-level cache, DRAM) and no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryParameters {
    /// Cycles from the cycle in which the memory takes a request to the one in which its completion can enter the
    /// pipeline, at least 1.
    pub latency: u64,
    /// A completion is up to so many cycles later, at random: the memory keeps no order, not even for one address.
    pub jitter: u64,
    /// Requests that may be outstanding at once, at least 1.
    pub outstanding: usize,
    /// Bytes the memory moves in a cycle, at least 1: sets how many cycles lie between two requests.
    pub bytes_per_cycle: u32,
}

/// Parameters of a connection-context cache.
///
/// The patent is EP 4 145 803 A1, "Off-chip memory backed reliable transport connection cache hardware
/// architecture". What it gives no number for is an assumption, and is called one below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Entries of the cache, 1 to 2^20. Patent: "thousands"; 4096 by default.
    pub entries: u32,
    /// Evicts while more entries than this are occupied; below [`Self::entries`]. Patent: configurable. By default
    /// 64 entries stay free for misses, an assumption.
    pub threshold: u32,
    /// Patent: random and serial. Random by default.
    pub eviction: Eviction,
    /// Cycles of a CID lookup, at least 1. Patent: 6.
    pub lookup_cycles: usize,
    /// Cycles of command processing, at least 2: a context is read in the first and written in the last one.
    /// Patent: 2. Commands of one connection enter the pipeline so many cycles apart.
    pub command_cycles: usize,
    /// Cycles for which a connection is stalled when its memory-write completion enters the pipeline. Patent: 6.
    pub deallocation_stall: u64,
    /// Commands the miss queues of all connections can hold together, at least 1. An assumption.
    pub miss_queue: usize,
    /// Connections, 1 to 2^24 (F-6.2-2): their CIDs are below. Patent: "a million, or more".
    pub connections: u32,
    /// Bytes of a connection context. By default those of Tiercel's.
    pub context_bytes: u32,
    /// Connections with a CID below this have their context in the on-chip memory, the others in the off-chip one.
    /// Patent: user configuration.
    pub on_chip_connections: u32,
    /// Bytes of the on-chip memory (system-level cache) that contexts may take. An assumption.
    pub on_chip_bytes: u64,
    /// The on-chip memory. Assumptions.
    pub on_chip: MemoryParameters,
    /// The off-chip memory. Assumptions.
    pub off_chip: MemoryParameters,
    /// Decides the random choices: victims, and jitter of the memories.
    pub seed: u64,
}

impl Default for Parameters {
    /// The patent's numbers, and at 1 GHz: 200 ns to a DRAM of 25 GB/s (a DDR4-3200 channel), 40 ns to the
    /// system-level cache at 64 GB/s, 64 requests outstanding at either.
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

/// Parameters that describe no hardware. Each message says what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// See [`Parameters::entries`].
    #[error("a cache of {0} entries: there are 1 to 1048576")]
    Entries(u32),
    /// See [`Parameters::threshold`].
    #[error(
        "an eviction threshold of {threshold} in a cache of {entries} entries: it is lower than these, \
         else nothing is ever evicted"
    )]
    Threshold {
        /// The threshold.
        threshold: u32,
        /// The entries.
        entries: u32,
    },
    /// See [`Parameters::lookup_cycles`].
    #[error("a lookup of {0} cycles: it takes 1 to 1024")]
    LookupCycles(usize),
    /// See [`Parameters::command_cycles`].
    #[error(
        "command processing of {0} cycles: it takes 2 to 1024, one to read the context and one to write it"
    )]
    CommandCycles(usize),
    /// See [`Parameters::deallocation_stall`].
    #[error("a stall of {0} cycles after a write completion: 1024 at most")]
    DeallocationStall(u64),
    /// See [`Parameters::miss_queue`].
    #[error("miss queues for {0} commands: there are 1 to 1048576")]
    MissQueue(usize),
    /// See [`Parameters::connections`].
    #[error("{0} connections: there are 1 to 16777216, the CID has 24 bits")]
    Connections(u32),
    /// See [`Parameters::context_bytes`].
    #[error("contexts of {0} bytes: there are 1 to 1048576 bytes in a context")]
    ContextBytes(u32),
    /// See [`Parameters::on_chip_connections`].
    #[error("{connections} contexts of {bytes} bytes do not fit into {room} bytes of on-chip memory")]
    OnChip {
        /// Connections backed on the chip.
        connections: u32,
        /// Bytes of each context.
        bytes: u32,
        /// Bytes of the memory.
        room: u64,
    },
    /// See [`MemoryParameters`].
    #[error(
        "a memory with {0:?}: latency and bytes per cycle are 1 to 1048576, jitter at most 1048576, \
         outstanding requests 1 to 65536"
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

    /// Cycles between two requests for contexts of so many bytes.
    #[must_use]
    pub const fn request_interval(&self, context_bytes: u32) -> u64 {
        context_bytes.div_ceil(self.bytes_per_cycle) as u64
    }
}

impl Parameters {
    /// # Errors
    /// The first parameter that is out of range.
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

    /// Cycles from the cycle in which a command enters the pipeline to the one in which its context is read.
    #[must_use]
    pub const fn hit_cycles(&self) -> u64 {
        self.lookup_cycles as u64
    }

    /// Cycles from the cycle in which a command enters the pipeline to the first one in which its effect is seen.
    #[must_use]
    pub const fn pipeline_cycles(&self) -> u64 {
        (self.lookup_cycles + self.command_cycles) as u64
    }
}
