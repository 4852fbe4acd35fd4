//! An ideal memory with a limited number of ports.

/// The ports of a memory. Each port allows one access per cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The number of addresses that can be read per cycle.
    pub reads: usize,
    /// The number of addresses that can be written per cycle.
    pub writes: usize,
}

/// The accesses of one cycle exceed what the memory's ports allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortConflict {
    /// More addresses were read than there are read ports. The value is the number of ports.
    #[error("more than {0} reads in a cycle")]
    Reads(usize),
    /// More addresses were written than there are write ports. The value is the number of ports.
    #[error("more than {0} writes in a cycle")]
    Writes(usize),
    /// One address was written through two ports. It is not defined which write wins. The value is the address.
    #[error("address {0} is written through two ports in a cycle")]
    SameAddress(usize),
}

/// An ideal memory with `READS` read ports and `WRITES` write ports. Every port can access every address. Reads
/// return what the last edge left.
#[derive(Clone, Debug)]
pub struct Memory<T, const READS: usize, const WRITES: usize> {
    words: Box<[T]>,
}

impl<T: Clone, const READS: usize, const WRITES: usize> Memory<T, READS, WRITES> {
    /// Creates a memory of `depth` words, each a copy of `word`.
    #[must_use]
    pub fn new(depth: usize, word: &T) -> Self {
        Self { words: vec![word.clone(); depth].into() }
    }
}

impl<T, const READS: usize, const WRITES: usize> Memory<T, READS, WRITES> {
    /// Returns the number of words in the memory.
    pub fn depth(&self) -> usize {
        self.words.len()
    }

    /// Returns the read ports for one cycle.
    #[inline(always)]
    pub const fn read_ports(&self) -> ReadPorts<'_, T, READS> {
        ReadPorts { words: &self.words, left: READS }
    }

    /// Returns the write ports for the edge that ends a cycle. `addresses` holds the address of each port. More
    /// addresses than ports do not compile:
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

    /// Returns a word to an observer outside the circuit. Uses no port.
    pub fn peek(&self, address: usize) -> &T {
        &self.words[address]
    }

    /// Returns a word so that code outside the circuit can set it up. Uses no port.
    pub fn poke(&mut self, address: usize) -> &mut T {
        &mut self.words[address]
    }

    /// Returns all words to an observer outside the circuit. Uses no port.
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
    /// Returns [`PortConflict::Reads`] if all ports are in use.
    #[inline(always)]
    pub fn read(&mut self, address: usize) -> Result<&'a T, PortConflict> {
        self.left = self.left.checked_sub(1).ok_or(PortConflict::Reads(READS))?;
        Ok(&self.words[address])
    }
}

/// The write ports of a [`Memory`] at one edge. Ports with the same address share a word: the changes of several
/// modules to it are merged before it is written.
#[derive(Debug)]
pub struct WritePorts<'a, T, const N: usize> {
    words: &'a mut [T],
    addresses: [Option<usize>; N],
}

impl<T, const N: usize> WritePorts<'_, T, N> {
    /// Returns the word at the address of `port` so that the caller can change it. Returns `None` if the port is
    /// not in use.
    #[inline(always)]
    pub fn word(&mut self, port: usize) -> Option<&mut T> {
        self.addresses[port].map(|address| &mut self.words[address])
    }
}
