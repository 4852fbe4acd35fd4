//! Checks expressions by the standard's type rules, and makes the steps that calculate them.

use super::Checker;
use super::scope::Symbol;
use super::types::{Operand, Place, Type, Value};
use crate::error::{At, ErrorKind, Result, fail};
use crate::ir::{Op, mask, signed};
use crate::limits::MAX_WIDTH;
use crate::syntax::{BinaryOperator, Expression, ExpressionKind, Name, UnaryOperator};

impl<'p> Checker<'p> {
    /// Checks an expression where a value of a type is needed. A number without a width gets that type.
    pub(super) fn expression_of(&mut self, expression: &'p Expression<'p>, ty: Type) -> Result<Operand> {
        let operand = self.expression(expression)?;
        self.convert(operand, ty, expression.at)
    }

    pub(super) fn convert(&self, operand: Operand, ty: Type, at: At) -> Result<Operand> {
        match operand.value {
            Value::Integer(value) => self.fit(value, ty, at),
            _ if operand.ty == ty => Ok(operand),
            _ => {
                let (expected, found) = (self.type_name(ty), self.type_name(operand.ty));
                fail(at, ErrorKind::Mismatch { expected, found })
            }
        }
    }

    pub(super) fn expression(&mut self, expression: &'p Expression<'p>) -> Result<Operand> {
        self.deeper(expression.at, |checker| checker.expression_inside(expression))
    }

    fn expression_inside(&mut self, expression: &'p Expression<'p>) -> Result<Operand> {
        let at = expression.at;
        match &expression.kind {
            ExpressionKind::Number(number) => match number.ty {
                None => Ok(Operand { ty: Type::Integer, value: Value::Integer(number.value as i128) }),
                Some(ty) => {
                    let ty = if ty.signed { Type::Int(ty.width) } else { Type::Bit(ty.width) };
                    Ok(Operand { ty, value: Value::Known(number.value) })
                }
            },
            ExpressionKind::Bool(value) => {
                Ok(Operand { ty: Type::Bool, value: Value::Known((*value).into()) })
            }
            ExpressionKind::Name(_) | ExpressionKind::Member(..) => self.value_of(expression),
            ExpressionKind::Slice(parts) => {
                let value = self.expression(&parts[0])?;
                let (high, low) = self.bounds(value.ty, &parts[1], &parts[2])?;
                let ty = Type::Bit(high - low + 1);
                self.calculate((Op::Slice, ty.width(), low), &[value], ty, at)
            }
            ExpressionKind::Unary(operator, operand) => {
                let operand = self.expression(operand)?;
                self.unary(*operator, operand, at)
            }
            ExpressionKind::Binary(operator, operands) => {
                let left = self.expression(&operands[0])?;
                let right = self.expression(&operands[1])?;
                self.binary(*operator, left, right, at)
            }
            ExpressionKind::Choice(parts) => self.choice(parts, at),
            ExpressionKind::Cast(ty, operand) => {
                let ty = self.resolve(ty)?;
                let operand = self.expression(operand)?;
                self.cast(ty, operand, at)
            }
            ExpressionKind::Call(..) => fail(
                at,
                ErrorKind::Excluded {
                    what: "a call within an expression",
                    instead: "make the call a statement, or the whole condition of an `if`",
                },
            ),
        }
    }

    /// Checks the name of a constant or variable.
    fn value_of(&mut self, expression: &'p Expression<'p>) -> Result<Operand> {
        if let ExpressionKind::Name(name) = expression.kind
            && let Symbol::Constant(operand) = self.find(name, expression.at)?.1
        {
            return Ok(operand);
        }
        let place = self.place(expression)?;
        let value = match place.ty {
            Type::Structure(_) => Value::Structure(place.slot),
            _ => Value::Slot(place.slot),
        };
        Ok(Operand { ty: place.ty, value })
    }

    /// Checks a place: a variable, a field of one, or a slice.
    pub(super) fn place(&mut self, expression: &'p Expression<'p>) -> Result<Place> {
        self.deeper(expression.at, |checker| checker.place_inside(expression))
    }

