//! The topology: hosts at switches, trunks between switches, and the shortest paths.

use std::collections::VecDeque;

use super::flow::FlowHash;
use super::port::Port;
use super::random::GOLDEN;

/// The number of one direction of a cable between two switches, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trunk(pub u16);

/// The queue by which frames leave a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Egress {
    /// Towards a host.
    Host(Port),
    /// Towards another switch.
    Trunk(Trunk),
}

impl From<Port> for Egress {
    fn from(port: Port) -> Self {
        Self::Host(port)
    }
}

impl From<Trunk> for Egress {
    fn from(trunk: Trunk) -> Self {
        Self::Trunk(trunk)
    }
}

/// The switches of a fabric, their hosts and their cables. Frames take a shortest path. If there are several, the
/// hash of the flow decides (see [`FlowHash`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    switches: u16,
    /// The switch of each host, by port.
    attachments: Vec<u16>,
    /// The start and end switch of each trunk.
    trunks: Vec<(u16, u16)>,
    /// The trunks that start a shortest path. The index is start switch * switches + destination switch.
    next: Vec<Vec<Trunk>>,
}

impl Topology {
    /// Creates one switch with all hosts.
    #[must_use]
    pub fn star(hosts: u16) -> Self {
        Self::new(1, vec![0; usize::from(hosts)], vec![])
    }

    /// Creates two switches with hosts, and `paths` parallel cables between the switches. The hosts on the left
    /// have the lower ports. Trunks 0 to `paths - 1` lead from left to right. The other trunks lead from right to
    /// left.
    ///
    /// # Panics
    /// Panics if there are more than 65,535 hosts and trunks, or no path between the two sides.
    #[must_use]
    pub fn dumbbell(left: u16, right: u16, paths: u16) -> Self {
        let attachments = [vec![0; usize::from(left)], vec![1; usize::from(right)]].concat();
        let trunks = [vec![(0, 1); usize::from(paths)], vec![(1, 0); usize::from(paths)]].concat();
        Self::new(2, attachments, trunks)
    }

    /// Creates a two-level Clos network. Each leaf switch has hosts, in the order of their ports, and one cable to
    /// every spine switch. Trunk `leaf * spines + spine` leads up. Trunk `leaves * spines + leaf * spines + spine`
    /// is the same cable in the other direction.
    ///
    /// # Panics
    /// Panics if there are more than 65,535 switches, or more than 65,535 hosts and trunks, or no spine between
    /// several leaves.
    #[must_use]
    pub fn leaf_spine(leaves: u16, hosts_per_leaf: u16, spines: u16) -> Self {
        let switches = leaves.checked_add(spines).expect("at most 65,535 switches");
        let attachments = (0..leaves).flat_map(|leaf| vec![leaf; usize::from(hosts_per_leaf)]).collect();
        let cables = (0..leaves).flat_map(|leaf| (leaves..switches).map(move |spine| (leaf, spine)));
        let up: Vec<_> = cables.collect();
        let down = up.iter().map(|&(leaf, spine)| (spine, leaf));
        Self::new(switches, attachments, up.iter().copied().chain(down).collect())
    }

    fn new(switches: u16, attachments: Vec<u16>, trunks: Vec<(u16, u16)>) -> Self {
        assert!(attachments.len() + trunks.len() <= usize::from(u16::MAX), "too many hosts and trunks");
        let mut topology = Self { switches, attachments, trunks, next: vec![] };
        let mut next = vec![vec![]; usize::from(switches) * usize::from(switches)];
        for destination in 0..switches {
            let distances = topology.distances(destination);
            let reach_it = |host: &u16| distances[usize::from(*host)].is_some();
            let has_hosts = topology.attachments.contains(&destination);
            assert!(
                !has_hosts || topology.attachments.iter().all(reach_it),
                "hosts without a path between them"
            );
            for (trunk, &(from, to)) in (0..).map(Trunk).zip(&topology.trunks) {
                let [here, there] = [from, to].map(|switch| distances[usize::from(switch)]);
                if let (Some(here), Some(there)) = (here, there)
                    && there < here
                {
                    next[topology.pair(from, destination)].push(trunk);
                }
            }
        }
        topology.next = next;
        topology
    }

    fn pair(&self, from: u16, destination: u16) -> usize {
        usize::from(from) * usize::from(self.switches) + usize::from(destination)
    }

    /// Returns the number of trunks on the shortest path from each switch to `destination`, or `None` if there is
    /// no path.
    fn distances(&self, destination: u16) -> Vec<Option<u16>> {
        let mut distances = vec![None; usize::from(self.switches)];
        distances[usize::from(destination)] = Some(0u16);
        let mut queue = VecDeque::from([destination]);
        while let Some(switch) = queue.pop_front() {
            let farther = distances[usize::from(switch)].map(|distance| distance + 1);
            for &(from, _) in self.trunks.iter().filter(|(_, to)| *to == switch) {
                if distances[usize::from(from)].is_none() {
                    distances[usize::from(from)] = farther;
                    queue.push_back(from);
                }
            }
        }
        distances
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u16 {
        self.attachments.len() as u16
    }

    /// Returns the number of trunks. Each cable between switches has two.
    #[must_use]
    pub fn trunks(&self) -> u16 {
        self.trunks.len() as u16
    }

    /// Returns the number of switches.
    pub(super) const fn switches(&self) -> u16 {
        self.switches
    }

    /// Returns the switch at the start of a link.
    pub(super) fn start_of(&self, egress: Egress) -> u16 {
        match egress {
            Egress::Host(port) => self.switch_of(port),
            Egress::Trunk(trunk) => self.trunks[usize::from(trunk.0)].0,
        }
    }

    /// Returns the switch of a host.
    pub(super) fn switch_of(&self, port: Port) -> u16 {
        self.attachments[usize::from(port.0)]
    }

    /// Returns the switch at the end of a trunk.
    pub(super) fn end_of(&self, trunk: Trunk) -> u16 {
        self.trunks[usize::from(trunk.0)].1
    }

    /// Returns the link on which a frame leaves `switch` towards the host at `destination`. `flow` is called only
    /// if there is a choice.
    pub(super) fn forward(
        &self,
        switch: u16,
        destination: Port,
        seed: u64,
        flow: impl FnOnce() -> FlowHash,
    ) -> Egress {
        let last = self.switch_of(destination);
        if switch == last {
            return Egress::Host(destination);
        }
        let ways = &self.next[self.pair(switch, last)];
        // The multiplication gives neighbouring seeds and switches unrelated salts.
        let salt = || seed ^ u64::from(switch).wrapping_mul(GOLDEN);
        let way = if ways.len() == 1 { 0 } else { flow().choose(salt(), ways.len()) };
        Egress::Trunk(ways[way])
    }
}
