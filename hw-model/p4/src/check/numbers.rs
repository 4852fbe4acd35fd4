//! Numbers that are known at compile time.

use super::Checker;
use super::types::{Operand, Type, Value};
use crate::error::{At, ErrorKind, Result, fail};
use crate::ir::{mask, signed};
use crate::syntax::{BinaryOperator as Op, Expression};

impl<'p> Checker<'p> {
    /// Returns a number with the required type. A number that does not fit is an error here. The standard would
    /// truncate it with a warning.
    pub(super) fn fit(&self, value: i128, ty: Type, at: At) -> Result<Operand> {
        let fits = match ty {
            Type::Bit(width) => value >= 0 && value as u128 <= mask(width),
            Type::Int(width) => {
                let most = (mask(width) >> 1) as i128;
                (-most - 1..=most).contains(&value)
            }
            Type::Integer => return Ok(Operand { ty, value: Value::Integer(value) }),
            _ => {
                let (expected, found) = (self.type_name(ty), "a number".to_owned());
                return fail(at, ErrorKind::Mismatch { expected, found });
            }
        };
        if !fits {
            return fail(at, ErrorKind::DoesNotFit { value: value.to_string(), ty: self.type_name(ty) });
        }
        Ok(Operand { ty, value: Value::Known(value as u128 & mask(ty.width())) })
    }

    /// Returns a value of a type that is known at compile time.
    pub(super) fn known(&mut self, expression: &'p Expression<'p>, ty: Type) -> Result<Operand> {
        let operand = self.expression_of(expression, ty)?;
        match operand.value {
            Value::Known(_) | Value::Integer(_) => Ok(operand),
            _ => fail(expression.at, ErrorKind::NotConstant),
        }
    }

    /// Returns the bits of [`Self::known`].
    pub(super) fn known_bits(&mut self, expression: &'p Expression<'p>, ty: Type) -> Result<u128> {
        match self.known(expression, ty)?.value {
            Value::Known(value) => Ok(value),
            _ => fail(expression.at, ErrorKind::NotConstant),
        }
    }

    /// Returns a number of any type that is known at compile time.
    pub(super) fn known_number(&mut self, expression: &'p Expression<'p>) -> Result<i128> {
        let operand = self.expression(expression)?;
        match self.number_of(&operand) {
            Some(value) => Ok(value),
            None => fail(expression.at, ErrorKind::NotConstant),
        }
    }

    /// Returns the number of an operand, if it is known.
    pub(super) fn number_of(&self, operand: &Operand) -> Option<i128> {
        match (operand.ty, operand.value) {
            (_, Value::Integer(value)) => Some(value),
            (Type::Int(width), Value::Known(value)) => Some(signed(value, width)),
            (Type::Bit(_), Value::Known(value)) => i128::try_from(value).ok(),
            _ => None,
        }
    }

    /// Calculates an operation on numbers without a width.
    pub(super) fn integers(&self, operator: Op, left: i128, right: i128, at: At) -> Result<Operand> {
        let truth = |value: bool| Ok(Operand { ty: Type::Bool, value: Value::Known(value.into()) });
        let is_shift = matches!(operator, Op::ShiftLeft | Op::ShiftRight);
        if is_shift && right < 0 {
            let (found, needs) = (right.to_string(), "a distance of 0 or more");
            return fail(at, ErrorKind::Operand { operator: operator.text(), found, needs });
        }
        let by = || u32::try_from(right).ok();
        let value = match operator {
            Op::Equal => return truth(left == right),
            Op::NotEqual => return truth(left != right),
            Op::Less => return truth(left < right),
            Op::Greater => return truth(left > right),
            Op::LessEqual => return truth(left <= right),
            Op::GreaterEqual => return truth(left >= right),
            Op::Add => left.checked_add(right),
            Op::Sub => left.checked_sub(right),
            Op::Mul => left.checked_mul(right),
            Op::ShiftLeft => by()
                .and_then(|by| 1i128.checked_shl(by))
                .filter(|factor| *factor > 0)
                .and_then(|factor| left.checked_mul(factor)),
            Op::ShiftRight => Some(left >> by().unwrap_or(u32::MAX).min(127)),
            _ => {
                let needs = "bit<W> or int<W>: give the numbers a width, as in 8w1";
                let found = "int".to_owned();
                return fail(at, ErrorKind::Operand { operator: operator.text(), found, needs });
            }
        };
        match value {
            Some(value) => Ok(Operand { ty: Type::Integer, value: Value::Integer(value) }),
            None => fail(at, ErrorKind::IntegerOverflow),
        }
    }
}