    fn place_inside(&mut self, expression: &'p Expression<'p>) -> Result<Place> {
        match &expression.kind {
            ExpressionKind::Name(name) => match self.find(name, expression.at)?.1 {
                Symbol::Variable(place) => Ok(place),
                _ => fail(
                    expression.at,
                    ErrorKind::NotA { name: (*name).to_owned(), what: "a value or variable" },
                ),
            },
            ExpressionKind::Member(base, field) => {
                let place = self.place(base)?;
                self.field(place, *field)
            }
            ExpressionKind::Slice(parts) => {
                let place = self.place(&parts[0])?;
                let (high, low) = self.bounds(place.ty, &parts[1], &parts[2])?;
                let under = place.slice.map_or(0, |(_, low)| low);
                let slice = Some((under + high, under + low));
                Ok(Place { ty: Type::Bit(high - low + 1), slice, ..place })
            }
            _ => fail(expression.at, ErrorKind::NotWritable("this expression".to_owned())),
        }
    }

    fn field(&self, place: Place, field: Name<'p>) -> Result<Place> {
        let no_field = || fail(field.at, ErrorKind::NoField(self.type_name(place.ty), field.text.to_owned()));
        let Type::Structure(index) = place.ty else {
            return no_field();
        };
        match self.structures[index].fields.iter().find(|(name, ..)| *name == field.text) {
            Some((_, ty, offset)) => Ok(Place { ty: *ty, slot: place.slot + *offset as u16, ..place }),
            None => no_field(),
        }
    }

    /// Returns the upper and lower bit of a slice.
    fn bounds(&mut self, ty: Type, high: &'p Expression<'p>, low: &'p Expression<'p>) -> Result<(u32, u32)> {
        let at = high.at;
        if !ty.is_fixed() {
            let found = self.type_name(ty);
            return fail(at, ErrorKind::Operand { operator: "[:]", found, needs: "bit<W> or int<W>" });
        }
        let (high, low) = (self.known_number(high)?, self.known_number(low)?);
        if low < 0 || high < low || high >= i128::from(ty.width()) {
            return fail(at, ErrorKind::Slice { high, low, ty: self.type_name(ty) });
        }
        Ok((high as u32, low as u32))
    }

    fn unary(&mut self, operator: UnaryOperator, operand: Operand, at: At) -> Result<Operand> {
        let ty = operand.ty;
        let (op, text, needs) = match operator {
            UnaryOperator::Not => (Op::Not, "!", "bool"),
            UnaryOperator::Complement => (Op::Not, "~", "bit<W> or int<W>"),
            UnaryOperator::Minus => (Op::Neg, "-", "a number"),
            UnaryOperator::Plus => (Op::Copy, "+", "a number"),
        };
        match (operator, operand.value) {
            (UnaryOperator::Minus, Value::Integer(value)) => {
                // The smallest number cannot be negated, but no literal is that small.
                return match value.checked_neg() {
                    Some(value) => Ok(Operand { ty, value: Value::Integer(value) }),
                    None => fail(at, ErrorKind::IntegerOverflow),
                };
            }
            (UnaryOperator::Plus, Value::Integer(_)) => return Ok(operand),
            _ => {}
        }
        let works = if operator == UnaryOperator::Not { ty == Type::Bool } else { ty.is_fixed() };
        if !works {
            let found = self.type_name(ty);
            return fail(at, ErrorKind::Operand { operator: text, found, needs });
        }
        if op == Op::Copy {
            return Ok(operand);
        }
        self.calculate((op, ty.width(), 0), &[operand], ty, at)
    }

