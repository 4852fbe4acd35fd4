//! Parses statements.

use super::Parser;
use crate::error::Result;
use crate::lexer::Token;
use crate::syntax::{Constant, ExpressionKind, Statement, Variable};

impl<'s> Parser<'s> {
    /// Parses `{` statements `}`.
    pub(super) fn block(&mut self) -> Result<Vec<Statement<'s>>> {
        self.expect(Token::OpenCurly, "`{`")?;
        self.enter()?;
        let mut statements = Vec::new();
        while !self.take(Token::CloseCurly) {
            statements.push(self.statement_or_declaration()?);
        }
        self.leave(1);
        Ok(statements)
    }

    fn statement_or_declaration(&mut self) -> Result<Statement<'s>> {
        self.annotations()?;
        if self.is_word("const") {
            return Ok(Statement::Constant(self.constant()?));
        }
        let is_declaration = self.is_type(0) && self.ahead(1).token != Token::Dot;
        if is_declaration {
            return Ok(Statement::Variable(self.variable()?));
        }
        self.statement()
    }

    fn statement(&mut self) -> Result<Statement<'s>> {
        let next = self.peek();
        match next.token {
            Token::Semicolon => {
                self.next += 1;
                Ok(Statement::Empty)
            }
            Token::OpenCurly => Ok(Statement::Block(self.block()?)),
            Token::Word if next.text == "if" => self.conditional(),
            Token::Word | Token::OpenRound => {
                let target = self.expression()?;
                if self.take(Token::Assign) {
                    let value = self.expression()?;
                    self.expect(Token::Semicolon, "`;` after an assignment")?;
                    return Ok(Statement::Assign { target, value });
                }
                if !matches!(target.kind, ExpressionKind::Call(..)) {
                    return self.unexpected("`=` or a call");
                }
                self.expect(Token::Semicolon, "`;` after a call")?;
                Ok(Statement::Call(target))
            }
            _ => self.unexpected("a statement or `}`"),
        }
    }

    fn conditional(&mut self) -> Result<Statement<'s>> {
        self.enter()?;
        self.next += 1;
        self.expect(Token::OpenRound, "`(` after `if`")?;
        let condition = self.expression()?;
        self.expect(Token::CloseRound, "`)` after the condition")?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.take_word("else") { Some(Box::new(self.statement()?)) } else { None };
        self.leave(1);
        Ok(Statement::If { condition, then, otherwise })
    }

    pub(super) fn constant(&mut self) -> Result<Constant<'s>> {
        self.expect_word("const", "`const`")?;
        let ty = self.type_ref()?;
        let name = self.name("the constant's name")?;
        self.expect(Token::Assign, "`=` and the constant's value")?;
        let value = self.expression()?;
        self.expect(Token::Semicolon, "`;` after a constant")?;
        Ok(Constant { ty, name, value })
    }

    pub(super) fn variable(&mut self) -> Result<Variable<'s>> {
        let ty = self.type_ref()?;
        let name = self.name("the variable's name")?;
        let value = if self.take(Token::Assign) { Some(self.expression()?) } else { None };
        self.expect(Token::Semicolon, "`;` after a variable")?;
        Ok(Variable { ty, name, value })
    }
}
