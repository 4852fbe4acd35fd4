//! How many hosts a scenario has, and which of them a connection joins.

use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Most hosts of a scenario.
pub const MOST_HOSTS: usize = 32;
/// One seed in so many has a crowd of hosts. The others have two or three, because a crowd shows less for its time: its
/// connections have fewer operations.
const CROWDS: u32 = 10;
/// Hosts of a crowd.
const CROWD: RangeInclusive<usize> = 4..=8;
/// Largest number of connections that a host begins with. Its memory has room for as many again, after restarts of its
/// peers, and for the openings of one link.
const MOST_LINKS_OF_HOST: usize = 4;

/// The number of hosts that a seed gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Two or three.
    Few,
    /// Two or three, and four to eight in one seed of ten.
    Any,
    /// Within this range.
    Within(RangeInclusive<usize>),
}

impl Hosts {
    /// Draws the number for `seed`; `None` for two or three, of which the scenario's own generator decides. So a seed
    /// with few hosts is the same run with and without crowds.
    pub(super) fn draw(&self, seed: u64) -> Option<usize> {
        let mut rng = StdRng::seed_from_u64(seed ^ 0xc2_0e_d5);
        match self {
            Self::Few => None,
            Self::Any => rng.random_ratio(1, CROWDS).then(|| rng.random_range(CROWD)),
            Self::Within(range) => Some(rng.random_range(range.clone())),
        }
    }
}

/// Draws the pair of hosts that a connection joins.
pub(super) fn pair(rng: &mut StdRng, hosts: usize) -> [usize; 2] {
    let first = rng.random_range(0..hosts);
    [first, (first + rng.random_range(1..hosts)) % hosts]
}

/// Draws the pairs that the connections of a crowd join. Every host has one at least, and none has more than
/// [`MOST_LINKS_OF_HOST`].
pub(super) fn pairs(rng: &mut StdRng, hosts: usize) -> Vec<[usize; 2]> {
    let mut pairs: Vec<[usize; 2]> = vec![];
    let of = |pairs: &[[usize; 2]], host: usize| pairs.iter().filter(|pair| pair.contains(&host)).count();
    for first in 0..hosts {
        while of(&pairs, first) == 0 {
            let second = (first + rng.random_range(1..hosts)) % hosts;
            if of(&pairs, second) < MOST_LINKS_OF_HOST {
                pairs.push([first, second]);
            }
        }
    }
    for _ in 0..rng.random_range(0..=hosts) {
        let pair = pair(rng, hosts);
        if pair.iter().all(|host| of(&pairs, *host) < MOST_LINKS_OF_HOST) {
            pairs.push(pair);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_a_crowd_has_a_connection_and_none_too_many() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let hosts = rng.random_range(4..=MOST_HOSTS);
            let pairs = pairs(&mut rng, hosts);
            assert!(pairs.iter().all(|[a, b]| a != b && a.max(b) < &hosts), "{pairs:?}");
            for host in 0..hosts {
                let links = pairs.iter().filter(|pair| pair.contains(&host)).count();
                assert!((1..=MOST_LINKS_OF_HOST).contains(&links), "host {host}: {pairs:?}");
            }
        }
    }

    #[test]
    fn one_seed_in_ten_has_a_crowd() {
        let crowds: Vec<usize> = (0..8000).filter_map(|seed| Hosts::Any.draw(seed)).collect();
        assert!((650..950).contains(&crowds.len()), "{}", crowds.len());
        CROWD.for_each(|hosts| assert!(crowds.contains(&hosts)));
        let within: Vec<Option<usize>> = (0..100).map(|seed| Hosts::Within(5..=6).draw(seed)).collect();
        assert!(within.contains(&Some(5)) && within.contains(&Some(6)), "{within:?}");
        assert!(within.iter().all(|hosts| [Some(5), Some(6)].contains(hosts)), "{within:?}");
    }
}
