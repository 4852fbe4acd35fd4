//! Names and their symbols.

use std::collections::HashMap;

use super::types::{Operand, Place, Type};
use crate::syntax::{Action, Control, Parameter, Table};

#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol<'p> {
    Constant(Operand),
    Type(Type),
    Variable(Place),
    /// An action, and the number of local scopes that it sees.
    Action(&'p Action<'p>, usize),
    /// An index of [`Checker::live_tables`](super::Checker::live_tables).
    Table(usize),
    /// A register's number, and the type of its cells.
    Register(u16, Type),
    Control(&'p Control<'p>),
    ControlType(&'p [Parameter<'p>]),
    Package(&'p [Parameter<'p>]),
    Extern,
    /// An index of [`Checker::live_instances`](super::Checker::live_instances).
    Instance(usize),
}

/// Symbols, and the time of each declaration.
pub(super) type Scope<'p> = HashMap<&'p str, (usize, Symbol<'p>)>;

/// A table of a control that is being inlined.
#[derive(Clone, Debug)]
pub(super) struct LiveTable<'p> {
    pub(super) table: &'p Table<'p>,
    pub(super) declared: usize,
    /// Its number in the program.
    pub(super) number: u16,
    pub(super) key_types: Vec<Type>,
    /// Its actions, the time of each declaration, and the number of local scopes that each sees.
    pub(super) actions: Vec<(&'p Action<'p>, usize, usize)>,
    pub(super) is_applied: bool,
}

/// An instance of a control.
#[derive(Clone, Debug)]
pub(super) struct LiveInstance<'p> {
    pub(super) control: &'p Control<'p>,
    pub(super) declared: usize,
    pub(super) name: &'p str,
    pub(super) is_applied: bool,
}
