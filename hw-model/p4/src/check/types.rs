//! Types and values of expressions.

use crate::ir::Slot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    /// A number without a width, known at compile time.
    Integer,
    Bit(u32),
    Int(u32),
    /// An index of [`Checker::structures`].
    Structure(usize),
}

impl Type {
    /// Returns the bits of a number or `bool`.
    pub(super) const fn width(self) -> u32 {
        match self {
            Self::Bit(width) | Self::Int(width) => width,
            _ => 1,
        }
    }

    pub(super) const fn is_signed(self) -> bool {
        matches!(self, Self::Int(_))
    }

    pub(super) const fn is_fixed(self) -> bool {
        matches!(self, Self::Bit(_) | Self::Int(_))
    }
}

/// A struct or header.
#[derive(Debug)]
pub(super) struct Structure<'p> {
    pub(super) name: &'p str,
    /// Name, type, and the first of its slots behind the structure's first.
    pub(super) fields: Vec<(&'p str, Type, usize)>,
    /// Number of slots of all fields.
    pub(super) slots: usize,
    /// Levels of nesting. 1 for a structure without structures in it.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Integer(i128),
    Known(u128),
    Slot(Slot),
    /// The first slot of a structure.
    Structure(Slot),
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) ty: Type,
    pub(super) value: Value,
}

/// A place that holds a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ty: Type,
    pub(super) slot: Slot,
    pub(super) is_writable: bool,
    /// Upper and lower bit if the place is a slice. Then `ty` is the type of the slice.
    pub(super) slice: Option<(u32, u32)>,
}