    fn binary(&mut self, operator: BinaryOperator, left: Operand, right: Operand, at: At) -> Result<Operand> {
        use BinaryOperator as B;

        let is_shift = matches!(operator, B::ShiftLeft | B::ShiftRight);
        if let (Value::Integer(value), Some(other)) = (left.value, self.number_of(&right))
            && (is_shift || right.ty == Type::Integer)
        {
            return self.integers(operator, value, other, at);
        }
        match operator {
            B::ShiftLeft | B::ShiftRight => return self.shift(operator, left, right, at),
            B::Concat => return self.concat(left, right, at),
            _ => {}
        }
        let ty = if left.ty == Type::Integer { right.ty } else { left.ty };
        let (left, right) = (self.convert(left, ty, at)?, self.convert(right, ty, at)?);
        let signed = ty.is_signed();
        let pick = |unsigned_op, signed_op| if signed { signed_op } else { unsigned_op };
        let (op, swapped, result) = match operator {
            B::Or => (Op::Or, false, Type::Bool),
            B::And => (Op::And, false, Type::Bool),
            B::Equal => (Op::Equal, false, Type::Bool),
            B::NotEqual => (Op::NotEqual, false, Type::Bool),
            B::Less => (pick(Op::Less, Op::LessSigned), false, Type::Bool),
            B::Greater => (pick(Op::Less, Op::LessSigned), true, Type::Bool),
            B::LessEqual => (pick(Op::LessEqual, Op::LessEqualSigned), false, Type::Bool),
            B::GreaterEqual => (pick(Op::LessEqual, Op::LessEqualSigned), true, Type::Bool),
            B::BitOr => (Op::Or, false, ty),
            B::BitXor => (Op::Xor, false, ty),
            B::BitAnd => (Op::And, false, ty),
            B::Add => (Op::Add, false, ty),
            B::Sub => (Op::Sub, false, ty),
            B::SaturatingAdd => (pick(Op::SaturatingAdd, Op::SaturatingAddSigned), false, ty),
            B::SaturatingSub => (pick(Op::SaturatingSub, Op::SaturatingSubSigned), false, ty),
            _ => (Op::Mul, false, ty),
        };
        let (works, needs) = match operator {
            B::Or | B::And => (ty == Type::Bool, "bool"),
            B::Equal | B::NotEqual => {
                (ty.is_fixed() || ty == Type::Bool, "numbers or bool; compare field by field")
            }
            _ => (ty.is_fixed(), "bit<W> or int<W>"),
        };
        if !works {
            let found = self.type_name(ty);
            return fail(at, ErrorKind::Operand { operator: operator.text(), found, needs });
        }
        let operands = if swapped { [right, left] } else { [left, right] };
        self.calculate((op, ty.width(), 0), &operands, result, at)
    }

    /// Checks a shift. The distance is a known number or an unsigned value, and may be larger than the width.
    fn shift(&mut self, operator: BinaryOperator, left: Operand, right: Operand, at: At) -> Result<Operand> {
        let ty = left.ty;
        let to_left = operator == BinaryOperator::ShiftLeft;
        if !ty.is_fixed() {
            let needs = "a value with a width, as in 32w1, unless both sides are known";
            return fail(
                at,
                ErrorKind::Operand { operator: operator.text(), found: self.type_name(ty), needs },
            );
        }
        let width = ty.width();
        if let Some(by) = self.number_of(&right) {
            let needs = "a distance of 0 or more";
            if by < 0 {
                let found = by.to_string();
                return fail(at, ErrorKind::Operand { operator: operator.text(), found, needs });
            }
            let by = by.min(128) as u32;
            return match (to_left, ty.is_signed()) {
                (_, false) if by >= width => Ok(Operand { ty, value: Value::Known(0) }),
                (true, true) if by >= width => Ok(Operand { ty, value: Value::Known(0) }),
                (true, _) => self.calculate((Op::ShiftLeftBy, width, by), &[left], ty, at),
                (false, false) => self.calculate((Op::Slice, width, by), &[left], ty, at),
                (false, true) => {
                    let by = Operand { ty: Type::Bit(8), value: Value::Known(by.into()) };
                    self.calculate((Op::ShiftRightSigned, width, 0), &[left, by], ty, at)
                }
            };
        }
        if !matches!(right.ty, Type::Bit(_)) {
            let needs = "an unsigned distance: cast it to bit<W>";
            let found = self.type_name(right.ty);
            return fail(at, ErrorKind::Operand { operator: operator.text(), found, needs });
        }
        let op = match (to_left, ty.is_signed()) {
            (true, _) => Op::ShiftLeft,
            (false, false) => Op::ShiftRight,
            (false, true) => Op::ShiftRightSigned,
        };
        self.calculate((op, width, 0), &[left, right], ty, at)
    }

