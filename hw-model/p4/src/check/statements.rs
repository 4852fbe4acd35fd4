//! Checks statements.

use super::Checker;
use super::scope::{Scope, Symbol};
use super::types::{Operand, Place, Type, Value};
use crate::error::{At, ErrorKind, Result, fail};
use crate::ir::{Node, NodeKind, Op, Slot, Step};
use crate::syntax::{Constant, Expression, Statement, Variable};

impl<'p> Checker<'p> {
    /// Checks statements in their own scope.
    pub(super) fn block(&mut self, statements: &'p [Statement<'p>]) -> Result<()> {
        self.locals.push(Scope::default());
        let result = statements.iter().try_for_each(|statement| self.statement(statement));
        self.locals.pop();
        result
    }

    fn statement(&mut self, statement: &'p Statement<'p>) -> Result<()> {
        self.deeper(statement.at(), |checker| checker.statement_inside(statement))
    }

    fn statement_inside(&mut self, statement: &'p Statement<'p>) -> Result<()> {
        match statement {
            Statement::Empty => Ok(()),
            Statement::Block(statements) => self.block(statements),
            Statement::Variable(variable) => self.variable(variable),
            Statement::Constant(constant) => self.constant(constant),
            Statement::Assign { target, value } => self.assignment(target, value),
            Statement::Call(call) => self.call(call),
            Statement::If { condition, then, otherwise } => {
                self.conditional(condition, then, otherwise.as_deref())
            }
        }
    }

    pub(super) fn constant(&mut self, constant: &'p Constant<'p>) -> Result<()> {
        let ty = self.resolve(&constant.ty)?;
        let operand = self.known(&constant.value, ty)?;
        self.add(constant.name, Symbol::Constant(operand))?;
        Ok(())
    }

    pub(super) fn variable(&mut self, variable: &'p Variable<'p>) -> Result<()> {
        let ty = self.resolve_kept(&variable.ty)?;
        let at = variable.name.at;
        // The name is not visible in its own initial value.
        let value = match &variable.value {
            Some(value) => Some(self.expression_of(value, ty)?),
            None => None,
        };
        let slot = self.allocate(ty, variable.name.text, at)?;
        let place = Place { ty, slot, is_writable: true, slice: None };
        self.add(variable.name, Symbol::Variable(place))?;
        match value {
            Some(value) => self.assign(place, value, at),
            None => Ok(()),
        }
    }

    fn assignment(&mut self, target: &'p Expression<'p>, value: &'p Expression<'p>) -> Result<()> {
        let place = self.writable(target)?;
        let value = self.expression_of(value, place.ty)?;
        self.assign(place, value, target.at)
    }

    /// Returns a place that may be written.
    pub(super) fn writable(&mut self, target: &'p Expression<'p>) -> Result<Place> {
        let place = self.place(target)?;
        if !place.is_writable {
            let name = self.names[usize::from(place.slot)].clone();
            return fail(target.at, ErrorKind::NotWritable(format!("`{name}`")));
        }
        Ok(place)
    }

    /// Writes a value of the place's type.
    pub(super) fn assign(&mut self, place: Place, value: Operand, at: At) -> Result<()> {
        if let Value::Structure(from) = value.value {
            for offset in 0..self.slots_of(place.ty) as Slot {
                let ty = Type::Bit(self.widths[usize::from(from + offset)]);
                let field = Operand { ty, value: Value::Slot(from + offset) };
                self.store(&field, place.slot + offset, at)?;
            }
            return Ok(());
        }
        let Some((high, low)) = place.slice else {
            return self.store(&value, place.slot, at);
        };
        let whole = Operand { ty: place.ty, value: Value::Slot(place.slot) };
        let operands = [self.read(&whole, at)?, self.read(&value, at)?, 0];
        let width = (high - low + 1) as u8;
        let step = Step { op: Op::Insert, width, immediate: low as u8, result: place.slot, operands };
        self.push(NodeKind::Step(step), at)
    }

    fn conditional(
        &mut self,
        condition: &'p Expression<'p>,
        then: &'p Statement<'p>,
        otherwise: Option<&'p Statement<'p>>,
    ) -> Result<()> {
        let tested = match self.table_test(condition)? {
            Some(tested) => tested,
            None => self.expression_of(condition, Type::Bool)?,
        };
        let condition_slot = self.read(&tested, condition.at)?;
        let before = self.set.clone();
        let then = self.branch(Some(then))?;
        let after_then = core::mem::replace(&mut self.set, before);
        // Slots that the first branch allocated are not set in the second branch.
        self.set.resize(after_then.len(), 0);
        let otherwise = self.branch(otherwise)?;
        self.set_on_both(&after_then);
        self.push(NodeKind::If { condition: condition_slot, then, otherwise }, condition.at)
    }

    fn branch(&mut self, statement: Option<&'p Statement<'p>>) -> Result<Vec<Node>> {
        let outside = core::mem::take(&mut self.nodes);
        self.locals.push(Scope::default());
        let result = statement.map_or(Ok(()), |statement| self.statement(statement));
        self.locals.pop();
        let inside = core::mem::replace(&mut self.nodes, outside);
        result.map(|()| inside)
    }
}
