//! The code that a machine runs: a list of steps with forward jumps.

use super::ir::{Checked, Node, NodeKind, Slot, Step};

#[derive(Clone, Copy, Debug)]
pub(super) enum Code {
    Step(Step),
    Jump(u32),
    /// Jumps to `to` if the condition is 0.
    Unless {
        condition: Slot,
        to: u32,
    },
    /// Looks up a table and jumps to the chosen action.
    Apply {
        site: u32,
    },
    Read {
        register: u16,
        index: Slot,
        result: Slot,
    },
    Write {
        register: u16,
        index: Slot,
        value: Slot,
    },
    End,
}

/// A place where a table is applied.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) table: u16,
    /// The slots of the key and their widths.
    pub(super) keys: Vec<(Slot, u32)>,
    pub(super) hit: Slot,
    /// For each action: the slots of its arguments, and the position of its code.
    pub(super) arms: Vec<(Vec<Slot>, u32)>,
}

/// The code, and the places where tables are applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Compiled {
    pub(super) code: Vec<Code>,
    pub(super) sites: Vec<Site>,
}

impl Compiled {
    pub(super) fn new(checked: &Checked) -> Self {
        let mut compiled = Self::default();
        compiled.nodes(&checked.body, checked);
        compiled.code.push(Code::End);
        compiled
    }

    fn here(&self) -> u32 {
        self.code.len() as u32
    }

    fn nodes(&mut self, nodes: &[Node], checked: &Checked) {
        for node in nodes {
            match &node.kind {
                NodeKind::Step(step) => self.code.push(Code::Step(*step)),
                NodeKind::Read { register, index, result } => {
                    self.code.push(Code::Read { register: *register, index: *index, result: *result });
                }
                NodeKind::Write { register, index, value } => {
                    self.code.push(Code::Write { register: *register, index: *index, value: *value });
                }
                NodeKind::If { condition, then, otherwise } => {
                    let test = self.code.len();
                    self.code.push(Code::End);
                    self.nodes(then, checked);
                    let leave = self.code.len();
                    if !otherwise.is_empty() {
                        self.code.push(Code::End);
                    }
                    self.code[test] = Code::Unless { condition: *condition, to: self.here() };
                    if !otherwise.is_empty() {
                        self.nodes(otherwise, checked);
                        self.code[leave] = Code::Jump(self.here());
                    }
                }
                NodeKind::Apply(apply) => {
                    let site = self.sites.len();
                    let widths = &checked.tables[usize::from(apply.table)].keys;
                    let keys = apply.keys.iter().zip(widths).map(|(slot, (_, width))| (*slot, *width));
                    self.sites.push(Site {
                        table: apply.table,
                        keys: keys.collect(),
                        hit: apply.hit,
                        arms: Vec::new(),
                    });
                    self.code.push(Code::Apply { site: site as u32 });
                    let mut leaves = Vec::new();
                    for arm in &apply.arms {
                        let start = self.here();
                        self.sites[site].arms.push((arm.parameters.clone(), start));
                        self.nodes(&arm.body, checked);
                        leaves.push(self.code.len());
                        self.code.push(Code::End);
                    }
                    let to = self.here();
                    for leave in leaves {
                        self.code[leave] = Code::Jump(to);
                    }
                }
            }
        }
    }
}
