//! Parses declarations: types, constants, externs, actions, controls, packages and instances.

use super::Parser;
use crate::error::Result;
use crate::lexer::Token;
use crate::syntax::{
    Action, Control, Declaration, Direction, Instance, Local, Method, Name, Parameter, TypeRef, Variable,
};

impl<'s> Parser<'s> {
    pub(super) fn declaration(&mut self) -> Result<Declaration<'s>> {
        self.annotations()?;
        let next = self.peek();
        match next.text {
            "const" => Ok(Declaration::Constant(self.constant()?)),
            "typedef" => {
                self.next += 1;
                let ty = self.type_ref()?;
                let name = self.type_name("the new type's name")?;
                self.expect(Token::Semicolon, "`;` after a typedef")?;
                Ok(Declaration::Typedef { ty, name })
            }
            "header" | "struct" => self.structure(),
            "match_kind" => self.match_kind(),
            "extern" => self.external(),
            "action" => Ok(Declaration::Action(self.action()?)),
            "control" => self.control(),
            "package" => {
                self.next += 1;
                let name = self.type_name("the package's name")?;
                let parameters = self.parameters()?;
                self.expect(Token::Semicolon, "`;` after a package")?;
                Ok(Declaration::Package { name, parameters })
            }
            _ if self.is_type(0) => Ok(Declaration::Instance(self.instance()?)),
            _ => self.unexpected("a declaration"),
        }
    }

    /// Parses a name. From here on it is the name of a type.
    fn type_name(&mut self, expected: &'static str) -> Result<Name<'s>> {
        let name = self.name(expected)?;
        self.types.insert(name.text);
        Ok(name)
    }

    fn structure(&mut self) -> Result<Declaration<'s>> {
        let is_header = self.advance().text == "header";
        let name = self.name("the type's name")?;
        self.expect(Token::OpenCurly, "`{` and the fields")?;
        let mut fields = Vec::new();
        while !self.take(Token::CloseCurly) {
            self.annotations()?;
            let ty = self.type_ref()?;
            let field = self.name("the field's name")?;
            self.expect(Token::Semicolon, "`;` after a field")?;
            fields.push((ty, field));
        }
        self.types.insert(name.text);
        Ok(Declaration::Struct { name, is_header, fields })
    }

    fn match_kind(&mut self) -> Result<Declaration<'s>> {
        self.next += 1;
        self.expect(Token::OpenCurly, "`{` and the kinds of match")?;
        let mut kinds = Vec::new();
        loop {
            kinds.push(self.name("a kind of match")?);
            let more = self.take(Token::Comma);
            if self.take(Token::CloseCurly) {
                return Ok(Declaration::MatchKind(kinds));
            }
            if !more {
                return self.unexpected("`,` or `}` after a kind of match");
            }
        }
    }

    fn external(&mut self) -> Result<Declaration<'s>> {
        self.next += 1;
        let name = self.type_name("the extern's name")?;
        let mut parameter = None;
        if self.take(Token::Less) {
            parameter = Some(self.name("the extern's type parameter")?);
            self.expect(Token::Greater, "`>` after one type parameter")?;
        }
        let is_new = parameter.is_some_and(|parameter| self.types.insert(parameter.text));
        self.expect(Token::OpenCurly, "`{` and the extern's methods")?;
        let mut methods = Vec::new();
        while !self.take(Token::CloseCurly) {
            self.annotations()?;
            self.take_word("void");
            let name = self.name("a method")?;
            let parameters = self.parameters()?;
            self.expect(Token::Semicolon, "`;` after a method")?;
            methods.push(Method { name, parameters });
        }
        if let (Some(parameter), true) = (parameter, is_new) {
            self.types.remove(parameter.text);
        }
        Ok(Declaration::Extern { name, parameter, methods })
    }

    fn parameters(&mut self) -> Result<Vec<Parameter<'s>>> {
        self.expect(Token::OpenRound, "`(` and the parameters")?;
        let mut parameters = Vec::new();
        if self.take(Token::CloseRound) {
            return Ok(parameters);
        }
        loop {
            self.annotations()?;
            let direction = if self.take_word("in") {
                Direction::In
            } else if self.take_word("out") {
                Direction::Out
            } else if self.take_word("inout") {
                Direction::InOut
            } else {
                Direction::None
            };
            let ty = self.type_ref()?;
            let name = self.name("the parameter's name")?;
            parameters.push(Parameter { direction, ty, name });
            if self.take(Token::CloseRound) {
                return Ok(parameters);
            }
            self.expect(Token::Comma, "`,` or `)` after a parameter")?;
        }
    }

    fn action(&mut self) -> Result<Action<'s>> {
        self.next += 1;
        let name = self.name("the action's name")?;
        let parameters = self.parameters()?;
        let body = self.block()?;
        Ok(Action { name, parameters, body })
    }

    fn control(&mut self) -> Result<Declaration<'s>> {
        self.next += 1;
        let name = self.name("the control's name")?;
        let parameters = self.parameters()?;
        if self.take(Token::Semicolon) {
            self.types.insert(name.text);
            return Ok(Declaration::ControlType { name, parameters });
        }
        self.expect(Token::OpenCurly, "`{` and the control's body, or `;`")?;
        let mut locals = Vec::new();
        loop {
            self.annotations()?;
            if self.take_word("apply") {
                break;
            }
            locals.push(self.local()?);
        }
        let body = self.block()?;
        self.expect(Token::CloseCurly, "`}` after the control's `apply` block")?;
        self.types.insert(name.text);
        Ok(Declaration::Control(Control { name, parameters, locals, body }))
    }

    fn local(&mut self) -> Result<Local<'s>> {
        match self.peek().text {
            "const" => return Ok(Local::Constant(self.constant()?)),
            "action" => return Ok(Local::Action(self.action()?)),
            "table" => return Ok(Local::Table(self.table()?)),
            _ if !self.is_type(0) => {
                return self.unexpected("a constant, variable, action, table, instance, or `apply`");
            }
            _ => {}
        }
        let ty = self.type_ref()?;
        if self.peek().token == Token::OpenRound {
            return Ok(Local::Instance(self.instance_of(ty)?));
        }
        let name = self.name("the variable's name")?;
        let value = if self.take(Token::Assign) { Some(self.expression()?) } else { None };
        self.expect(Token::Semicolon, "`;` after a variable")?;
        Ok(Local::Variable(Variable { ty, name, value }))
    }

    fn instance(&mut self) -> Result<Instance<'s>> {
        let ty = self.type_ref()?;
        self.instance_of(ty)
    }

    fn instance_of(&mut self, ty: TypeRef<'s>) -> Result<Instance<'s>> {
        self.expect(Token::OpenRound, "`(` and the arguments of the instance")?;
        let arguments = self.arguments()?;
        let name = self.name("the instance's name")?;
        self.expect(Token::Semicolon, "`;` after an instance")?;
        Ok(Instance { ty, arguments, name })
    }
}
