//! Names and what they stand for.

use std::collections::HashMap;

use super::Checker;
use super::types::{Operand, Place, Type};
use crate::error::{At, ErrorKind, Result, fail};
use crate::syntax::{Action, Control, Name, Parameter, Table};

#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol<'p> {
    Constant(Operand),
    Type(Type),
    Variable(Place),
    /// An action, and how many local scopes it sees.
    Action(&'p Action<'p>, usize),
    /// An index of [`Checker::live_tables`].
    Table(usize),
    /// A register's number, and the type of its cells.
    Register(u16, Type),
    Control(&'p Control<'p>),
    ControlType(&'p [Parameter<'p>]),
    Package(&'p [Parameter<'p>]),
    Extern,
    /// An index of [`Checker::live_instances`].
    Instance(usize),
}

/// Symbols and when each was declared.
pub(super) type Scope<'p> = HashMap<&'p str, (usize, Symbol<'p>)>;

/// A table of a control that is being put in place.
#[derive(Clone, Debug)]
pub(super) struct LiveTable<'p> {
    pub(super) table: &'p Table<'p>,
    pub(super) declared: usize,
    /// Its number in the program.
    pub(super) number: u16,
    pub(super) key_types: Vec<Type>,
    /// Its actions, when each was declared, and how many local scopes it sees.
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

impl<'p> Checker<'p> {
    /// Finds a name, and when it was declared. What is being put in place sees the scopes around it as they were when
    /// it was declared.
    pub(super) fn find(&self, name: &str, at: At) -> Result<(usize, Symbol<'p>)> {
        for (level, scope) in self.locals.iter().enumerate().rev() {
            if let Some((declared, symbol)) = scope.get(name)
                && (level >= self.own_base || *declared < self.horizon)
            {
                return Ok((*declared, *symbol));
            }
        }
        match self.global.get(name) {
            Some((declared, symbol)) if *declared < self.global_horizon => Ok((*declared, *symbol)),
            _ => fail(at, ErrorKind::Unknown(name.to_owned())),
        }
    }

    pub(super) fn add(&mut self, name: Name<'p>, symbol: Symbol<'p>) -> Result<usize> {
        let declared = self.sequence;
        self.sequence += 1;
        let scope = self.locals.last_mut().unwrap_or(&mut self.global);
        if scope.insert(name.text, (declared, symbol)).is_some() {
            return fail(name.at, ErrorKind::Redeclared(name.text.to_owned()));
        }
        Ok(declared)
    }

    pub(super) fn named_type(&self, name: &str, at: At) -> Result<Type> {
        match self.find(name, at)?.1 {
            Symbol::Type(ty) => Ok(ty),
            _ => fail(at, ErrorKind::NotA { name: name.to_owned(), what: "the type of a value" }),
        }
    }

    /// Does something with the scopes that a declaration saw: the first `levels` local ones, as of `declared`.
    pub(super) fn within<T>(
        &mut self,
        levels: usize,
        declared: usize,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let hidden = self.locals.split_off(levels.min(self.locals.len()));
        let outside = (self.own_base, self.horizon, self.global_horizon);
        self.own_base = self.locals.len();
        self.horizon = declared;
        self.global_horizon = declared.min(self.global_horizon);
        self.locals.push(Scope::default());
        let result = work(self);
        self.locals.truncate(self.own_base);
        self.locals.extend(hidden);
        (self.own_base, self.horizon, self.global_horizon) = outside;
        result
    }
}
