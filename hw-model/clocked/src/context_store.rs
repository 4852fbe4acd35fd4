//! A context memory with a pipelined lookup and bypass.

use std::collections::VecDeque;

/// A lookup on its way: where, and the word as it is known so far.
#[derive(Clone, Debug)]
struct Lookup<T> {
    address: usize,
    word: T,
}

/// Contexts whose lookup takes several cycles. A write that happens meanwhile is bypassed into the lookups in
/// flight: what is delivered is what the memory holds at that moment, not at the moment of asking.
///
/// Without the bypass two events of one flow, less than a lookup apart, would both start from the old state and
/// one update would be lost.
#[derive(Clone, Debug)]
pub struct ContextStore<T> {
    words: Box<[T]>,
    /// The lookups by age, the oldest in front; one entry for each cycle of latency, one element for each port.
    stages: VecDeque<Box<[Option<Lookup<T>>]>>,
}

impl<T: Clone> ContextStore<T> {
    /// `depth` contexts of `word`, with `ports` lookups a cycle that take `latency` cycles each.
    ///
    /// # Panics
    /// If `latency` is 0: the memory has a register at its output.
    #[must_use]
    pub fn new(depth: usize, ports: usize, latency: usize, word: &T) -> Self {
        assert!(latency > 0, "a lookup takes a cycle at least");
        let empty: Box<[Option<Lookup<T>>]> = vec![None; ports].into();
        Self { words: vec![word.clone(); depth].into(), stages: vec![empty; latency].into() }
    }

    /// The lookup of `port` that is complete in this cycle: its address and its context.
    pub fn delivered(&self, port: usize) -> Option<(usize, &T)> {
        let lookup = self.stages.front()?.get(port)?.as_ref()?;
        Some((lookup.address, &lookup.word))
    }

    /// True if no lookup is in flight.
    pub fn is_idle(&self) -> bool {
        self.stages.iter().flatten().all(Option::is_none)
    }

    /// The clock edge. Lookups begun in this cycle (element `p` through port `p`) are delivered `latency` cycles
    /// later; `writes` are seen by all of them and by those in flight. Of two writes to one address the later in
    /// the list stays.
    pub fn commit(&mut self, lookups: &[Option<usize>], writes: &[(usize, T)]) {
        let Some(mut stage) = self.stages.pop_front() else { return };
        for (port, slot) in stage.iter_mut().enumerate() {
            let address = lookups.get(port).copied().flatten();
            // The RAM reads first: this is the word of before this edge. The bypass below repairs it.
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
