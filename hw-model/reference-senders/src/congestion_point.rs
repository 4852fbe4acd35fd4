//! DCQCN's congestion point: which packets a switch marks (figure 5 of the paper).

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Marking by the length of a queue, bytes: never up to `min`, always above `max`, and between them with a probability
/// that rises from 0 to `probability`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// K_min.
    pub min: u64,
    /// K_max.
    pub max: u64,
    /// P_max.
    pub probability: f64,
}

impl Red {
    /// The paper's: 5 KB, 200 KB, 1 %.
    pub const DCQCN: Self = Self { min: 5_000, max: 200_000, probability: 0.01 };

    /// The default of the simulator published with Zhu et al., "ECN or delay", CoNEXT 2016 (`KMIN`, `KMAX`, `PMAX`
    /// of ns3-rdma): 40 and 1000 cells of 1030 B, 100 %.
    pub const SIMULATOR: Self = Self { min: 41_200, max: 1_030_000, probability: 1.0 };

    /// The probability that a packet is marked that finds a queue of so many bytes.
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

/// A queue that marks.
///
/// What a packet's draw is depends on the seed, its flow and its segment alone, not on when it comes or on what comes
/// in between: two senders that are compared meet the same luck. They still meet queues of their own making.
#[derive(Clone, Debug)]
pub struct CongestionPoint {
    red: Red,
    seed: u64,
    packets: u64,
    marked: u64,
}

impl CongestionPoint {
    /// With draws decided by `seed`.
    #[must_use]
    pub const fn new(red: Red, seed: u64) -> Self {
        Self { red, seed, packets: 0, marked: 0 }
    }

    /// Packets marked.
    pub const fn marked(&self) -> u64 {
        self.marked
    }

    /// Packets seen.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Segment `segment` of flow `flow` finds a queue of so many bytes. True: mark it.
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
