//! The blocks of the card.

use serde::{Deserialize, Serialize};

/// A pipelined block. A frame visits the blocks that its run of the datapath needs, in the order in which it needs
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Ethernet, IP, UDP, PSP, Falcon and RDMA headers of a received frame.
    Parser,
    /// PSP decryption and authentication. Plaintext (D-83) passes through it too, to keep the order.
    SecurityIn,
    /// UDP checksum of a received frame.
    ChecksumIn,
    /// Table of memory regions by R_Key.
    RegionTable,
    /// Connection lookup: the connection-context cache.
    Lookup,
    /// Sliding windows, SPI and replay check. It reads the connection context and writes it back.
    PacketReliability,
    /// Release of the transmit-window entries that an ACK, a NACK or a piggybacked base acknowledges.
    Acknowledgement,
    /// The set of packets to retransmit, and the choice of the next one.
    Retransmission,
    /// Transactions, their order and completions.
    Transaction,
    /// The inline rate update engine: Swift or another algorithm.
    Congestion,
    /// Due time and bitmaps of ACKs.
    AckCoalescing,
    /// Receive cells: packets that are held for their order.
    Reorder,
    /// Event and result queues of a rate update engine outside of the card.
    RueQueues,
    /// The connections that request a turn of the engine.
    Scheduler,
    /// The deadlines of connections.
    TimingWheel,
    /// Reads of the host's memory.
    MemoryRead,
    /// Writes to the host's memory.
    MemoryWrite,
    /// UDP checksum of a packet to send.
    ChecksumOut,
    /// Headers and payload of a packet to send.
    Builder,
    /// PSP encryption.
    SecurityOut,
    /// The outgoing line.
    Line,
}

impl Block {
    /// Number of blocks.
    pub const COUNT: usize = Self::ALL.len();

    /// All blocks, by their number.
    pub const ALL: [Self; 21] = [
        Self::Parser,
        Self::SecurityIn,
        Self::ChecksumIn,
        Self::RegionTable,
        Self::Lookup,
        Self::PacketReliability,
        Self::Acknowledgement,
        Self::Retransmission,
        Self::Transaction,
        Self::Congestion,
        Self::AckCoalescing,
        Self::Reorder,
        Self::RueQueues,
        Self::Scheduler,
        Self::TimingWheel,
        Self::MemoryRead,
        Self::MemoryWrite,
        Self::ChecksumOut,
        Self::Builder,
        Self::SecurityOut,
        Self::Line,
    ];

    /// Returns the name of the block.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parser => "parser",
            Self::SecurityIn => "security in",
            Self::ChecksumIn => "checksum in",
            Self::RegionTable => "region table",
            Self::Lookup => "connection lookup",
            Self::PacketReliability => "packet reliability",
            Self::Acknowledgement => "acknowledgement",
            Self::Retransmission => "retransmission",
            Self::Transaction => "transaction",
            Self::Congestion => "congestion",
            Self::AckCoalescing => "ACK coalescing",
            Self::Reorder => "reorder",
            Self::RueQueues => "RUE queues",
            Self::Scheduler => "scheduler",
            Self::TimingWheel => "timing wheel",
            Self::MemoryRead => "memory read",
            Self::MemoryWrite => "memory write",
            Self::ChecksumOut => "checksum out",
            Self::Builder => "builder",
            Self::SecurityOut => "security out",
            Self::Line => "line",
        }
    }
}

/// A visit to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The block.
    pub block: Block,
    /// Cycles for which the block accepts nothing else: its initiation interval for this visit.
    pub busy: u64,
    /// Cycles after the busy ones until the frame can go on.
    pub latency: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_at_their_numbers_and_are_told_apart() {
        for (number, block) in Block::ALL.into_iter().enumerate() {
            assert_eq!(block as usize, number, "{}", block.name());
            assert!(Block::ALL[..number].iter().all(|other| other.name() != block.name()));
        }
    }
}
