//! A memory with many ports, built from dual-ported RAMs and a live value table.
//!
//! A block RAM of an FPGA has two ports. Each port allows one access per cycle. A memory with R reads and W writes
//! per cycle consists of W rows of R copies: write port w writes all copies of row w, read port r reads from
//! column r. The live value table stores for each address which row was written last (Tonic, section 4,
//! "Concurrent Memory Access", after LaForest and Steffan).

use super::memory::{PortConflict, Ports};

/// A RAM with one read and one write port. Counts how often each port was used in the current cycle.
#[derive(Clone, Debug)]
struct Bank<T> {
    words: Box<[T]>,
    used: Ports,
}

impl<T: Clone> Bank<T> {
    fn read(&mut self, address: usize) -> Result<T, PortConflict> {
        self.used.reads += 1;
        if self.used.reads > 1 { Err(PortConflict::Reads(1)) } else { Ok(self.words[address].clone()) }
    }

    fn write(&mut self, address: usize, word: T) -> Result<(), PortConflict> {
        self.used.writes += 1;
        if self.used.writes > 1 {
            return Err(PortConflict::Writes(1));
        }
        self.words[address] = word;
        Ok(())
    }
}

/// A memory with many ports, built from banks. Behaves like [`Memory`](super::Memory).
#[derive(Clone, Debug)]
pub struct BankedMemory<T> {
    ports: Ports,
    /// Bank (w, r) is number `w * ports.reads + r`.
    banks: Box<[Bank<T>]>,
    /// For each address: the write port whose row holds the current word.
    live: Box<[usize]>,
}

impl<T: Clone> BankedMemory<T> {
    /// Creates a memory of `depth` words, each a copy of `word`.
    #[must_use]
    pub fn new(depth: usize, ports: Ports, word: &T) -> Self {
        let bank = Bank { words: vec![word.clone(); depth].into(), used: Ports { reads: 0, writes: 0 } };
        Self { ports, banks: vec![bank; ports.reads * ports.writes].into(), live: vec![0; depth].into() }
    }

    /// Returns the number of dual-ported RAMs in the memory.
    pub fn banks(&self) -> usize {
        self.banks.len()
    }

    /// Runs one whole cycle: returns the words at the addresses `reads` as the last edge left them, then performs
    /// `writes` at the edge that ends the cycle. Position `p` of each list is port `p`.
    ///
    /// # Errors
    /// Returns any [`PortConflict`]. The contents then do not change.
    pub fn cycle(
        &mut self,
        reads: &[Option<usize>],
        writes: &[Option<(usize, T)>],
    ) -> Result<Vec<Option<T>>, PortConflict> {
        self.check(reads, writes)?;
        self.banks.iter_mut().for_each(|bank| bank.used = Ports { reads: 0, writes: 0 });
        let mut words = Vec::with_capacity(reads.len());
        for (port, address) in reads.iter().enumerate() {
            let word = match *address {
                Some(address) => {
                    Some(self.banks[self.live[address] * self.ports.reads + port].read(address)?)
                }
                None => None,
            };
            words.push(word);
        }
        for (port, write) in writes.iter().enumerate() {
            let Some((address, word)) = write else { continue };
            for bank in &mut self.banks[port * self.ports.reads..][..self.ports.reads] {
                bank.write(*address, word.clone())?;
            }
            self.live[*address] = port;
        }
        Ok(words)
    }

    fn check(&self, reads: &[Option<usize>], writes: &[Option<(usize, T)>]) -> Result<(), PortConflict> {
        if reads.len() > self.ports.reads {
            return Err(PortConflict::Reads(self.ports.reads));
        }
        if writes.len() > self.ports.writes {
            return Err(PortConflict::Writes(self.ports.writes));
        }
        for (port, write) in writes.iter().enumerate() {
            let Some((address, _)) = write else { continue };
            if writes[..port].iter().flatten().any(|(earlier, _)| earlier == address) {
                return Err(PortConflict::SameAddress(*address));
            }
        }
        Ok(())
    }
}
