//! Compiled programs, and the machines that run them.

use super::bytecode::{Code, Compiled};
use super::check::check;
use super::cost::{self, Report};
use super::error::{Error, MatchFault};
use super::ir::{Checked, Chosen, Match, mask};
use super::lookup::Lookup;
use super::parser::parse;

/// A checked and compiled program.
#[derive(Clone, Debug)]
pub struct Program {
    checked: Checked,
    compiled: Compiled,
    report: Report,
}

/// The identifier of a field of the entry control's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldId {
    slot: u16,
    width: u8,
}

/// An input or output of the entry control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port<'p> {
    /// Names of the parameter and the field, as in `event.t1`.
    pub name: &'p str,
    /// Width in bits.
    pub width: u32,
    /// True for `in` and `inout` parameters.
    pub is_input: bool,
    /// True for `out` and `inout` parameters.
    pub is_output: bool,
}

impl Program {
    /// Compiles a source.
    ///
    /// # Errors
    /// Returns the first error in the source, with its position and what to do.
    pub fn compile(source: &str) -> Result<Self, Error> {
        let located = |fault| Error::new(source, fault);
        let declarations = parse(source).map_err(located)?;
        let checked = check(source, &declarations).map_err(located)?;
        let compiled = Compiled::new(&checked);
        let report = cost::report(&checked, source);
        Ok(Self { checked, compiled, report })
    }

    /// Returns the hardware cost of the program.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the fields of the entry control's parameters.
    pub fn ports(&self) -> impl Iterator<Item = Port<'_>> {
        self.checked.fields.iter().map(|field| Port {
            name: &field.name,
            width: field.width,
            is_input: field.is_input,
            is_output: field.is_output,
        })
    }

    /// Returns the field with a name such as `event.t1`.
    pub fn field(&self, name: &str) -> Option<FieldId> {
        let field = self.checked.fields.iter().find(|field| field.name == name)?;
        Some(FieldId { slot: field.slot, width: field.width as u8 })
    }
}

/// The reason why a table or register cannot be changed or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no table or register of that name.
    #[error(
        "the program has no table or register `{0}`: names of instances come first, as in `divider.start`"
    )]
    Unknown(String),
    /// The entries or the default action are constant in the program.
    #[error("the program makes this part of the table `{0}` constant: remove `const` there")]
    Constant(String),
    /// The action does not exist, or the arguments do not fit it.
    #[error("`{0}` is not an action of the table, or takes other arguments: see its declaration")]
    Action(String),
    /// The entry is invalid.
    #[error(transparent)]
    Match(#[from] MatchFault),
    /// The register has fewer cells.
    #[error("the register has only {0} cells: use a smaller index")]
    Cell(usize),
}

/// A program with its state: registers, entries of tables, and the values of the entry control's parameters.
///
/// A run is a pure function of this state. A read after the last cell of a register returns 0, and a write there
/// is ignored.
#[derive(Clone, Debug)]
pub struct Machine {
    program: Program,
    slots: Vec<u128>,
    registers: Vec<Vec<u128>>,
    tables: Vec<Lookup>,
}

impl Machine {
    /// Creates a machine. Its registers are 0, and its tables have the entries of the program.
    pub fn new(program: Program) -> Self {
        let checked = &program.checked;
        let mut slots = vec![0; checked.widths.len()];
        for (slot, value) in &checked.constants {
            slots[usize::from(*slot)] = *value;
        }
        let registers = checked.registers.iter().map(|register| vec![0; register.cells]).collect();
        // The checker has built every lookup before, so none of them fails.
        let tables = checked.tables.iter().filter_map(|table| Lookup::new(table).ok()).collect();
        Self { slots, registers, tables, program }
    }

    /// Returns the program.
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// Sets an input. Bits above its width are ignored.
    #[inline]
    pub fn set(&mut self, field: FieldId, value: u128) {
        if let Some(slot) = self.slots.get_mut(usize::from(field.slot)) {
            *slot = value & mask(field.width.into());
        }
    }

    /// Returns the value of an output or an input.
    #[inline]
    pub fn get(&self, field: FieldId) -> u128 {
        self.slots.get(usize::from(field.slot)).copied().unwrap_or(0)
    }

