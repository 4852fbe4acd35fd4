//! The intermediate representation: typed steps over numbered values. Actions and controls are inlined.
//!
//! A value has at most 128 bits. The bits above its width are always 0, also for signed values. The steps are
//! nested like the source. [`super::bytecode`] turns them into a list with jumps, and [`super::cost`] analyses
//! their structure.

use serde::{Deserialize, Serialize};

/// The number of a value.
pub(super) type Slot = u16;

/// An operation on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Op {
    Copy,
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Not,
    Neg,
    ShiftLeft,
    ShiftRight,
    /// A right shift that fills with the sign.
    ShiftRightSigned,
    SaturatingAdd,
    SaturatingSub,
    SaturatingAddSigned,
    SaturatingSubSigned,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    LessSigned,
    LessEqualSigned,
    /// `b` if `a` is 1, otherwise `c`.
    Select,
    /// `a >> immediate`, cut to the width.
    Slice,
    /// `a << immediate`, cut to the width.
    ShiftLeftBy,
    /// `a` above `immediate` bits of `b`.
    Concat,
    /// `a` of `immediate` bits, sign-extended to the width.
    SignExtend,
    /// `a` with `width` bits from bit `immediate` on replaced by `b`.
    Insert,
}

/// Returns the largest value of a width of 1 to 128 bits.
#[inline(always)]
pub(super) const fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// Returns a value of `width` bits as a signed number.
#[inline(always)]
pub(super) const fn signed(value: u128, width: u32) -> i128 {
    let shift = 128 - width;
    ((value << shift) as i128) >> shift
}

#[inline(always)]
fn saturate(value: Option<i128>, negative: bool, width: u32) -> u128 {
    let most = (mask(width) >> 1) as i128;
    let value = value.unwrap_or(if negative { i128::MIN } else { i128::MAX });
    value.clamp(-most - 1, most) as u128 & mask(width)
}

impl Op {
    /// Returns the result. `width` is 1 to 128. It is the width of the operands if the operation depends on it,
    /// and the width of the result otherwise.
    #[inline(always)]
    pub(super) fn apply(self, width: u32, immediate: u32, a: u128, b: u128, c: u128) -> u128 {
        let most = mask(width);
        let far = width.into();
        match self {
            Self::Copy => a,
            Self::Add => a.wrapping_add(b) & most,
            Self::Sub => a.wrapping_sub(b) & most,
            Self::Mul => a.wrapping_mul(b) & most,
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Not => !a & most,
            Self::Neg => a.wrapping_neg() & most,
            Self::ShiftLeft => {
                if b >= far {
                    0
                } else {
                    (a << b) & most
                }
            }
            Self::ShiftRight => {
                if b >= far {
                    0
                } else {
                    a >> b
                }
            }
            Self::ShiftRightSigned => {
                let by = if b >= far { 127 } else { b as u32 };
                (signed(a, width) >> by) as u128 & most
            }
            Self::SaturatingAdd => a.checked_add(b).map_or(most, |sum| sum.min(most)),
            Self::SaturatingSub => a.saturating_sub(b),
            Self::SaturatingAddSigned => {
                let (a, b) = (signed(a, width), signed(b, width));
                saturate(a.checked_add(b), b < 0, width)
            }
            Self::SaturatingSubSigned => {
                let (a, b) = (signed(a, width), signed(b, width));
                saturate(a.checked_sub(b), b >= 0, width)
            }
            Self::Equal => u128::from(a == b),
            Self::NotEqual => u128::from(a != b),
            Self::Less => u128::from(a < b),
            Self::LessEqual => u128::from(a <= b),
            Self::LessSigned => u128::from(signed(a, width) < signed(b, width)),
            Self::LessEqualSigned => u128::from(signed(a, width) <= signed(b, width)),
            Self::Select => {
                if a != 0 {
                    b
                } else {
                    c
                }
            }
            Self::Slice => (a >> (immediate & 127)) & most,
            Self::ShiftLeftBy => (a << (immediate & 127)) & most,
            Self::Concat => (a << (immediate & 127)) | b,
            Self::SignExtend => signed(a, immediate.clamp(1, 128)) as u128 & most,
            Self::Insert => {
                let by = immediate & 127;
                (a & !(most << by)) | (b << by)
            }
        }
    }

