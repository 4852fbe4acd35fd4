//! Draws the faults of a scenario.

use fabric_model::{Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::packet_delivery::Window;

use super::crowd::Hosts;
use super::draw::scale;
use super::faults::{Fault, FaultKind, Lateness};
use super::hostile::Forgery;
use super::scenario::{Profile, Scenario};
use super::wraps;

/// Latest time of a fault, nanoseconds.
const LATEST: u64 = 30_000_000;
/// Longest pause, and the sum of all steps of a clock, nanoseconds. Both together stay below half the margin of replay
/// protection (100 ms, D-56). Beyond that, packets are refused, as they should be.
const LONGEST_PAUSE: u64 = 15_000_000;
const LARGEST_STEP: u64 = 15_000_000;
/// Longest time for which an application does nothing, or receive cells are missing, nanoseconds.
const LONGEST_SILENCE: u64 = 40_000_000;
/// Longest partition, nanoseconds.
const LONGEST_PARTITION: u64 = 20_000_000;
/// Largest drift of a clock, parts per million.
const LARGEST_DRIFT: i64 = 100;
/// Largest number of times that a link is opened again. The memory of a host has room for them.
const MOST_OPENINGS: usize = 5;

impl Scenario {
    /// Draws the scenario of `seed`, with faults, and with a crowd of hosts in one seed of ten.
    #[must_use]
    pub fn with_faults(seed: u64, profile: Profile) -> Self {
        Self::with_faults_among(seed, profile, &Hosts::Any)
    }

    /// Draws the scenario of `seed`, with faults and so many hosts.
    #[must_use]
    pub fn with_faults_among(seed: u64, profile: Profile, hosts: &Hosts) -> Self {
        let mut this = Self::among(seed, profile, hosts);
        let mut rng = StdRng::seed_from_u64(seed ^ 0xfa017);
        let rng = &mut rng;
        for host in &mut this.hosts {
            host.cpus = if rng.random_bool(0.6) { rng.random_range(2..=4) } else { 1 };
            host.engines = if host.cpus > 1 && rng.random_bool(0.3) { 2 } else { 1 };
            host.drift_ppm =
                if rng.random_bool(0.5) { rng.random_range(-LARGEST_DRIFT..=LARGEST_DRIFT) } else { 0 };
        }
        // Each two hosts have as many faults as a scenario of two.
        let number = (0..this.hosts.len() / 2).map(|_| rng.random_range(0..6)).sum();
        let mut faults: Vec<Fault> = (0..number).map(|_: usize| this.fault(rng)).collect();
        if profile == Profile::Exhausting && rng.random_bool(0.4) {
            let hosts = this.hosts.len();
            let first = rng.random_range(0..hosts);
            // In a crowd several may restart, each once.
            for n in 0..if hosts > 3 { rng.random_range(1..=hosts / 2) } else { 1 } {
                let kind = FaultKind::Restart { host: (first + n) % hosts };
                faults.push(Fault { at: instant(rng), kind });
            }
        }
        if profile == Profile::Exhausting && rng.random_bool(0.5) {
            let link = rng.random_range(0..this.links.len());
            for _ in 0..rng.random_range(1..=MOST_OPENINGS) {
                let amid_run = rng.random_bool(0.7);
                faults.push(Fault { at: instant(rng), kind: FaultKind::Reopen { link, amid_run } });
            }
        }
        for host in &mut this.hosts {
            if rng.random_bool(0.5) {
                let near = rng.random_range(0..1u64 << 36);
                host.clock = wraps::instant((near >> 34) as usize).wrapping_sub(near & ((1 << 34) - 1));
            }
        }
        faults.sort_by_key(|fault| fault.at);
        this.faults = faults;
        this.add_pressure();
        this.add_hoard();
        this.add_lateness();
        this
    }

    fn fault(&self, rng: &mut StdRng) -> Fault {
        let hosts = self.hosts.len();
        let host = rng.random_range(0..hosts);
        let kind = match rng.random_range(0..8) {
            0 => FaultKind::Pause { host, length: Span::from_nanos(scale(rng, 1000, LONGEST_PAUSE)) },
            1 => {
                let other = (host + rng.random_range(1..hosts)) % hosts;
                let length = Span::from_nanos(scale(rng, 1000, LONGEST_PARTITION));
                FaultKind::Partition { hosts: [host, other], length }
            }
            3 => FaultKind::Silence { host, length: Span::from_nanos(scale(rng, 1000, LONGEST_SILENCE)) },
            4 => {
                let (left, length) = (rng.random_range(0..3), scale(rng, 1000, LONGEST_SILENCE));
                FaultKind::Shortage { host, left, length: Span::from_nanos(length) }
            }
            5 => {
                let length = Span::from_nanos(scale(rng, 1000, LONGEST_SILENCE));
                FaultKind::Late { host, lateness: Lateness::Window(Window::Request), length }
            }
            // At most five steps of one host.
            2 => FaultKind::ClockStep { host, by: Span::from_nanos(scale(rng, 100, LARGEST_STEP / 5)) },
            _ => {
                let forgery = Forgery::ALL[rng.random_range(0..Forgery::ALL.len())];
                FaultKind::Hostile { host, frames: scale(rng, 1, 200) as u32, forgery }
            }
        };
        Fault { at: instant(rng), kind }
    }
}

fn instant(rng: &mut StdRng) -> Time {
    Time::ZERO + Span::from_nanos(scale(rng, 5_000, LATEST))
}
