//! The checker: it turns the syntax tree into steps. It checks names, types, widths and constants, and that every
//! value is assigned before it is read. It inlines actions and controls.
//!
//! Every name is declared before it is used, so recursion is impossible. The size of the resulting program is the
//! sum of its calls.

mod calls;
mod controls;
mod expressions;
mod layout;
mod names;
mod numbers;
mod scope;
mod statements;
mod tables;
mod types;

use std::collections::{HashMap, HashSet};

use super::error::{At, ErrorKind, Result, fail};
use super::ir::{Checked, Node, NodeKind, Op, Register, Slot, Step, Table};
use super::limits::{MAX_CALL_DEPTH, MAX_SLOTS, MAX_STEPS};
use super::syntax::Declaration;
use scope::{LiveInstance, LiveTable, Scope};
use types::{Operand, Structure, Type, Value};

/// The state of the checker.
pub(super) struct Checker<'p> {
    /// The position where each line begins.
    line_starts: Vec<At>,
    structures: Vec<Structure<'p>>,
    match_kinds: HashSet<&'p str>,
    global: Scope<'p>,
    locals: Vec<Scope<'p>>,
    /// In scopes below this one, only names declared before `horizon` are visible. `horizon` is the declaration of
    /// the action or control that is being inlined.
    own_base: usize,
    horizon: usize,
    /// The horizon for names outside of controls.
    global_horizon: usize,
    /// Number of declarations so far.
    sequence: usize,
    widths: Vec<u32>,
    /// The name of each slot. Empty for intermediate results.
    names: Vec<String>,
    constants: HashMap<u128, Slot>,
    /// Slots that have a value on every path to here, one bit each.
    set: Vec<u64>,
    /// True while an action is checked without a call. Then every slot counts as assigned.
    assume_set: bool,
    nodes: Vec<Node>,
    steps: usize,
    depth: u32,
    entries: usize,
    tables: Vec<Table>,
    registers: Vec<Register>,
    live_tables: Vec<LiveTable<'p>>,
    live_instances: Vec<LiveInstance<'p>>,
    /// Positions of the declarations of actions and controls that were inlined.
    used: HashSet<At>,
    /// Names of the enclosing instances.
    path: String,
}

/// Checks a program.
pub(super) fn check<'p>(source: &str, declarations: &'p [Declaration<'p>]) -> Result<Checked> {
    let newlines = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let mut checker = Checker {
        line_starts: core::iter::once(0).chain(newlines.map(|(at, _)| at as At + 1)).collect(),
        structures: Vec::new(),
        match_kinds: HashSet::new(),
        global: Scope::default(),
        locals: Vec::new(),
        own_base: 0,
        horizon: usize::MAX,
        global_horizon: usize::MAX,
        sequence: 0,
        widths: Vec::new(),
        names: Vec::new(),
        constants: HashMap::new(),
        set: Vec::new(),
        assume_set: false,
        nodes: Vec::new(),
        steps: 0,
        depth: 0,
        entries: 0,
        tables: Vec::new(),
        registers: Vec::new(),
        live_tables: Vec::new(),
        live_instances: Vec::new(),
        used: HashSet::new(),
        path: String::new(),
    };
    let mut main = None;
    for declaration in declarations {
        if let Some((control, at)) = checker.declare(declaration)? {
            main = Some((control, at));
        }
    }
    let Some((control, at)) = main else {
        return fail(source.len() as At, ErrorKind::NoMain);
    };
    let fields = checker.entry(control, at)?;
    let body = core::mem::take(&mut checker.nodes);
    let (tables, registers) = (core::mem::take(&mut checker.tables), core::mem::take(&mut checker.registers));
    checker.check_unused(declarations)?;
    let constants = checker.constants.iter().map(|(value, slot)| (*slot, *value)).collect();
    Ok(Checked { fields, tables, registers, body, widths: checker.widths, constants })
}

