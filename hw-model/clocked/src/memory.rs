//! A memory whose ports are counted.

/// Ports of a memory, each good for one access a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Addresses that can be read in a cycle.
    pub reads: usize,
    /// Addresses that can be written in a cycle.
    pub writes: usize,
}

/// A cycle asked more of a memory than its ports can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortConflict {
    /// More addresses were read than there are read ports.
    #[error("more than {0} reads in a cycle")]
    Reads(usize),
    /// More addresses were written than there are write ports.
    #[error("more than {0} writes in a cycle")]
    Writes(usize),
    /// One address was written through two ports: which one wins is not defined.
    #[error("address {0} is written through two ports in a cycle")]
    SameAddress(usize),
}

/// An ideal memory with `READS` and `WRITES` ports: any of them reaches any address, reads see what the last edge left.
#[derive(Clone, Debug)]
pub struct Memory<T, const READS: usize, const WRITES: usize> {
    words: Box<[T]>,
}

impl<T: Clone, const READS: usize, const WRITES: usize> Memory<T, READS, WRITES> {
    /// `depth` words of `word`.
    #[must_use]
    pub fn new(depth: usize, word: &T) -> Self {
        Self { words: vec![word.clone(); depth].into() }
    }
}

impl<T, const READS: usize, const WRITES: usize> Memory<T, READS, WRITES> {
    /// Words in the memory.
    pub fn depth(&self) -> usize {
        self.words.len()
    }

    /// The read ports for one cycle.
    #[inline(always)]
    pub const fn read_ports(&self) -> ReadPorts<'_, T, READS> {
        ReadPorts { words: &self.words, left: READS }
    }

    /// The write ports for the edge that ends a cycle, and the addresses they are given. More addresses than ports do
    /// not compile:
    /// ```compile_fail
    /// let mut memory = clocked::Memory::<u8, 2, 2>::new(16, &0);
    /// memory.write_ports([None; 3]);
    /// ```
    #[inline(always)]
    pub const fn write_ports<const N: usize>(
        &mut self,
        addresses: [Option<usize>; N],
    ) -> WritePorts<'_, T, N> {
        const { assert!(N <= WRITES, "there are fewer write ports") };
        WritePorts { words: &mut self.words, addresses }
    }

    /// A word, seen from outside the circuit: uses no port.
    pub fn peek(&self, address: usize) -> &T {
        &self.words[address]
    }

    /// A word, to be set up from outside the circuit: uses no port.
    pub fn poke(&mut self, address: usize) -> &mut T {
        &mut self.words[address]
    }

    /// All words, seen from outside the circuit.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.words.iter()
    }
}

/// The read ports of a [`Memory`] in one cycle.
#[derive(Debug)]
pub struct ReadPorts<'a, T, const READS: usize> {
    words: &'a [T],
    left: usize,
}

impl<'a, T, const READS: usize> ReadPorts<'a, T, READS> {
    /// Reads a word through the next free port.
    ///
    /// # Errors
    /// [`PortConflict::Reads`] if all ports are in use.
    #[inline(always)]
    pub fn read(&mut self, address: usize) -> Result<&'a T, PortConflict> {
        self.left = self.left.checked_sub(1).ok_or(PortConflict::Reads(READS))?;
        Ok(&self.words[address])
    }
}

/// The write ports of a [`Memory`] at one edge. Ports with the same address share a word: what several modules change
/// in it is merged before it is written.
#[derive(Debug)]
pub struct WritePorts<'a, T, const N: usize> {
    words: &'a mut [T],
    addresses: [Option<usize>; N],
}

impl<T, const N: usize> WritePorts<'_, T, N> {
    /// The word at the address of `port`, to be changed; `None` if the port is not in use.
    #[inline(always)]
    pub fn word(&mut self, port: usize) -> Option<&mut T> {
        self.addresses[port].map(|address| &mut self.words[address])
    }
}
