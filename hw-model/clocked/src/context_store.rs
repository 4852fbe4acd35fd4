//! A context memory with a pipelined lookup and bypass.

use std::collections::VecDeque;

/// A lookup in flight: its address, and the word as known so far.
#[derive(Clone, Debug)]
struct Lookup<T> {
    address: usize,
    word: T,
}

/// A memory of contexts whose lookup takes several cycles. A write during a lookup is bypassed into the lookups in
/// flight. A lookup therefore delivers what the memory holds at the time of delivery, not at the time of the
/// request.
///
/// Without the bypass, two events of one flow that are less than a lookup apart would both start from the old
/// state, and one update would be lost.
#[derive(Clone, Debug)]
pub struct ContextStore<T> {
    words: Box<[T]>,
    /// The lookups by age, the oldest first. One entry per cycle of latency, one element per port.
    stages: VecDeque<Box<[Option<Lookup<T>>]>>,
}

impl<T: Clone> ContextStore<T> {
    /// Creates `depth` contexts, each a copy of `word`. The store allows `ports` lookups per cycle. A lookup takes
    /// `latency` cycles.
    ///
    /// # Panics
    /// Panics if `latency` is 0, because the memory has a register at its output.
    #[must_use]
    pub fn new(depth: usize, ports: usize, latency: usize, word: &T) -> Self {
        assert!(latency > 0, "a lookup takes at least one cycle");
        let empty: Box<[Option<Lookup<T>>]> = vec![None; ports].into();
        Self { words: vec![word.clone(); depth].into(), stages: vec![empty; latency].into() }
    }

    /// Returns the lookup of `port` that completes in this cycle: its address and its context.
    pub fn delivered(&self, port: usize) -> Option<(usize, &T)> {
        let lookup = self.stages.front()?.get(port)?.as_ref()?;
        Some((lookup.address, &lookup.word))
    }

    /// Returns true if no lookup is in flight.
    pub fn is_idle(&self) -> bool {
        self.stages.iter().flatten().all(Option::is_none)
    }

    /// Performs the clock edge. Lookups begun in this cycle (element `p` uses port `p`) are delivered `latency`
    /// cycles later. These lookups and the lookups in flight see all `writes`. If two writes have the same
    /// address, the later one in the list wins.
    pub fn commit(&mut self, lookups: &[Option<usize>], writes: &[(usize, T)]) {
        let Some(mut stage) = self.stages.pop_front() else { return };
        for (port, slot) in stage.iter_mut().enumerate() {
            let address = lookups.get(port).copied().flatten();
            // The RAM reads first, so this is the word from before this edge. The bypass below corrects it.
            *slot = address.map(|address| Lookup { address, word: self.words[address].clone() });
        }
        self.stages.push_back(stage);
        for (address, word) in writes {
            self.words[*address] = word.clone();
            for lookup in self.stages.iter_mut().flatten().flatten() {
                if lookup.address == *address {
                    lookup.word = word.clone();
                }
            }
        }
    }
}