    /// Returns true if the operation is only wiring, without logic.
    pub(super) const fn is_wiring(self) -> bool {
        matches!(
            self,
            Self::Copy | Self::Slice | Self::ShiftLeftBy | Self::Concat | Self::SignExtend | Self::Insert
        )
    }

    /// Returns how many of `a`, `b`, `c` the operation reads.
    pub(super) const fn operands(self) -> usize {
        match self {
            Self::Copy | Self::Not | Self::Neg | Self::Slice | Self::ShiftLeftBy | Self::SignExtend => 1,
            Self::Select => 3,
            _ => 2,
        }
    }
}

/// An operation with its values. `width` is as in [`Op::apply`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) width: u8,
    pub(super) immediate: u8,
    pub(super) result: Slot,
    pub(super) operands: [Slot; 3],
}

/// A node of the program, and its source line.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Step(Step),
    If { condition: Slot, then: Vec<Node>, otherwise: Vec<Node> },
    Apply(Apply),
    Read { register: u16, index: Slot, result: Slot },
    Write { register: u16, index: Slot, value: Slot },
}

/// The lookup of a table, and the action that it chooses.
#[derive(Clone, Debug)]
pub(super) struct Apply {
    pub(super) table: u16,
    pub(super) keys: Vec<Slot>,
    /// 1 if an entry matched.
    pub(super) hit: Slot,
    pub(super) arms: Vec<Arm>,
}

/// An action of a table: the slots of its arguments, and its body.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) parameters: Vec<Slot>,
    pub(super) body: Vec<Node>,
}

/// The kind of match of a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// All bits are equal.
    Exact,
    /// The bits of a mask are equal. The first matching entry wins.
    Ternary,
    /// The leading bits are equal. The longest prefix wins.
    Lpm,
    /// The field is in a range, both ends included. The first matching entry wins.
    Range,
}

impl MatchKind {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "exact" => Some(Self::Exact),
            "ternary" => Some(Self::Ternary),
            "lpm" => Some(Self::Lpm),
            "range" => Some(Self::Range),
            _ => None,
        }
    }
}

/// A match of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Any value.
    Any,
    /// One value.
    Value(u128),
    /// A value and the mask of the bits to compare.
    Mask(u128, u128),
    /// A range from the first value to the second, both included.
    Range(u128, u128),
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) action: u16,
    pub(super) arguments: Vec<u128>,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) matches: Vec<Match>,
    pub(super) chosen: Chosen,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The kind and width of each key field.
    pub(super) keys: Vec<(MatchKind, u32)>,
    /// The name of each action, and the widths of its parameters.
    pub(super) actions: Vec<(String, Vec<u32>)>,
    pub(super) entries: Vec<Entry>,
    pub(super) default: Chosen,
    pub(super) constant_entries: bool,
    pub(super) constant_default: bool,
    pub(super) size: usize,
}

/// A register: cells of one width.
#[derive(Clone, Debug)]
pub(super) struct Register {
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) cells: usize,
}

/// A field of the entry control's parameters, which is visible from outside.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) slot: Slot,
    pub(super) is_input: bool,
    pub(super) is_output: bool,
}

/// A checked program.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) fields: Vec<Field>,
    pub(super) tables: Vec<Table>,
    pub(super) registers: Vec<Register>,
    pub(super) body: Vec<Node>,
    /// The width of each slot.
    pub(super) widths: Vec<u32>,
    /// Slots with constant values, and these values.
    pub(super) constants: Vec<(Slot, u128)>,
}
