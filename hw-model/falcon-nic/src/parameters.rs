//! The parameters of the card.

use fabric_model::Rate;
use transport_common::connection::{Cold, Connection};
use transport_common::timing_wheel;

use super::block::{Block, Hop};
use super::request::Request;
use super::work::StepWork;

/// Parameters of the card. Every field names its default and the source of it. "Assumption" marks a number of this
/// project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Picoseconds of a clock cycle, 1 to 1,000,000. Default 1000, which is 1 GHz: assumption.
    pub period: u64,
    /// Rate of the outgoing line. Default 200 Gb/s: the target of the replay's budgets.
    pub rate: Rate,
    /// Bytes of a frame that the parser, checksum units and builder process per cycle, 1 to 4096. Default 64: the
    /// 512-bit bus of today's 200 and 400 Gb/s cards, which carries 512 Gb/s at 1 GHz.
    pub bus_bytes: u32,
    /// AES-GCM lanes of 16 bytes per cycle, in each direction, 1 to 256. Default 4: as wide as the bus.
    pub security_lanes: u32,
    /// Bytes of a connection context that packet reliability reads, and writes, per cycle, 1 to 4096. Default
    /// 1024: the patent's pipeline takes a command every cycle, so a whole context (at most 1024 B) moves in one
    /// cycle.
    pub context_width: u32,
    /// Bytes of frames that can wait in the receive buffer. Further frames are dropped. Default 256 KiB, ten
    /// microseconds of 200 Gb/s: assumption.
    pub receive_buffer: u64,
    /// Maximum number of received frames in the pipelines, 1 to 65536. Default 1024: with 200 ns to the host's
    /// memory and 300 ns in the blocks, 64-byte WRITEs at 200 Gb/s need 70. The rest is for misses of the cache.
    /// Assumption.
    pub receive_contexts: usize,
    /// Maximum number of turns in the pipelines, 1 to 65536. Default 256: 500 ns of memory reads. Assumption.
    pub transmit_contexts: usize,
    /// Maximum number of runs on their first pass in front of a block, 1 to 65536. Default 16: assumption.
    pub queue: usize,
    /// Bytes that move from or to the host's memory per cycle, 1 to 4096. Default 64: PCIe 5.0 x16 at 1 GHz, each
    /// way.
    pub memory_width: u32,
    /// Maximum number of outstanding reads of the host's memory, 1 to 65536. Default 256: an 8-bit PCIe tag.
    pub memory_reads: usize,
    /// Maximum number of outstanding writes to the host's memory, 1 to 65536. Default 256, as many credits:
    /// assumption.
    pub memory_writes: usize,
    /// Cycles that a visit takes in addition to those for which the block is busy, by block, each at most
    /// 1,000,000. See [`Self::LATENCY`] for the defaults. The latency of [`Block::Lookup`] is not used, because
    /// the cache has its own.
    pub latency: [u64; Block::COUNT],
    /// Cycles to take a receive cell from the free list, or to return it. Default 1.
    pub cell_list: u64,
    /// The connection-context cache. Its pending counters keep a connection cached while one of its steps is in
    /// progress.
    pub cache: context_cache::Parameters,
}

/// The bytes that the line adds to a frame: preamble and start delimiter 8, frame check sequence 4, gap 12 (IEEE
/// 802.3).
pub const LINE_OVERHEAD: u32 = 8 + 4 + 12;
/// Bytes of the shortest frame on a line, without its frame check sequence.
const SHORTEST_FRAME: u32 = 60;

/// Returns the bytes that a frame takes on the line, including padding, preamble, check sequence and gap.
#[must_use]
pub const fn wire_bytes(frame: u32) -> u32 {
    let padded = if frame > SHORTEST_FRAME { frame } else { SHORTEST_FRAME };
    padded + LINE_OVERHEAD
}

/// A parameter that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A parameter of the card is out of range.
    #[error("{name}: {value} is out of range, set {least} to {most}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: u64,
        /// The smallest valid value.
        least: u64,
        /// The largest valid value.
        most: u64,
    },
    /// A parameter of the cache is out of range.
    #[error(transparent)]
    Cache(#[from] context_cache::ParameterError),
}

