//! The differences between the worlds: units, and what an experiment chooses for each.

use lab_report::World as Kind;

/// Returns what belongs to this world.
pub(crate) fn pick<T>(kind: Kind, simulated: T, live: T) -> T {
    match kind {
        Kind::Live => live,
        Kind::Simulation | Kind::Cycles => simulated,
    }
}

/// The units of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    /// Unit of goodput, and how many of it are 1 Gb/s.
    pub(crate) rate: &'static str,
    per_gigabit: f64,
    /// Label of an axis of delays, and how many of its units are 1 us.
    pub(crate) delay_axis: &'static str,
    per_microsecond: f64,
}

impl Units {
    pub(crate) fn of(kind: Kind) -> Self {
        let simulated =
            Self { rate: "Gb/s", per_gigabit: 1.0, delay_axis: "delay (us)", per_microsecond: 1.0 };
        let live = Self { rate: "Mb/s", per_gigabit: 1e3, delay_axis: "delay (ms)", per_microsecond: 1e-3 };
        pick(kind, simulated, live)
    }

    /// Returns the label of an axis of goodput.
    pub(crate) fn goodput_axis(self) -> String {
        format!("goodput ({})", self.rate)
    }

    /// Returns a rate in Gb/s in the unit of goodput.
    pub(crate) fn rate(self, gigabits: f64) -> f64 {
        gigabits * self.per_gigabit
    }

    /// Returns a delay in microseconds in the unit of an axis of delays.
    pub(crate) fn delay(self, micros: f64) -> f64 {
        micros * self.per_microsecond
    }
}
