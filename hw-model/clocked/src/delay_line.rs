//! Registers in a row.

/// What enters leaves a fixed number of cycles later.
#[derive(Clone, Debug)]
pub struct DelayLine<T> {
    registers: Box<[Option<T>]>,
    /// The register whose content leaves in the cycle at hand, and which takes over what enters.
    position: usize,
    occupied: usize,
}

impl<T: Clone> DelayLine<T> {
    /// A line of `registers` empty registers.
    ///
    /// # Panics
    /// If there are none: a wire needs no element.
    #[must_use]
    pub fn new(registers: usize) -> Self {
        assert!(registers > 0, "a delay line has a register at least");
        Self { registers: vec![None; registers].into(), position: 0, occupied: 0 }
    }
}

impl<T> DelayLine<T> {
    /// What leaves in this cycle: what entered as many cycles ago as there are registers.
    #[inline(always)]
    pub fn output(&self) -> Option<&T> {
        self.registers[self.position].as_ref()
    }

    /// True if nothing is in the line.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The clock edge: everything moves on, `input` enters.
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
