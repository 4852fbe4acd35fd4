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

/// An ideal memory: any port reaches any address, reads see what the last edge left.
#[derive(Clone, Debug)]
pub struct Memory<T> {
    words: Box<[T]>,
    ports: Ports,
}

impl<T: Clone> Memory<T> {
    /// `depth` words of `word`.
    #[must_use]
    pub fn new(depth: usize, ports: Ports, word: &T) -> Self {
        Self { words: vec![word.clone(); depth].into(), ports }
    }
}

impl<T> Memory<T> {
    /// Words in the memory.
    pub fn depth(&self) -> usize {
        self.words.len()
    }

    /// The read ports for one cycle.
    #[inline(always)]
    pub const fn read_ports(&self) -> ReadPorts<'_, T> {
        ReadPorts { words: &self.words, left: self.ports.reads, ports: self.ports }
    }

    /// The write ports for the edge that ends a cycle, and the addresses they are given.
    ///
    /// # Errors
    /// [`PortConflict::Writes`] if there are more addresses than ports.
    #[inline(always)]
    pub const fn write_ports<const N: usize>(
        &mut self,
        addresses: [Option<usize>; N],
    ) -> Result<WritePorts<'_, T, N>, PortConflict> {
        if N > self.ports.writes {
            return Err(PortConflict::Writes(self.ports.writes));
        }
        Ok(WritePorts { words: &mut self.words, addresses })
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
pub struct ReadPorts<'a, T> {
    words: &'a [T],
    left: usize,
    ports: Ports,
}

impl<'a, T> ReadPorts<'a, T> {
    /// Reads a word through the next free port.
    ///
    /// # Errors
    /// [`PortConflict::Reads`] if all ports are in use.
    #[inline(always)]
    pub fn read(&mut self, address: usize) -> Result<&'a T, PortConflict> {
        self.left = self.left.checked_sub(1).ok_or(PortConflict::Reads(self.ports.reads))?;
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