    fn concat(&mut self, left: Operand, right: Operand, at: At) -> Result<Operand> {
        for side in [left, right] {
            if !side.ty.is_fixed() {
                let (found, needs) = (self.type_name(side.ty), "bit<W> or int<W> on both sides");
                return fail(at, ErrorKind::Operand { operator: "++", found, needs });
            }
        }
        let width = left.ty.width() + right.ty.width();
        if width > MAX_WIDTH {
            return fail(at, ErrorKind::Width(width.into()));
        }
        let ty = if left.ty.is_signed() { Type::Int(width) } else { Type::Bit(width) };
        self.calculate((Op::Concat, width, right.ty.width()), &[left, right], ty, at)
    }

    fn choice(&mut self, parts: &'p [Expression<'p>; 3], at: At) -> Result<Operand> {
        let condition = self.expression_of(&parts[0], Type::Bool)?;
        let (yes, no) = (self.expression(&parts[1])?, self.expression(&parts[2])?);
        let ty = if yes.ty == Type::Integer { no.ty } else { yes.ty };
        if let Value::Known(known) = condition.value {
            let chosen = if known != 0 { yes } else { no };
            return self.convert(chosen, ty, at);
        }
        let (yes, no) = (self.convert(yes, ty, parts[1].at)?, self.convert(no, ty, parts[2].at)?);
        if matches!(ty, Type::Integer | Type::Structure(_)) {
            let (found, needs) = (self.type_name(ty), "values with a width");
            return fail(at, ErrorKind::Operand { operator: "?:", found, needs });
        }
        self.calculate((Op::Select, ty.width(), 0), &[condition, yes, no], ty, at)
    }

    fn cast(&mut self, ty: Type, operand: Operand, at: At) -> Result<Operand> {
        let no_cast = |this: &Self| {
            let (from, to) = (this.type_name(operand.ty), this.type_name(ty));
            fail(at, ErrorKind::Cast { from, to })
        };
        match (operand.ty, ty) {
            _ if operand.ty == ty && !matches!(ty, Type::Structure(_)) => Ok(operand),
            (Type::Integer, Type::Bit(width) | Type::Int(width)) => {
                let Value::Integer(value) = operand.value else { return no_cast(self) };
                Ok(Operand { ty, value: Value::Known(value as u128 & mask(width)) })
            }
            (Type::Integer, Type::Bool) => match operand.value {
                Value::Integer(value @ (0 | 1)) => Ok(Operand { ty, value: Value::Known(value as u128) }),
                _ => no_cast(self),
            },
            (Type::Bit(_) | Type::Int(_), Type::Integer) => match self.number_of(&operand) {
                Some(value) => Ok(Operand { ty, value: Value::Integer(value) }),
                None => fail(at, ErrorKind::NotConstant),
            },
            (Type::Bit(1), Type::Bool) | (Type::Bool, Type::Bit(1)) => Ok(Operand { ty, ..operand }),
            (Type::Bit(from), Type::Int(to)) | (Type::Int(from), Type::Bit(to)) if from == to => {
                Ok(Operand { ty, ..operand })
            }
            (Type::Bit(_), Type::Bit(to)) => self.calculate((Op::Slice, to, 0), &[operand], ty, at),
            (Type::Int(from), Type::Int(to)) if to < from => {
                self.calculate((Op::Slice, to, 0), &[operand], ty, at)
            }
            (Type::Int(from), Type::Int(to)) => match operand.value {
                Value::Known(value) => {
                    let value = signed(value, from) as u128 & mask(to);
                    Ok(Operand { ty, value: Value::Known(value) })
                }
                _ => self.calculate((Op::SignExtend, to, from), &[operand], ty, at),
            },
            _ => no_cast(self),
        }
    }
}
