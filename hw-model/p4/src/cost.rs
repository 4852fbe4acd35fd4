//! The hardware cost of a program: operations, depth, stages and memory.
//!
//! Hardware calculates both branches of an `if` and selects one. So an `if` costs the operations of both branches,
//! and a selection for each value that either of them changes. A calculation waits for the values that it reads,
//! but not for the conditions around it. Only a register write waits for its conditions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ir::{Apply, Checked, MatchKind, Node, NodeKind, Op, Slot, Step, Table};

/// Bits of the narrower factor that a multiplier processes in one stage. [`Report::stages`] assumes this.
pub const MULTIPLIER_BITS_A_STAGE: u32 = 16;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Additions, subtractions, negations.
    Add,
    /// Saturating additions and subtractions.
    SaturatingAdd,
    /// Products.
    Multiply,
    /// And, or, exclusive or, not.
    Logic,
    /// Shifts by a distance that is not known at compile time.
    Shift,
    /// Comparisons.
    Compare,
    /// Selections between two values.
    Select,
    /// Lookups in tables.
    Lookup,
    /// Reads of registers.
    RegisterRead,
    /// Writes of registers.
    RegisterWrite,
    /// Slices, concatenations, extensions, shifts by a known distance and copies. They are wires and take no time.
    Wiring,
}

impl Operation {
    const fn of(op: Op) -> Self {
        match op {
            _ if op.is_wiring() => Self::Wiring,
            Op::Add | Op::Sub | Op::Neg => Self::Add,
            Op::SaturatingAdd | Op::SaturatingSub | Op::SaturatingAddSigned | Op::SaturatingSubSigned => {
                Self::SaturatingAdd
            }
            Op::Mul => Self::Multiply,
            Op::ShiftLeft | Op::ShiftRight | Op::ShiftRightSigned => Self::Shift,
            Op::Select => Self::Select,
            Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::LessSigned | Op::LessEqualSigned => {
                Self::Compare
            }
            _ => Self::Logic,
        }
    }
}

/// An operation on the longest chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its line in the source.
    pub line: u32,
    /// Its kind.
    pub operation: Operation,
}

/// The multipliers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multiplier {
    /// Bits of the narrower factor that can be other than 0.
    pub narrow: u32,
    /// Bits of the wider factor that can be other than 0.
    pub wide: u32,
    /// Number of these multipliers.
    pub count: u32,
}

/// The memory of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCost {
    /// The name of the table, after the names of the instances that contain it.
    pub name: String,
    /// The kinds of match of its key fields.
    pub kinds: Vec<MatchKind>,
    /// Bits of the key.
    pub key_bits: u32,
    /// Number of entries: those of the program if they are constant, otherwise the size of the table.
    pub entries: usize,
    /// Bits to compare: the key of each entry, or twice the key with a mask or bounds. It is 0 if the table is an
    /// array with the key as its index.
    pub match_bits: u64,
    /// Bits of the actions and their arguments.
    pub data_bits: u64,
    /// True if the table needs ternary memory.
    pub is_ternary: bool,
}

/// The memory of a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterCost {
    /// The name of the register, after the names of the instances that contain it.
    pub name: String,
    /// Number of cells.
    pub cells: usize,
    /// Bits of all cells.
    pub bits: u64,
}

/// The hardware cost of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of lines of the source.
    pub lines: usize,
    /// Number of lines that are neither blank nor only a `//` comment.
    pub code_lines: usize,
    /// Bits of the entry control's inputs.
    pub input_bits: u32,
    /// Bits of the entry control's outputs.
    pub output_bits: u32,
    /// Number of operations by kind.
    pub operations: BTreeMap<Operation, u32>,
    /// Number of all operations except wiring.
    pub total: u32,
    /// Multipliers by size.
    pub multipliers: Vec<Multiplier>,
    /// Length of the longest chain of operations in which each needs the result of the one before.
    pub depth: u32,
    /// The longest chain.
    pub chain: Vec<Link>,
    /// Number of pipeline stages. In a stage a value passes one operation, one lookup or one register access. A
    /// multiplier takes one stage for every [`MULTIPLIER_BITS_A_STAGE`] bits of its narrower factor.
    pub stages: u32,
    /// Number of operations that end in each stage if every operation starts as early as possible.
    pub operations_by_stage: Vec<u32>,
    /// Tables.
    pub tables: Vec<TableCost>,
    /// Bits of all tables.
    pub table_bits: u64,
    /// Registers.
    pub registers: Vec<RegisterCost>,
    /// Bits of all registers.
    pub register_bits: u64,
}

/// The time when a value is known, and its width.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    depth: u32,
    stage: u32,
    /// Bits that can be other than 0.
    bits: u32,
    /// 1 + the index of the operation that makes the value. 0 for an input.
    link: usize,
}

struct Walk<'c> {
    checked: &'c Checked,
    known: Vec<Option<Known>>,
    /// The earlier states of all written slots, since the start of the program.
    journal: Vec<(Slot, Option<Known>)>,
    links: Vec<(Link, usize)>,
    operations: BTreeMap<Operation, u32>,
    multipliers: BTreeMap<(u32, u32), u32>,
    by_stage: Vec<u32>,
    last: Known,
    deepest: Known,
    /// The times when the enclosing conditions are known.
    guards: Vec<Known>,
}