impl Checker<'_> {
    fn line(&self, at: At) -> u32 {
        self.line_starts.partition_point(|start| *start <= at) as u32
    }

    /// Allocates a slot for a new value.
    fn slot(&mut self, width: u32, name: &str, at: At) -> Result<Slot> {
        let number = self.widths.len();
        if number >= MAX_SLOTS {
            return fail(at, ErrorKind::TooLarge { what: "values at once", limit: MAX_SLOTS });
        }
        self.widths.push(width);
        self.names.push(name.to_owned());
        if number.is_multiple_of(64) {
            self.set.push(0);
        }
        Ok(number as Slot)
    }

    fn is_set(&self, slot: Slot) -> bool {
        self.assume_set || self.set[usize::from(slot) / 64] >> (slot % 64) & 1 != 0
    }

    fn mark_set(&mut self, slot: Slot) {
        self.set[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    /// Keeps only the slots that are set on both of two paths.
    fn set_on_both(&mut self, other: &[u64]) {
        for (index, word) in self.set.iter_mut().enumerate() {
            *word &= other.get(index).copied().unwrap_or(0);
        }
    }

    /// Returns the slot of a value, for reading.
    fn read(&mut self, operand: &Operand, at: At) -> Result<Slot> {
        match operand.value {
            Value::Slot(slot) if self.is_set(slot) => Ok(slot),
            Value::Slot(slot) => fail(at, ErrorKind::Unset(self.names[usize::from(slot)].clone())),
            Value::Known(value) => self.constant_slot(value, at),
            Value::Integer(_) | Value::Structure(_) => fail(at, ErrorKind::NotConstant),
        }
    }

    fn constant_slot(&mut self, value: u128, at: At) -> Result<Slot> {
        if let Some(slot) = self.constants.get(&value) {
            return Ok(*slot);
        }
        let slot = self.slot((128 - value.leading_zeros()).max(1), "", at)?;
        self.constants.insert(value, slot);
        Ok(slot)
    }

    fn push(&mut self, kind: NodeKind, at: At) -> Result<()> {
        self.count_step(at)?;
        let line = self.line(at);
        self.nodes.push(Node { line, kind });
        Ok(())
    }

    fn count_step(&mut self, at: At) -> Result<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return fail(at, ErrorKind::TooLarge { what: "steps", limit: MAX_STEPS });
        }
        Ok(())
    }

    /// Enters one level: a call, statement or expression.
    fn deeper<T>(&mut self, at: At, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.count_step(at)?;
        if self.depth >= MAX_CALL_DEPTH {
            return fail(at, ErrorKind::TooDeep);
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Makes an operation. If all operands are known, it is calculated now. Otherwise it becomes a step. `width`
    /// is as in [`Op::apply`].
    fn calculate(
        &mut self,
        (op, width, immediate): (Op, u32, u32),
        operands: &[Operand],
        ty: Type,
        at: At,
    ) -> Result<Operand> {
        let mut values = [0; 3];
        let mut all_known = true;
        for (value, operand) in values.iter_mut().zip(operands) {
            match operand.value {
                Value::Known(known) => *value = known,
                _ => all_known = false,
            }
        }
        if all_known {
            let result = op.apply(width, immediate, values[0], values[1], values[2]);
            return Ok(Operand { ty, value: Value::Known(result) });
        }
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            *slot = self.read(operand, at)?;
        }
        let result = self.slot(ty.width(), "", at)?;
        self.mark_set(result);
        let step = Step { op, width: width as u8, immediate: immediate as u8, result, operands: slots };
        self.push(NodeKind::Step(step), at)?;
        Ok(Operand { ty, value: Value::Slot(result) })
    }

    /// Moves a value into a variable's slot. If the last step made the value, that step gets the slot as its
    /// result.
    fn store(&mut self, operand: &Operand, slot: Slot, at: At) -> Result<()> {
        let from = self.read(operand, at)?;
        self.mark_set(slot);
        if self.names[usize::from(from)].is_empty()
            && let Some(Node { kind: NodeKind::Step(step), .. }) = self.nodes.last_mut()
            && step.result == from
        {
            step.result = slot;
            return Ok(());
        }
        let width = self.widths[usize::from(slot)] as u8;
        let step = Step { op: Op::Copy, width, immediate: 0, result: slot, operands: [from, 0, 0] };
        self.push(NodeKind::Step(step), at)
    }
}
