//! Parses tables.

use super::Parser;
use crate::error::{ErrorKind, Result, fail};
use crate::lexer::Token;
use crate::limits::MAX_ENTRIES;
use crate::syntax::{ActionCall, Entry, Expression, Keyset, Name, Table};

impl<'s> Parser<'s> {
    pub(super) fn table(&mut self) -> Result<Table<'s>> {
        self.expect_word("table", "`table`")?;
        let name = self.name("the table's name")?;
        let mut table = Table {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default_action: None,
            constant_default: false,
            size: None,
            entries: Vec::new(),
            constant_entries: false,
        };
        let mut seen = Vec::new();
        self.expect(Token::OpenCurly, "`{` and the table's properties")?;
        while !self.take(Token::CloseCurly) {
            self.annotations()?;
            let is_constant = self.take_word("const");
            let property = self.name("a property of the table, or `}`")?;
            let is_constant_property = matches!(property.text, "default_action" | "entries" | "size");
            if seen.contains(&property.text) || (is_constant && !is_constant_property) {
                return fail(property.at, ErrorKind::Property(property.text.to_owned()));
            }
            seen.push(property.text);
            self.expect(Token::Assign, "`=` after the property's name")?;
            match property.text {
                "key" => table.keys = self.keys()?,
                "actions" => table.actions = self.actions()?,
                "entries" => {
                    table.entries = self.entries()?;
                    table.constant_entries = is_constant;
                }
                "default_action" => {
                    table.default_action = Some(self.action_call()?);
                    table.constant_default = is_constant;
                    self.expect(Token::Semicolon, "`;` after the default action")?;
                }
                "size" => {
                    table.size = Some(self.expression()?);
                    self.expect(Token::Semicolon, "`;` after the size")?;
                }
                other => return fail(property.at, ErrorKind::Property(other.to_owned())),
            }
        }
        Ok(table)
    }

    fn keys(&mut self) -> Result<Vec<(Expression<'s>, Name<'s>)>> {
        let mut keys = Vec::new();
        self.expect(Token::OpenCurly, "`{` and the fields of the key")?;
        while !self.take(Token::CloseCurly) {
            let field = self.expression()?;
            self.expect(Token::Colon, "`:` and how the field is matched")?;
            let kind = self.name("exact, ternary, lpm or range")?;
            self.annotations()?;
            self.expect(Token::Semicolon, "`;` after a field of the key")?;
            keys.push((field, kind));
        }
        Ok(keys)
    }

    fn actions(&mut self) -> Result<Vec<Name<'s>>> {
        let mut actions = Vec::new();
        self.expect(Token::OpenCurly, "`{` and the actions")?;
        while !self.take(Token::CloseCurly) {
            self.annotations()?;
            let action = self.name("an action's name")?;
            if self.take(Token::OpenRound) && !self.take(Token::CloseRound) {
                let what = "an argument bound in the list of actions";
                let instead = "let the action read the variable itself";
                return fail(action.at, ErrorKind::Excluded { what, instead });
            }
            self.expect(Token::Semicolon, "`;` after an action's name")?;
            actions.push(action);
        }
        Ok(actions)
    }

    fn action_call(&mut self) -> Result<ActionCall<'s>> {
        let name = self.name("an action's name")?;
        let arguments = if self.take(Token::OpenRound) { self.arguments()? } else { Vec::new() };
        Ok(ActionCall { name, arguments })
    }

    fn entries(&mut self) -> Result<Vec<Entry<'s>>> {
        let mut entries = Vec::new();
        self.expect(Token::OpenCurly, "`{` and the entries")?;
        while !self.take(Token::CloseCurly) {
            let at = self.peek().at;
            if self.is_word("const") || self.is_word("priority") {
                let what = "a property of a single entry";
                let instead = "write `const entries`, in the order of their priority";
                return fail(at, ErrorKind::Excluded { what, instead });
            }
            let keys = self.keysets()?;
            self.expect(Token::Colon, "`:` and the entry's action")?;
            let action = self.action_call()?;
            self.annotations()?;
            self.expect(Token::Semicolon, "`;` after an entry")?;
            if entries.len() == MAX_ENTRIES {
                return fail(at, ErrorKind::TooLarge { what: "entries in a table", limit: MAX_ENTRIES });
            }
            entries.push(Entry { at, keys, action });
        }
        Ok(entries)
    }

    /// Parses one match, or several in parentheses. `(a) &&& m` and `(a, b)` begin in the same way.
    fn keysets(&mut self) -> Result<Vec<Keyset<'s>>> {
        if self.peek().token != Token::OpenRound || !self.is_tuple() {
            return Ok(vec![self.keyset()?]);
        }
        self.next += 1;
        let mut keys = Vec::new();
        loop {
            keys.push(self.keyset()?);
            if self.take(Token::CloseRound) {
                return Ok(keys);
            }
            self.expect(Token::Comma, "`,` or `)` after a match")?;
        }
    }

    /// Returns true if the next parenthesis contains matches. Then the entry's colon comes after it.
    fn is_tuple(&self) -> bool {
        let mut level = 0u32;
        for distance in 0.. {
            match self.ahead(distance).token {
                Token::OpenRound => level += 1,
                Token::CloseRound if level <= 1 => return self.ahead(distance + 1).token == Token::Colon,
                Token::CloseRound => level -= 1,
                Token::Semicolon | Token::End => return false,
                _ => {}
            }
        }
        false
    }

    fn keyset(&mut self) -> Result<Keyset<'s>> {
        if self.take_word("_") || self.take_word("default") {
            return Ok(Keyset::Any);
        }
        let value = self.expression()?;
        if self.take(Token::Mask) {
            return Ok(Keyset::Mask(value, self.expression()?));
        }
        if self.take(Token::Range) {
            return Ok(Keyset::Range(value, self.expression()?));
        }
        Ok(Keyset::Value(value))
    }
}
