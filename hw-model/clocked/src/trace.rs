//! What happened, cycle by cycle: as text and as Value Change Dump (IEEE 1364, section 18).

use std::io::{self, Write};

use vcd::{IdCode, TimescaleUnit, Value};

use super::block::Cycle;

/// One value that travels through a [`Port`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Bits, at most 64.
    pub width: u32,
}

/// Wires with a common valid bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: &'static str,
    /// What it carries in a cycle in which it is valid.
    pub fields: &'static [Field],
}

/// A block's outputs that can be traced.
pub trait Traced {
    /// The ports, in the order in which they are printed.
    const PORTS: &'static [Port];

    /// Calls `port` for each port that is valid in this cycle, in their order, with its number in [`Self::PORTS`]
    /// and the values of its fields.
    fn valid_ports(&self, port: impl FnMut(usize, &[u64]));
}

/// Writes a line for each valid port: the cycle, the port, its fields.
#[derive(Debug)]
pub struct TextTrace<W> {
    sink: W,
}

impl<W: Write> TextTrace<W> {
    /// Writes to `sink`.
    pub const fn new(sink: W) -> Self {
        Self { sink }
    }

    /// The outputs of a cycle.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn record<T: Traced>(&mut self, now: Cycle, outputs: &T) -> io::Result<()> {
        let mut result = Ok(());
        outputs.valid_ports(|port, values| {
            if result.is_ok() {
                result = self.line(now, &T::PORTS[port], values);
            }
        });
        result
    }

    fn line(&mut self, now: Cycle, port: &Port, values: &[u64]) -> io::Result<()> {
        write!(self.sink, "{now} {}", port.name)?;
        for (field, value) in port.fields.iter().zip(values) {
            write!(self.sink, " {}={value}", field.name)?;
        }
        writeln!(self.sink)
    }
}

/// The wires of a port in the dump.
#[derive(Debug)]
struct Wires {
    valid: IdCode,
    fields: Vec<(u32, IdCode)>,
    /// The valid bit as it was last dumped.
    was_valid: bool,
}

/// Writes the ports as VCD: each port is a scope with a wire `valid` and its fields, which keep their value while
/// the port is not valid.
pub struct VcdTrace<W: Write> {
    writer: vcd::Writer<W>,
    period: u64,
    ports: Vec<Wires>,
    /// The cycle dumped last and whether any port was valid in it.
    last: Option<(Cycle, bool)>,
}

impl<W: Write> VcdTrace<W> {
    /// Writes the header to `sink`. `period` is that of the clock in picoseconds, `module` the name of the block.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn new<T: Traced>(sink: W, module: &str, period: u64) -> io::Result<Self> {
        let mut writer = vcd::Writer::new(sink);
        writer.timescale(1, TimescaleUnit::PS)?;
        writer.add_module(module)?;
        let mut ports = Vec::new();
        for port in T::PORTS {
            writer.add_module(port.name)?;
            let valid = writer.add_wire(1, "valid")?;
            let wire = |field: &Field| Ok((field.width, writer.add_wire(field.width, field.name)?));
            let fields = port.fields.iter().map(wire).collect::<io::Result<_>>()?;
            writer.upscope()?;
            ports.push(Wires { valid, fields, was_valid: false });
        }
        writer.upscope()?;
        writer.enddefinitions()?;
        writer.timestamp(0)?;
        for wires in &ports {
            writer.change_scalar(wires.valid, Value::V0)?;
        }
        Ok(Self { writer, period, ports, last: None })
    }

    /// The outputs of a cycle. Cycles that were passed over are cycles without a valid port.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn record<T: Traced>(&mut self, now: Cycle, outputs: &T) -> io::Result<()> {
        self.end_last(now)?;
        let mut valid = Vec::new();
        outputs.valid_ports(|port, values| valid.push((port, values.to_vec())));
        let changes = |wires: &Wires| wires.was_valid;
        if !valid.is_empty() || self.ports.iter().any(changes) {
            self.writer.timestamp(now.0.saturating_mul(self.period))?;
        }
        for (number, wires) in self.ports.iter_mut().enumerate() {
            let values = valid.iter().find(|(port, _)| *port == number);
            if values.is_some() != wires.was_valid {
                wires.was_valid = values.is_some();
                self.writer.change_scalar(wires.valid, wires.was_valid)?;
            }
            let Some((_, values)) = values else { continue };
            for ((width, wire), value) in wires.fields.iter().zip(values) {
                let bits = (0..*width).rev().map(|bit| Value::from(value >> bit & 1 != 0));
                self.writer.change_vector(*wire, bits)?;
            }
        }
        self.last = Some((now, !valid.is_empty()));
        Ok(())
    }

    /// If cycles lie between the last one and `now`, the ports were not valid in them.
    fn end_last(&mut self, now: Cycle) -> io::Result<()> {
        let Some((last, true)) = self.last else { return Ok(()) };
        if last + 1 < now {
            self.writer.timestamp((last.0 + 1).saturating_mul(self.period))?;
            for wires in self.ports.iter_mut().filter(|wires| wires.was_valid) {
                wires.was_valid = false;
                self.writer.change_scalar(wires.valid, Value::V0)?;
            }
        }
        Ok(())
    }

    /// Ends the dump; `now` is the cycle behind the last one.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self, now: Cycle) -> io::Result<()> {
        self.end_last(now + 1)?;
        self.writer.timestamp(now.0.saturating_mul(self.period))?;
        self.writer.flush()
    }
}
