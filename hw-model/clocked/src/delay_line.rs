//! A row of registers.

/// A row of registers: a value that enters it leaves it a fixed number of cycles later.
#[derive(Clone, Debug)]
pub struct DelayLine<T> {
    registers: Box<[Option<T>]>,
    /// The register whose content leaves in the current cycle, and which takes over the next input.
    position: usize,
    occupied: usize,
}

impl<T: Clone> DelayLine<T> {
    /// Creates a line of `registers` empty registers.
    ///
    /// # Panics
    /// Panics if `registers` is 0. A wire needs no element.
    #[must_use]
    pub fn new(registers: usize) -> Self {
        assert!(registers > 0, "a delay line has at least one register");
        Self { registers: vec![None; registers].into(), position: 0, occupied: 0 }
    }
}

impl<T> DelayLine<T> {
    /// Returns the value that leaves in this cycle. It entered as many cycles ago as there are registers.
    #[inline(always)]
    pub fn output(&self) -> Option<&T> {
        self.registers[self.position].as_ref()
    }

    /// Returns true if the line holds no value.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Performs the clock edge: all values move on by one register, and `input` enters.
    #[inline(always)]
    pub fn commit(&mut self, input: Option<T>) {
        if self.occupied == 0 && input.is_none() {
            return;
        }
        let register = &mut self.registers[self.position];
        self.occupied -= usize::from(register.is_some());
        self.occupied += usize::from(input.is_some());
        *register = input;
        self.position += 1;
        if self.position == self.registers.len() {
            self.position = 0;
        }
    }
}
