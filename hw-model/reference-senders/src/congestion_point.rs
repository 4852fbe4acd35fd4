//! DCQCN's congestion point: decides which packets a switch marks (figure 5 of the paper).

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Marking by the length of a queue, in bytes. A packet is never marked up to `min`, and always above `max`.
/// Between them the probability rises from 0 to `probability`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// K_min, in bytes.
    pub min: u64,
    /// K_max, in bytes.
    pub max: u64,
    /// P_max, from 0 to 1.
    pub probability: f64,
}

impl Red {
    /// The values of the paper: 5 KB, 200 KB, 1 %.
    pub const DCQCN: Self = Self { min: 5_000, max: 200_000, probability: 0.01 };

    /// The default of the simulator published with Zhu et al., "ECN or delay", CoNEXT 2016 (`KMIN`, `KMAX`, `PMAX`
    /// of ns3-rdma): 40 and 1000 cells of 1030 B, 100 %.
    pub const SIMULATOR: Self = Self { min: 41_200, max: 1_030_000, probability: 1.0 };

    /// Returns the probability that a packet is marked when the queue holds `queue` bytes.
    #[must_use]
    pub fn probability_at(&self, queue: u64) -> f64 {
        if queue <= self.min {
            0.0
        } else if queue > self.max {
            1.0
        } else {
            self.probability * (queue - self.min) as f64 / (self.max - self.min) as f64
        }
    }
}

/// The marking decision of a queue.
///
/// The random draw for a packet depends only on the seed, the flow and the segment. It does not depend on the time
/// or on other packets. Two senders that are compared therefore get the same draws. Each still fills its own
/// queue.
#[derive(Clone, Debug)]
pub struct CongestionPoint {
    red: Red,
    seed: u64,
    packets: u64,
    marked: u64,
}

impl CongestionPoint {
    /// Creates a congestion point. `seed` decides the random draws.
    #[must_use]
    pub const fn new(red: Red, seed: u64) -> Self {
        Self { red, seed, packets: 0, marked: 0 }
    }

    /// Returns the number of packets marked.
    pub const fn marked(&self) -> u64 {
        self.marked
    }

    /// Returns the number of packets seen.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Handles segment `segment` of flow `flow`, which finds `queue` bytes in the queue. Returns true if the
    /// switch must mark it.
    pub fn on_packet(&mut self, queue: u64, flow: u32, segment: u32) -> bool {
        let probability = self.red.probability_at(queue);
        let marks = probability > 0.0 && (probability >= 1.0 || self.draw(flow, segment) < probability);
        self.packets += 1;
        self.marked += u64::from(marks);
        marks
    }

    fn draw(&self, flow: u32, segment: u32) -> f64 {
        let name = u64::from(flow) << 32 | u64::from(segment);
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&name.to_le_bytes());
        StdRng::from_seed(seed).random()
    }
}
