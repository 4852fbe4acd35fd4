//! Receive resources of a connection: the occupancy of the pools (section 8.2, 10.2).

use crate::packet_delivery::DATA_WINDOW;
use bytemuck::{Pod, Zeroable};

/// Bytes of a receive cell: the payload of one packet.
pub const CELL_BYTES: usize = 4096;
/// Receive cells of a node. [`CellId`](crate::ids::CellId) has their numbers.
pub const CELLS: usize = 2048;
/// Number of requests that a connection may hold: its share of the packet pool (10.2).
const PACKET_POOL: u32 = DATA_WINDOW;
const _: () = {
    assert!(
        CELLS <= u16::MAX as usize,
        "`full_buffer_pool` has 16 bits, here and in the parameters: give it 32"
    );
    assert!(CELLS < u32::MAX as usize, "`CellId` has 32 bits");
};
/// Number of occupancy levels (F-10.2-3).
const LEVELS: u32 = 32;
/// Value of an average without a sample.
const UNKNOWN: u32 = u32::MAX;

/// Occupancy of the receive pools, from the view of one connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Occupancy {
    /// Smoothed number of requests held, which is the connection's use of its share of the packet pool, 8 fraction
    /// bits (F-10.2-1).
    pub packets: u32,
    /// Smoothed number of the node's receive cells in use, 8 fraction bits (F-10.2-1).
    pub buffers: u32,
    /// Weight of a new value, in 1/256; 0 stands for 256: no smoothing (F-10.2-2, D-61).
    pub weight: u32,
    /// Number of requests held for the ULP at which the packet pool counts as full. The thresholds of the 32
    /// levels divide the range below it evenly (F-10.2-3, D-76). 0 stands for all that a connection can hold.
    pub full_packet_pool: u16,
    /// Number of the node's receive cells in use at which the buffer pool counts as full, with the same levels. 0
    /// stands for all cells.
    pub full_buffer_pool: u16,
    /// Level reported to the peer, 0..31.
    pub level: u32,
    /// Always 0.
    pub reserved: u32,
}

impl Occupancy {
    /// Creates an occupancy without samples: the first sample becomes the average (D-76).
    pub fn new(weight: u32, full_packet_pool: u16, full_buffer_pool: u16) -> Self {
        let (packets, buffers) = (UNKNOWN, UNKNOWN);
        Self { packets, buffers, weight, full_packet_pool, full_buffer_pool, ..Self::default() }
    }

    /// Updates the level after the held requests or the node's cells changed (F-10.2-1, F-10.2-3, F-10.2-4).
    /// A function of its own, because it is rare.
    #[inline(never)]
    pub fn changed(&mut self, held: u32, cells_in_use: u32) {
        let packet_pool = pool(self.full_packet_pool, PACKET_POOL);
        let buffer_pool = pool(self.full_buffer_pool, CELLS as u32);
        smooth_occupancy(&mut self.packets, held, self.weight);
        smooth_occupancy(&mut self.buffers, cells_in_use, self.weight);
        let packets = level(self.packets, packet_pool);
        let buffers = level(self.buffers, buffer_pool);
        self.level = if packets > buffers { packets } else { buffers } as u32;
    }

    /// Returns the level to report when the card's own receive buffer is at `card_level` (D-76).
    #[inline(always)]
    pub fn level_with(&self, card_level: u32) -> u8 {
        (if self.level > card_level { self.level } else { card_level }) as u8
    }
}

/// Moves an average with 8 fraction bits towards `current`. `alpha` / 256 is the weight of the new value; 0 stands
/// for 256 (F-10.2-1, F-10.2-2, D-61). The first value becomes the average (D-76).
#[inline(always)]
fn smooth_occupancy(average: &mut u32, current: u32, alpha: u32) {
    let alpha = if alpha == 0 || alpha > 256 { 256 } else { alpha };
    let current = current << 8;
    if *average == UNKNOWN {
        *average = current;
        return;
    }
    *average = if current > *average {
        *average + (((current - *average) as u64 * alpha as u64) >> 8) as u32
    } else {
        *average - (((*average - current) as u64 * alpha as u64) >> 8) as u32
    };
}

/// Returns the size of a pool that counts as full at `full` of `all`. 0 and values above `all` stand for `all`.
#[inline(always)]
fn pool(full: u16, all: u32) -> u32 {
    if full == 0 || full as u32 > all { all } else { full as u32 }
}

/// Returns the level of an average in a pool of `size`, which is not 0. The thresholds divide the pool evenly
/// (D-76).
#[inline(always)]
fn level(average: u32, size: u32) -> u8 {
    let whole = average as u64 * LEVELS as u64;
    let level = whole.checked_div((size as u64) << 8).map_or(LEVELS, |level| level as u32);
    if level >= LEVELS { (LEVELS - 1) as u8 } else { level as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-76.
    #[test]
    fn the_first_sample_is_the_average() {
        let mut occupancy = Occupancy::new(64, 0, 0);
        occupancy.changed(64, 0);
        assert_eq!((occupancy.packets, occupancy.level), (64 << 8, 16), "half of the packet pool at once");
        occupancy.changed(0, 0);
        assert_eq!(occupancy.packets, 48 << 8, "from then on a quarter of the difference");
    }

    /// F-10.2-4, D-76.
    #[test]
    fn the_fuller_pool_is_reported_and_a_full_one_is_level_31() {
        let mut occupancy = Occupancy::new(0, 0, 0);
        occupancy.changed(4, CELLS as u32 / 2);
        assert_eq!(occupancy.level, 16);
        occupancy.changed(1000, 0);
        assert_eq!(occupancy.level, 31);
    }
}
