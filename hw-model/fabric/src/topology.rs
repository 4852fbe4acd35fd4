//! Who is joined to whom: hosts at switches, trunks between switches, and the shortest ways.

use std::collections::VecDeque;

use super::flow::FlowHash;
use super::port::Port;
use super::random::GOLDEN;

/// One direction of a cable between two switches, counted from 0.
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

/// The switches of a fabric and what joins them. Frames take a shortest way; where there are several, the flow's hash
/// decides, see [`FlowHash`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    switches: u16,
    /// The switch each host is attached to, by port.
    attachments: Vec<u16>,
    /// The switches each trunk leads from and to.
    trunks: Vec<(u16, u16)>,
    /// Trunks on a shortest way, by switch of departure * switches + switch of destination.
    next: Vec<Vec<Trunk>>,
}

impl Topology {
    /// All hosts on one switch.
    #[must_use]
    pub fn star(hosts: u16) -> Self {
        Self::new(1, vec![0; usize::from(hosts)], vec![])
    }

    /// Two switches with hosts on each, those on the left with the lower ports, and between the switches `paths`
    /// parallel cables. Trunks 0 to `paths - 1` lead from left to right, the rest back.
    ///
    /// # Panics
    /// If there are more than 65,535 hosts and trunks, or no path between the two sides.
    #[must_use]
    pub fn dumbbell(left: u16, right: u16, paths: u16) -> Self {
        let attachments = [vec![0; usize::from(left)], vec![1; usize::from(right)]].concat();
        let trunks = [vec![(0, 1); usize::from(paths)], vec![(1, 0); usize::from(paths)]].concat();
        Self::new(2, attachments, trunks)
    }

    /// A two-level Clos network: each leaf switch has hosts, in the order of their ports, and one cable to every
    /// spine switch. Trunk `leaf * spines + spine` leads up, and as many trunks later the same cable leads down.
    ///
    /// # Panics
    /// If there are more than 65,535 switches, or hosts and trunks, or no spine between several leaves.
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
            assert!(!has_hosts || topology.attachments.iter().all(reach_it), "hosts that nothing joins");
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

    /// Trunks on the shortest way from each switch to `destination`; `None` where there is no way.
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

    /// Hosts that can be attached.
    #[must_use]
    pub fn hosts(&self) -> u16 {
        self.attachments.len() as u16
    }

    /// Directions of cables between switches.
    #[must_use]
    pub fn trunks(&self) -> u16 {
        self.trunks.len() as u16
    }

    /// Switches there are.
    pub(super) const fn switches(&self) -> u16 {
        self.switches
    }

    /// The switch a link leads out of.
    pub(super) fn start_of(&self, egress: Egress) -> u16 {
        match egress {
            Egress::Host(port) => self.switch_of(port),
            Egress::Trunk(trunk) => self.trunks[usize::from(trunk.0)].0,
        }
    }

    /// The switch of a host.
    pub(super) fn switch_of(&self, port: Port) -> u16 {
        self.attachments[usize::from(port.0)]
    }

    /// The switch a trunk leads to.
    pub(super) fn end_of(&self, trunk: Trunk) -> u16 {
        self.trunks[usize::from(trunk.0)].1
    }

    /// How a frame goes on from `switch` to the host at `destination`. `flow` is asked only if there is a choice.
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
        // Seeds and switches next to each other get salts that have nothing to do with one another.
        let salt = || seed ^ u64::from(switch).wrapping_mul(GOLDEN);
        let way = if ways.len() == 1 { 0 } else { flow().choose(salt(), ways.len()) };
        Egress::Trunk(ways[way])
    }
}
