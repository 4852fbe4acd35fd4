//! Parses expressions and types.

use super::Parser;
use crate::error::{ErrorKind, Result, fail};
use crate::lexer::{Number, Token, number};
use crate::syntax::{BinaryOperator as Op, Expression, ExpressionKind, TypeKind, TypeRef, UnaryOperator};

/// The binding strength below every operator.
const LOOSEST: u32 = 1;
/// The binding strength of prefix operators and casts.
const PREFIX: u32 = 11;

impl<'s> Parser<'s> {
    pub(super) fn expression(&mut self) -> Result<Expression<'s>> {
        self.enter()?;
        let condition = self.binary(LOOSEST)?;
        let expression = if self.take(Token::Question) {
            let yes = self.expression()?;
            self.expect(Token::Colon, "`:` between the two values of `?`")?;
            let no = self.binary(LOOSEST)?;
            if self.peek().token == Token::Question {
                // Front ends differ in how they group nested `?`.
                let (what, instead) = ("a choice after `:`", "put it into parentheses");
                return fail(self.peek().at, ErrorKind::Excluded { what, instead });
            }
            let at = condition.at;
            Expression { at, kind: ExpressionKind::Choice(Box::new([condition, yes, no])) }
        } else {
            condition
        };
        self.leave(1);
        Ok(expression)
    }

    /// Returns the next operator, its binding strength and its number of tokens. The strengths are those of the
    /// standard: `|`, `^` and `&` bind tighter than comparisons.
    fn operator(&self) -> Result<Option<(Op, u32, usize)>> {
        let next = self.peek();
        let shift = |token: Token| {
            let second = self.ahead(1);
            second.token == token && second.at == next.at + 1
        };
        Ok(Some(match next.token {
            Token::OrOr => (Op::Or, 1, 1),
            Token::AndAnd => (Op::And, 2, 1),
            Token::Equal => (Op::Equal, 3, 1),
            Token::NotEqual => (Op::NotEqual, 3, 1),
            Token::Greater if shift(Token::Greater) => (Op::ShiftRight, 8, 2),
            Token::Less => (Op::Less, 4, 1),
            Token::Greater => (Op::Greater, 4, 1),
            Token::LessEqual => (Op::LessEqual, 4, 1),
            Token::GreaterEqual => (Op::GreaterEqual, 4, 1),
            Token::Or => (Op::BitOr, 5, 1),
            Token::Xor => (Op::BitXor, 6, 1),
            Token::And => (Op::BitAnd, 7, 1),
            Token::ShiftLeft => (Op::ShiftLeft, 8, 1),
            Token::Concat => (Op::Concat, 9, 1),
            Token::Plus => (Op::Add, 9, 1),
            Token::Minus => (Op::Sub, 9, 1),
            Token::SaturatingAdd => (Op::SaturatingAdd, 9, 1),
            Token::SaturatingSub => (Op::SaturatingSub, 9, 1),
            Token::Star => (Op::Mul, 10, 1),
            Token::Slash | Token::Percent => {
                let instead = "multiply by a reciprocal from a table, or shift";
                return fail(next.at, ErrorKind::Excluded { what: "division", instead });
            }
            _ => return Ok(None),
        }))
    }

    fn binary(&mut self, loosest: u32) -> Result<Expression<'s>> {
        let mut left = self.prefix()?;
        let mut chained = 0;
        while let Some((operator, strength, tokens)) = self.operator()? {
            if strength < loosest {
                break;
            }
            self.enter()?;
            chained += 1;
            self.next += tokens;
            let right = self.binary(strength + 1)?;
            let at = left.at;
            left = Expression { at, kind: ExpressionKind::Binary(operator, Box::new([left, right])) };
        }
        self.leave(chained);
        Ok(left)
    }

    fn prefix(&mut self) -> Result<Expression<'s>> {
        let next = self.peek();
        let operator = match next.token {
            Token::Not => UnaryOperator::Not,
            Token::Tilde => UnaryOperator::Complement,
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::OpenRound if self.is_type(1) => return self.cast(),
            _ => return self.postfix(),
        };
        self.enter()?;
        self.next += 1;
        let operand = Box::new(self.binary(PREFIX)?);
        self.leave(1);
        Ok(Expression { at: next.at, kind: ExpressionKind::Unary(operator, operand) })
    }

    fn cast(&mut self) -> Result<Expression<'s>> {
        self.enter()?;
        let at = self.advance().at;
        let ty = Box::new(self.type_ref()?);
        self.expect(Token::CloseRound, "`)` after the type of a cast")?;
        let operand = Box::new(self.binary(PREFIX)?);
        self.leave(1);
        Ok(Expression { at, kind: ExpressionKind::Cast(ty, operand) })
    }

    fn postfix(&mut self) -> Result<Expression<'s>> {
        let mut expression = self.primary()?;
        let mut chained = 0;
        loop {
            let at = expression.at;
            let kind = match self.peek().token {
                Token::Dot => {
                    self.next += 1;
                    let member = self.name("a field or method after `.`")?;
                    ExpressionKind::Member(Box::new(expression), member)
                }
                Token::OpenSquare => {
                    self.next += 1;
                    let high = self.expression()?;
                    self.expect(Token::Colon, "`:` between the bits of a slice; there are no arrays")?;
                    let low = self.expression()?;
                    self.expect(Token::CloseSquare, "`]` after a slice")?;
                    ExpressionKind::Slice(Box::new([expression, high, low]))
                }
                Token::OpenRound => {
                    self.next += 1;
                    ExpressionKind::Call(Box::new(expression), self.arguments()?)
                }
                _ => break,
            };
            self.enter()?;
            chained += 1;
            expression = Expression { at, kind };
        }
        self.leave(chained);
        Ok(expression)
    }

    /// Parses arguments and the closing parenthesis.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expression<'s>>> {
        let mut arguments = Vec::new();
        if self.take(Token::CloseRound) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take(Token::CloseRound) {
                return Ok(arguments);
            }
            self.expect(Token::Comma, "`,` or `)` after an argument")?;
        }
    }

    fn primary(&mut self) -> Result<Expression<'s>> {
        let next = self.peek();
        let kind = match next.token {
            Token::Number => {
                self.next += 1;
                ExpressionKind::Number(number(next.text, next.at)?)
            }
            Token::OpenRound => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(Token::CloseRound, "`)`")?;
                return Ok(inner);
            }
            Token::Word if next.text == "true" || next.text == "false" => {
                self.next += 1;
                ExpressionKind::Bool(next.text == "true")
            }
            _ => ExpressionKind::Name(self.name("a value")?.text),
        };
        Ok(Expression { at: next.at, kind })
    }

    /// Returns true if a type begins at this token.
    pub(super) fn is_type(&self, distance: usize) -> bool {
        let word = self.ahead(distance);
        word.token == Token::Word
            && (matches!(word.text, "bit" | "int" | "bool" | "varbit" | "tuple" | "string")
                || self.types.contains(word.text))
    }

    pub(super) fn type_ref(&mut self) -> Result<TypeRef<'s>> {
        let next = self.peek();
        let is_list = self.ahead(1).token == Token::Less;
        let kind = match next.text {
            "bool" => {
                self.next += 1;
                TypeKind::Bool
            }
            "bit" if !is_list => {
                self.next += 1;
                let one = Number { value: 1, ty: None };
                let width = Expression { at: next.at, kind: ExpressionKind::Number(one) };
                TypeKind::Fixed { signed: false, width: Box::new(width) }
            }
            "int" if !is_list => {
                self.next += 1;
                TypeKind::Integer
            }
            "bit" | "int" => {
                self.next += 2;
                let width = Box::new(self.width()?);
                self.expect(Token::Greater, "`>` after a width; put an expression into parentheses")?;
                TypeKind::Fixed { signed: next.text == "int", width }
            }
            _ => {
                let name = self.name("a type")?;
                if !self.types.contains(name.text) {
                    return fail(name.at, ErrorKind::Unknown(name.text.to_owned()));
                }
                if self.take(Token::Less) {
                    self.enter()?;
                    let argument = Box::new(self.type_ref()?);
                    self.leave(1);
                    self.expect(Token::Greater, "`>` after a type's argument")?;
                    TypeKind::Specialized(name.text, argument)
                } else {
                    TypeKind::Named(name.text)
                }
            }
        };
        Ok(TypeRef { at: next.at, kind })
    }

    /// Parses a width: a number, or an expression in parentheses.
    fn width(&mut self) -> Result<Expression<'s>> {
        match self.peek().token {
            Token::Number | Token::OpenRound => self.primary(),
            _ => self.unexpected("a width: a number, or an expression in parentheses"),
        }
    }
}
