//! Declares names and finds their symbols.

use super::Checker;
use super::scope::{Scope, Symbol};
use super::types::Type;
use crate::error::{At, ErrorKind, Result, fail};
use crate::syntax::Name;

impl<'p> Checker<'p> {
    /// Finds the symbol of a name, and when it was declared. Inlined actions and controls see the scopes around
    /// them as they were at their own declaration.
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

    /// Runs a function with the scopes that a declaration saw: the first `levels` local ones, at the time
    /// `declared`.
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
