//! Traces of a block's outputs, cycle by cycle: as text and as Value Change Dump (VCD; IEEE 1364, section 18).
//!
//! A block's output type implements [`Traced`], which lists its [`Port`]s and says which of them are valid in a
//! cycle. [`TextTrace`] writes one line per valid port. [`VcdTrace`] writes a dump for a waveform viewer.

use std::io::{self, Write};

use vcd::{IdCode, TimescaleUnit, Value};

use super::block::Cycle;

/// One value of a [`Port`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name of the field.
    pub name: &'static str,
    /// The width in bits, at most 64.
    pub width: u32,
}

/// A group of wires with a common valid bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name of the port.
    pub name: &'static str,
    /// The values that the port carries in a cycle in which it is valid.
    pub fields: &'static [Field],
}

/// Outputs of a block that can be traced.
pub trait Traced {
    /// The ports, in the order in which they are printed.
    const PORTS: &'static [Port];

    /// Calls `port` for each port that is valid in this cycle, in order. The arguments are the index in
    /// [`Self::PORTS`] and the values of the fields.
    fn valid_ports(&self, port: impl FnMut(usize, &[u64]));
}

/// Writes one line per valid port: the cycle, the name of the port, its fields.
#[derive(Debug)]
pub struct TextTrace<W> {
    sink: W,
}

impl<W: Write> TextTrace<W> {
    /// Creates a trace that writes to `sink`.
    pub const fn new(sink: W) -> Self {
        Self { sink }
    }

    /// Writes the outputs of a cycle.
    ///
    /// # Errors
    /// Returns the errors of the sink.
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
    /// The valid bit as last dumped.
    was_valid: bool,
}

/// Writes the ports as VCD. Each port is a scope with a wire `valid` and one wire per field. The fields keep their
/// value while the port is not valid.
pub struct VcdTrace<W: Write> {
    writer: vcd::Writer<W>,
    period: u64,
    ports: Vec<Wires>,
    /// The cycle that was dumped last, and whether any port was valid in it.
    last: Option<(Cycle, bool)>,
}

impl<W: Write> VcdTrace<W> {
    /// Writes the header to `sink`. `period` is the clock period in picoseconds, `module` the name of the block.
    ///
    /// # Errors
    /// Returns the errors of the sink.
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

    /// Writes the outputs of a cycle. A skipped cycle counts as a cycle without a valid port.
    ///
    /// # Errors
    /// Returns the errors of the sink.
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

    /// Clears the valid bits if cycles were skipped between the last one and `now`: no port was valid in them.
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

    /// Ends the dump. `now` is the cycle after the last one.
    ///
    /// # Errors
    /// Returns the errors of the sink.
    pub fn finish(mut self, now: Cycle) -> io::Result<()> {
        self.end_last(now + 1)?;
        self.writer.timestamp(now.0.saturating_mul(self.period))?;
        self.writer.flush()
    }
}