type Changes = BTreeMap<Slot, Known>;

impl Walk<'_> {
    fn of(&self, slot: Slot) -> Known {
        self.known[usize::from(slot)].unwrap_or_default()
    }

    fn write(&mut self, slot: Slot, known: Known) {
        let before = self.known[usize::from(slot)].replace(known);
        self.journal.push((slot, before));
    }

    /// Counts an operation that takes `stages` stages, and returns its result.
    fn operation(
        &mut self,
        operation: Operation,
        stages: u32,
        line: u32,
        inputs: &[Known],
        bits: u32,
    ) -> Known {
        *self.operations.entry(operation).or_default() += 1;
        let deepest = inputs.iter().copied().max_by_key(|known| known.depth).unwrap_or_default();
        let stage = inputs.iter().map(|known| known.stage).max().unwrap_or(0) + stages;
        if operation == Operation::Wiring {
            return Known { stage, bits, ..deepest };
        }
        self.links.push((Link { line, operation }, deepest.link));
        let known = Known { depth: deepest.depth + 1, stage, bits, link: self.links.len() };
        let end = stage as usize;
        if self.by_stage.len() < end {
            self.by_stage.resize(end, 0);
        }
        self.by_stage[end - 1] += 1;
        if known.depth > self.deepest.depth {
            self.deepest = known;
        }
        if known.stage > self.last.stage {
            self.last = known;
        }
        known
    }

    fn step(&mut self, step: &Step, line: u32) {
        let width = self.checked.widths[usize::from(step.result)];
        let inputs: Vec<Known> =
            step.operands[..step.op.operands()].iter().map(|slot| self.of(*slot)).collect();
        let bits = |n: usize| inputs.get(n).map_or(0, |known| known.bits);
        let by = u32::from(step.immediate);
        let result_bits = match step.op {
            Op::Copy => bits(0),
            Op::Slice => bits(0).saturating_sub(by),
            Op::ShiftRight => bits(0),
            Op::ShiftLeftBy => bits(0) + by,
            Op::Concat => {
                if bits(0) == 0 {
                    bits(1)
                } else {
                    bits(0) + by
                }
            }
            Op::Add | Op::SaturatingAdd => bits(0).max(bits(1)) + 1,
            Op::SaturatingSub => bits(0),
            Op::Mul => bits(0) + bits(1),
            Op::And => bits(0).min(bits(1)),
            Op::Or | Op::Xor => bits(0).max(bits(1)),
            Op::Select => bits(1).max(bits(2)),
            _ => width,
        };
        let operation = Operation::of(step.op);
        let mut stages = u32::from(operation != Operation::Wiring);
        if operation == Operation::Multiply {
            let (narrow, wide) = (bits(0).min(bits(1)), bits(0).max(bits(1)));
            *self.multipliers.entry((narrow, wide)).or_default() += 1;
            stages = narrow.div_ceil(MULTIPLIER_BITS_A_STAGE).max(1);
        }
        let known = self.operation(operation, stages, line, &inputs, result_bits.min(width));
        self.write(step.result, known);
    }

    /// Walks a branch, undoes its writes, and returns the changes that it makes.
    fn branch(&mut self, nodes: &[Node]) -> Changes {
        let mark = self.journal.len();
        self.nodes(nodes);
        let mut changes = Changes::new();
        while self.journal.len() > mark {
            let Some((slot, before)) = self.journal.pop() else { break };
            // The journal is read backwards, so the last write of a slot comes first.
            if let Some(known) = self.known[usize::from(slot)] {
                changes.entry(slot).or_insert(known);
            }
            self.known[usize::from(slot)] = before;
        }
        changes
    }

    /// Adds a selection for each slot that one of the branches changes. A slot without a value in one of the
    /// branches is not read later, so it needs no selection.
    fn merge(&mut self, branches: &[Changes], condition: Known, line: u32) {
        let slots: Vec<Slot> = branches
            .iter()
            .flat_map(|changes| changes.keys().copied())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        for slot in slots {
            let before = self.known[usize::from(slot)];
            let values: Option<Vec<Known>> =
                branches.iter().map(|changes| changes.get(&slot).copied().or(before)).collect();
            let Some(values) = values else { continue };
            let mut values = values.into_iter();
            let Some(mut selected) = values.next() else { continue };
            for value in values {
                let bits = selected.bits.max(value.bits);
                selected = self.operation(Operation::Select, 1, line, &[condition, selected, value], bits);
            }
            self.write(slot, selected);
        }
    }

    fn apply(&mut self, apply: &Apply, line: u32) {
        let table = &self.checked.tables[usize::from(apply.table)];
        let keys: Vec<Known> = apply.keys.iter().map(|slot| self.of(*slot)).collect();
        let found = self.operation(Operation::Lookup, 1, line, &keys, 1);
        self.write(apply.hit, found);
        let mut branches = Vec::new();
        self.guards.push(found);
        for (arm, (_, widths)) in apply.arms.iter().zip(&table.actions) {
            for (slot, width) in arm.parameters.iter().zip(widths) {
                self.write(*slot, Known { bits: *width, ..found });
            }
            branches.push(self.branch(&arm.body));
        }
        self.guards.pop();
        self.merge(&branches, found, line);
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for Node { line, kind } in nodes {
            match kind {
                NodeKind::Step(step) => self.step(step, *line),
                NodeKind::Read { register, index, result } => {
                    let width = self.checked.registers[usize::from(*register)].width;
                    let index = self.of(*index);
                    let known = self.operation(Operation::RegisterRead, 1, *line, &[index], width);
                    self.write(*result, known);
                }
                NodeKind::Write { index, value, .. } => {
                    let mut inputs = self.guards.clone();
                    inputs.extend([self.of(*index), self.of(*value)]);
                    self.operation(Operation::RegisterWrite, 1, *line, &inputs, 0);
                }
                NodeKind::If { condition, then, otherwise } => {
                    let condition = self.of(*condition);
                    self.guards.push(condition);
                    let branches = [self.branch(then), self.branch(otherwise)];
                    self.guards.pop();
                    self.merge(&branches, condition, *line);
                }
                NodeKind::Apply(apply) => self.apply(apply, *line),
            }
        }
    }
}