impl Parameters {
    /// Default latencies at 1 GHz, by block.
    pub const LATENCY: [u64; Block::COUNT] = {
        let mut latency = [1; Block::COUNT];
        // One stage for each header (Ethernet, IP, UDP, PSP, Falcon, BTH, and the one after it), and one for the
        // result.
        latency[Block::Parser as usize] = 8;
        // AES-128 has ten rounds. Two cycles each, and four for the hash: assumption.
        latency[Block::SecurityIn as usize] = 24;
        latency[Block::SecurityOut as usize] = 24;
        // The sum of 32 words in a tree of carry-save adders, and the fold to 16 bits: assumption.
        latency[Block::ChecksumIn as usize] = 3;
        latency[Block::ChecksumOut as usize] = 3;
        // A read of a small memory, and the comparison of key and bounds.
        latency[Block::RegionTable as usize] = 2;
        // The patent's command processing: it reads the context in the first cycle and writes it in the last one.
        latency[Block::PacketReliability as usize] = 2;
        // A find-first over 128 bits is two problems of 12 bits or less (Tonic). They take one cycle each, and the
        // work after them takes one more.
        latency[Block::Acknowledgement as usize] = 3;
        latency[Block::Retransmission as usize] = 3;
        // Read, change and write an entry of a table.
        latency[Block::Transaction as usize] = 3;
        // The stages of Swift as a P4 program, with one operation each: `docs/model/swift-p4.md`.
        latency[Block::Congestion as usize] = 89;
        // Bits and timers are in a register file, so reading, changing and writing them takes one cycle.
        latency[Block::AckCoalescing as usize] = 1;
        // 8 MiB on the chip: the system-level cache of the context cache's parameters.
        latency[Block::Reorder as usize] = 40;
        latency[Block::RueQueues as usize] = 2;
        // A find-first over 256 bits takes two cycles, as above.
        latency[Block::Scheduler as usize] = 2;
        latency[Block::TimingWheel as usize] = timing_wheel::WORK_PER_POLL as u64;
        // A round trip over PCIe, and a posted write: assumptions after measurements of 400 to 1000 ns
        // (pcie-bench, SIGCOMM 2018).
        latency[Block::MemoryRead as usize] = 500;
        latency[Block::MemoryWrite as usize] = 200;
        latency[Block::Builder as usize] = 4;
        // The model does not include MAC and PHY.
        latency[Block::Line as usize] = 0;
        latency
    };