    /// Runs the entry control once.
    pub fn run(&mut self) {
        let Self { program, slots, registers, tables } = self;
        let Compiled { code, sites } = &program.compiled;
        let slots = slots.as_mut_slice();
        let mut next = 0;
        loop {
            match code[next] {
                Code::Step(step) => {
                    let [a, b, c] = step.operands.map(|slot| slots[usize::from(slot)]);
                    slots[usize::from(step.result)] =
                        step.op.apply(step.width.into(), step.immediate.into(), a, b, c);
                }
                Code::Jump(to) => {
                    next = to as usize;
                    continue;
                }
                Code::Unless { condition, to } => {
                    if slots[usize::from(condition)] == 0 {
                        next = to as usize;
                        continue;
                    }
                }
                Code::Apply { site } => {
                    let site = &sites[site as usize];
                    let key = site.keys.iter().fold(0u128, |key, (slot, width)| {
                        // A shift by 128 happens only before a single field of 128 bits, when the key is still 0.
                        key.checked_shl(*width).unwrap_or(0) | slots[usize::from(*slot)]
                    });
                    let (chosen, hit) = tables[usize::from(site.table)].find(key);
                    slots[usize::from(site.hit)] = hit.into();
                    let (parameters, start) = &site.arms[usize::from(chosen.action)];
                    for (slot, argument) in parameters.iter().zip(&chosen.arguments) {
                        slots[usize::from(*slot)] = *argument;
                    }
                    next = *start as usize;
                    continue;
                }
                Code::Read { register, index, result } => {
                    let cells = &registers[usize::from(register)];
                    let index = slots[usize::from(index)] as usize;
                    slots[usize::from(result)] = cells.get(index).copied().unwrap_or(0);
                }
                Code::Write { register, index, value } => {
                    let index = slots[usize::from(index)] as usize;
                    if let Some(cell) = registers[usize::from(register)].get_mut(index) {
                        *cell = slots[usize::from(value)];
                    }
                }
                Code::End => return,
            }
            next += 1;
        }
    }

    fn table(&self, name: &str) -> Result<usize, ChangeError> {
        let position = self.program.checked.tables.iter().position(|table| table.name == name);
        position.ok_or_else(|| ChangeError::Unknown(name.to_owned()))
    }

    fn chosen(&self, table: usize, action: &str, arguments: &[u128]) -> Result<Chosen, ChangeError> {
        let actions = &self.program.checked.tables[table].actions;
        let number = actions.iter().position(|(name, _)| name == action);
        let number = number.ok_or_else(|| ChangeError::Action(action.to_owned()))?;
        let widths = &actions[number].1;
        let fits = widths.len() == arguments.len()
            && widths.iter().zip(arguments).all(|(width, value)| *value <= mask(*width));
        if !fits {
            return Err(ChangeError::Action(action.to_owned()));
        }
        Ok(Chosen { action: number as u16, arguments: arguments.to_vec() })
    }

    /// Adds an entry to a table after its other entries.
    ///
    /// # Errors
    /// Returns a [`ChangeError`] if the entry does not fit. The table does not change then.
    pub fn insert(
        &mut self,
        table: &str,
        matches: &[Match],
        action: &str,
        arguments: &[u128],
    ) -> Result<(), ChangeError> {
        let index = self.table(table)?;
        if self.program.checked.tables[index].constant_entries {
            return Err(ChangeError::Constant(table.to_owned()));
        }
        let chosen = self.chosen(index, action, arguments)?;
        Ok(self.tables[index].insert(matches, chosen)?)
    }

    /// Removes all entries of a table.
    ///
    /// # Errors
    /// Returns a [`ChangeError`] if there is no such table, or its entries are constant.
    pub fn clear(&mut self, table: &str) -> Result<(), ChangeError> {
        let index = self.table(table)?;
        if self.program.checked.tables[index].constant_entries {
            return Err(ChangeError::Constant(table.to_owned()));
        }
        self.tables[index].clear();
        Ok(())
    }

    /// Sets the action for keys that match no entry.
    ///
    /// # Errors
    /// Returns a [`ChangeError`] if the action does not fit. The table does not change then.
    pub fn set_default(&mut self, table: &str, action: &str, arguments: &[u128]) -> Result<(), ChangeError> {
        let index = self.table(table)?;
        if self.program.checked.tables[index].constant_default {
            return Err(ChangeError::Constant(table.to_owned()));
        }
        self.tables[index].default = self.chosen(index, action, arguments)?;
        Ok(())
    }

    /// Returns the value of a register's cell.
    ///
    /// # Errors
    /// Returns a [`ChangeError`] if there is no such register, or it has no such cell.
    pub fn cell(&self, register: &str, index: usize) -> Result<u128, ChangeError> {
        let number = self.register(register)?;
        let cells = &self.registers[number];
        cells.get(index).copied().ok_or(ChangeError::Cell(cells.len()))
    }

    /// Writes a register's cell. Bits above its width are ignored.
    ///
    /// # Errors
    /// Returns a [`ChangeError`] if there is no such register, or it has no such cell.
    pub fn set_cell(&mut self, register: &str, index: usize, value: u128) -> Result<(), ChangeError> {
        let number = self.register(register)?;
        let width = self.program.checked.registers[number].width;
        let cells = &mut self.registers[number];
        let count = cells.len();
        *cells.get_mut(index).ok_or(ChangeError::Cell(count))? = value & mask(width);
        Ok(())
    }

    fn register(&self, name: &str) -> Result<usize, ChangeError> {
        let position = self.program.checked.registers.iter().position(|register| register.name == name);
        position.ok_or_else(|| ChangeError::Unknown(name.to_owned()))
    }
}