fn table_cost(table: &Table) -> TableCost {
    let key_bits: u32 = table.keys.iter().map(|(_, width)| *width).sum();
    let is_exact = table.keys.iter().all(|(kind, _)| *kind == MatchKind::Exact);
    let entries = if table.constant_entries { table.entries.len() } else { table.size };
    // If the entries cover at least half of all possible keys, an array is smaller than a memory of keys.
    let places = 1usize.checked_shl(key_bits).filter(|places| places / 2 <= entries && is_exact);
    let choice_bits = usize::BITS - (table.actions.len() - 1).leading_zeros();
    let data: u32 = table.actions.iter().map(|(_, widths)| widths.iter().sum()).max().unwrap_or(0);
    let compared = match (is_exact, places) {
        (_, Some(_)) => 0,
        (true, None) => key_bits,
        (false, None) => 2 * key_bits,
    };
    let rows = places.unwrap_or(entries) as u64;
    TableCost {
        name: table.name.clone(),
        kinds: table.keys.iter().map(|(kind, _)| *kind).collect(),
        key_bits,
        entries,
        match_bits: rows * u64::from(compared),
        data_bits: rows * u64::from(data + choice_bits),
        is_ternary: !is_exact,
    }
}

/// Returns the hardware cost of a program.
pub(super) fn report(checked: &Checked, source: &str) -> Report {
    let mut known = vec![None; checked.widths.len()];
    for (slot, value) in &checked.constants {
        let bits = 128 - value.leading_zeros();
        known[usize::from(*slot)] = Some(Known { bits, ..Known::default() });
    }
    for field in checked.fields.iter().filter(|field| field.is_input) {
        known[usize::from(field.slot)] = Some(Known { bits: field.width, ..Known::default() });
    }
    let mut walk = Walk {
        checked,
        known,
        journal: Vec::new(),
        links: Vec::new(),
        operations: BTreeMap::new(),
        multipliers: BTreeMap::new(),
        by_stage: Vec::new(),
        last: Known::default(),
        deepest: Known::default(),
        guards: Vec::new(),
    };
    walk.nodes(&checked.body);
    let mut chain = Vec::new();
    let mut link = walk.deepest.link;
    while let Some((operation, before)) = link.checked_sub(1).and_then(|index| walk.links.get(index)) {
        chain.push(*operation);
        link = *before;
    }
    chain.reverse();
    let tables: Vec<TableCost> = checked.tables.iter().map(table_cost).collect();
    let registers: Vec<RegisterCost> = checked
        .registers
        .iter()
        .map(|register| RegisterCost {
            name: register.name.clone(),
            cells: register.cells,
            bits: register.cells as u64 * u64::from(register.width),
        })
        .collect();
    let bits = |wanted: fn(&super::ir::Field) -> bool| {
        checked.fields.iter().filter(|field| wanted(field)).map(|field| field.width).sum()
    };
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    Report {
        lines: source.lines().count(),
        code_lines: source.lines().filter(is_code).count(),
        input_bits: bits(|field| field.is_input),
        output_bits: bits(|field| field.is_output),
        total: walk.operations.iter().filter(|(kind, _)| **kind != Operation::Wiring).map(|(_, n)| n).sum(),
        operations: walk.operations,
        multipliers: walk
            .multipliers
            .into_iter()
            .map(|((narrow, wide), count)| Multiplier { narrow, wide, count })
            .collect(),
        depth: walk.deepest.depth,
        chain,
        stages: walk.last.stage,
        operations_by_stage: walk.by_stage,
        table_bits: tables.iter().map(|table| table.match_bits + table.data_bits).sum(),
        tables,
        register_bits: registers.iter().map(|register| register.bits).sum(),
        registers,
    }
}