    /// Checks all parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParameterError> {
        const MOST: u64 = 65_536;
        const MILLION: u64 = 1_000_000;
        let ranges = [
            ("period (ps)", self.period, 1, MILLION),
            ("rate (b/s)", self.rate.bits_per_second(), 1, 1_000_000_000_000_000),
            ("bus_bytes", self.bus_bytes.into(), 1, 4096),
            ("security_lanes", self.security_lanes.into(), 1, 256),
            ("context_width", self.context_width.into(), 1, 4096),
            ("receive_buffer", self.receive_buffer, 1, u64::MAX),
            ("receive_contexts", self.receive_contexts as u64, 1, MOST),
            ("transmit_contexts", self.transmit_contexts as u64, 1, MOST),
            ("queue", self.queue as u64, 1, MOST),
            ("memory_width", self.memory_width.into(), 1, 4096),
            ("memory_reads", self.memory_reads as u64, 1, MOST),
            ("memory_writes", self.memory_writes as u64, 1, MOST),
            ("cell_list", self.cell_list, 0, MILLION),
        ];
        let latencies = Block::ALL.map(|block| (block.name(), self.latency[block as usize], 0, MILLION));
        for (name, value, least, most) in ranges.into_iter().chain(latencies) {
            if value < least || value > most {
                return Err(ParameterError::Range { name, value, least, most });
            }
        }
        self.cache.check()?;
        Ok(())
    }

    /// Returns the picoseconds that a frame takes on the line, including the line's overhead.
    pub(super) fn line_time(&self, frame: u32) -> u64 {
        self.rate.time_of(wire_bytes(frame).into()).0
    }

    /// Returns the budget of a frame: the cycles that it takes on the line.
    #[must_use]
    pub fn budget(&self, frame: u32) -> f64 {
        self.line_time(frame) as f64 / self.period as f64
    }

    const fn hop(&self, block: Block, busy: u64) -> Hop {
        Hop { block, busy, latency: self.latency[block as usize] }
    }

    fn moved(&self, block: Block, bytes: u32, width: u32) -> Hop {
        self.hop(block, u64::from(bytes.div_ceil(width)).max(1))
    }

    fn security(&self, block: Block, bytes: u32) -> Hop {
        self.moved(block, bytes, self.security_lanes * 16)
    }

    /// Returns the blocks that serve a request, in order.
    pub(super) fn hops(&self, request: &Request, into: &mut impl Extend<Hop>) {
        let one = match *request {
            Request::Parse { bytes, arriving } => {
                let parser = self.moved(Block::Parser, bytes, self.bus_bytes);
                return into.extend(
                    [Some(parser), arriving.then(|| self.security(Block::SecurityIn, bytes))]
                        .into_iter()
                        .flatten(),
                );
            }
            Request::SumFrame { bytes } => self.moved(Block::ChecksumIn, bytes, self.bus_bytes),
            Request::SumHeader { bytes } => self.moved(Block::ChecksumOut, bytes, self.bus_bytes),
            Request::SumMemory { bytes } => {
                let read = self.moved(Block::MemoryRead, bytes, self.memory_width);
                return into.extend([read, self.moved(Block::ChecksumOut, bytes, self.bus_bytes)]);
            }
            Request::ReadMemory { bytes } => self.moved(Block::MemoryRead, bytes, self.memory_width),
            Request::WriteMemory { bytes } => self.moved(Block::MemoryWrite, bytes, self.memory_width),
            Request::Region => self.hop(Block::RegionTable, 1),
            Request::CellList => Hop { block: Block::Reorder, busy: 1, latency: self.cell_list },
            Request::MoveCell { bytes } => self.moved(Block::Reorder, bytes, self.bus_bytes),
            Request::RueQueues => self.hop(Block::RueQueues, 1),
            Request::Scheduler => self.hop(Block::Scheduler, 1),
            Request::TimingWheel => self.hop(Block::TimingWheel, 1),
            Request::Build { bytes } => self.moved(Block::Builder, bytes, self.bus_bytes),
            Request::Lock { .. } => self.hop(Block::Lookup, 1),
            Request::WriteBack { work, .. } => return self.step_hops(&work, into),
            Request::Send { bytes } => {
                return into.extend([self.security(Block::SecurityOut, bytes), self.hop(Block::Line, 0)]);
            }
        };
        into.extend([one]);
    }

    /// Returns the blocks that a step of the connection visits, in order. The connection is taken until the last
    /// one.
    fn step_hops(&self, work: &StepWork, into: &mut impl Extend<Hop>) {
        let context = (size_of::<Connection>() + size_of::<Cold>()) as u32;
        let parts = [
            Some(self.moved(Block::PacketReliability, context, self.context_width)),
            work.acknowledges().then(|| self.hop(Block::Acknowledgement, 1)),
            work.retransmission.then(|| self.hop(Block::Retransmission, 1)),
            work.transaction.then(|| self.hop(Block::Transaction, u64::from(work.completions).max(1))),
            work.held.then_some(Hop { block: Block::Reorder, busy: 1, latency: self.cell_list }),
            work.decided.then(|| self.hop(Block::Congestion, 1)),
            work.coalescing.then(|| self.hop(Block::AckCoalescing, 1)),
        ];
        into.extend(parts.into_iter().flatten());
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            period: 1000,
            rate: Rate::from_bits_per_second(200_000_000_000).expect("200 Gb/s is a rate"),
            bus_bytes: 64,
            security_lanes: 4,
            context_width: 1024,
            receive_buffer: 256 << 10,
            receive_contexts: 1024,
            transmit_contexts: 256,
            queue: 16,
            memory_width: 64,
            memory_reads: 256,
            memory_writes: 256,
            latency: Self::LATENCY,
            cell_list: 1,
            cache: context_cache::Parameters::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_no_hardware_is_refused_with_its_range() {
        assert_eq!(Parameters::default().check(), Ok(()));
        let error = Parameters { queue: 0, ..Parameters::default() }.check().expect_err("no queue");
        assert_eq!(error.to_string(), "queue: 0 is out of range, set 1 to 65536");
        let cache = context_cache::Parameters { entries: 0, ..context_cache::Parameters::default() };
        assert!(Parameters { cache, ..Parameters::default() }.check().is_err());
        let mut slow = Parameters::default();
        slow.latency[Block::Parser as usize] = 1 << 40;
        assert!(slow.check().expect_err("too slow").to_string().starts_with("parser: "));
    }

    /// A frame of 64 bytes, check sequence included, takes 84 bytes on the line (IEEE 802.3): 3.36 ns at 200 Gb/s.
    #[test]
    fn the_line_gives_a_frame_its_time() {
        let parameters = Parameters::default();
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(14), 84, "padded");
        assert!((parameters.budget(60) - 3.36).abs() < 1e-9);
        assert!((parameters.budget(1514) - 61.52).abs() < 1e-9);
    }
}
