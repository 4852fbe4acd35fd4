//! The parser: recursive descent after the standard's grammar.
//!
//! Constructs of the standard that are not in this subset (loops, division, parsers, functions, `return`, `exit`,
//! `switch`) give an error that names them and says what to write instead.

mod declarations;
mod expressions;
mod statements;
mod tables;

use std::collections::HashSet;

use super::error::{At, ErrorKind, Result, fail};
use super::lexer::{Placed, Token, tokens};
use super::limits::{MAX_DEPTH, MAX_NAME_BYTES};
use super::syntax::{Declaration, Name};

/// Words that cannot be names.
const RESERVED: [&str; 42] = [
    "_",
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "list",
    "match_kind",
    "out",
    "package",
    "parser",
    "pragma",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "varbit",
    "void",
];

/// Constructs that are not in this subset: first word, name, and what to write instead.
const EXCLUDED: [(&str, &str, &str); 17] = [
    ("for", "a loop", "write the steps one after the other; a program has a fixed size"),
    ("while", "a loop", "write the steps one after the other; a program has a fixed size"),
    ("break", "`break`", "there are no loops to leave"),
    ("continue", "`continue`", "there are no loops to continue"),
    ("return", "`return`", "put what follows into an `else` branch"),
    ("exit", "`exit`", "put what follows into an `else` branch"),
    ("switch", "`switch`", "use `if`, or a table with const entries"),
    ("parser", "a parser", "declare a control whose header comes in by an `in` parameter"),
    ("state", "a parser's state", "declare a control whose header comes in by an `in` parameter"),
    ("enum", "an enumeration", "declare a `const` for each of its values"),
    ("error", "an error set", "declare a `const` for each of its values"),
    ("header_union", "a header union", "declare a struct of the headers"),
    ("varbit", "a variable width", "use `bit<W>` of the largest width"),
    ("tuple", "a tuple", "declare a struct"),
    ("string", "a text", "use texts only in annotations"),
    ("value_set", "a value set", "use a table"),
    ("void", "a function", "declare an action with `out` parameters"),
];

pub(super) struct Parser<'s> {
    tokens: Vec<Placed<'s>>,
    next: usize,
    depth: u32,
    /// Names of types. They distinguish a cast from an expression in parentheses.
    types: HashSet<&'s str>,
}

/// Parses a whole source.
pub(super) fn parse(source: &str) -> Result<Vec<Declaration<'_>>> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0, depth: 0, types: HashSet::new() };
    let mut declarations = Vec::new();
    while parser.peek().token != Token::End {
        if !parser.take(Token::Semicolon) {
            declarations.push(parser.declaration()?);
        }
    }
    Ok(declarations)
}

impl<'s> Parser<'s> {
    /// Returns a token ahead of the current one. After the last token it is always [`Token::End`].
    fn ahead(&self, distance: usize) -> Placed<'s> {
        let end = Placed { token: Token::End, text: "", at: 0 };
        self.tokens.get(self.next + distance).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn peek(&self) -> Placed<'s> {
        self.ahead(0)
    }

    fn advance(&mut self) -> Placed<'s> {
        let placed = self.peek();
        self.next += 1;
        placed
    }

    fn take(&mut self, token: Token) -> bool {
        let is_there = self.peek().token == token;
        self.next += usize::from(is_there);
        is_there
    }

    /// Returns true if the next token is this word.
    fn is_word(&self, word: &str) -> bool {
        let next = self.peek();
        next.token == Token::Word && next.text == word
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        self.next += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, token: Token, expected: &'static str) -> Result<At> {
        let at = self.peek().at;
        if self.take(token) { Ok(at) } else { self.unexpected(expected) }
    }

    fn expect_word(&mut self, word: &'static str, expected: &'static str) -> Result<At> {
        let at = self.peek().at;
        if self.take_word(word) { Ok(at) } else { self.unexpected(expected) }
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T> {
        let found = self.peek();
        if found.token == Token::Word
            && let Some((_, what, instead)) = EXCLUDED.iter().find(|(word, ..)| *word == found.text)
        {
            return fail(found.at, ErrorKind::Excluded { what, instead });
        }
        let found_text = match found.token {
            Token::End => "the end of the source".to_owned(),
            _ => format!("`{}`", found.text.chars().take(40).collect::<String>()),
        };
        fail(found.at, ErrorKind::Expected { expected, found: found_text })
    }

    fn name(&mut self, expected: &'static str) -> Result<Name<'s>> {
        let next = self.peek();
        if next.token != Token::Word || RESERVED.contains(&next.text) {
            return self.unexpected(expected);
        }
        if next.text.len() > MAX_NAME_BYTES {
            return fail(next.at, ErrorKind::LongName);
        }
        self.next += 1;
        Ok(Name { text: next.text, at: next.at })
    }

    /// Enters one level of nesting, until [`Self::leave`].
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { fail(self.peek().at, ErrorKind::TooDeep) } else { Ok(()) }
    }

    const fn leave(&mut self, levels: u32) {
        self.depth -= levels;
    }

    /// Skips annotations. They have no effect in this subset.
    fn annotations(&mut self) -> Result<()> {
        while self.take(Token::At) {
            self.expect_annotation_name()?;
            let (open, close) = match self.peek().token {
                Token::OpenRound => (Token::OpenRound, Token::CloseRound),
                Token::OpenSquare => (Token::OpenSquare, Token::CloseSquare),
                _ => continue,
            };
            let mut level = 0usize;
            loop {
                let token = self.peek().token;
                if token == Token::End {
                    return self.unexpected("the annotation's closing bracket");
                }
                self.next += 1;
                level += usize::from(token == open);
                level -= usize::from(token == close);
                if level == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn expect_annotation_name(&mut self) -> Result<()> {
        if self.peek().token == Token::Word {
            self.next += 1;
            return Ok(());
        }
        self.unexpected("the annotation's name")
    }
}
