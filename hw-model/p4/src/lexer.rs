//! The lexer: words, numbers and operators of P4-16.

use logos::Logos;

use super::error::{At, ErrorKind, Result, fail};
use super::limits::{MAX_INTEGER_BITS, MAX_SOURCE_BYTES, MAX_WIDTH};

/// A kind of token. `>>` is two tokens, as in the standard's grammar, because in `register<bit<8>>` it ends two
/// lists.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(super) enum Token {
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Word,
    #[regex("[0-9][0-9A-Za-z_]*")]
    Number,
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Text,
    #[token("(")]
    OpenRound,
    #[token(")")]
    CloseRound,
    #[token("{")]
    OpenCurly,
    #[token("}")]
    CloseCurly,
    #[token("[")]
    OpenSquare,
    #[token("]")]
    CloseSquare,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token(",")]
    Comma,
    #[token(".")]
    Dot,
    #[token("..")]
    Range,
    #[token("@")]
    At,
    #[token("?")]
    Question,
    #[token("=")]
    Assign,
    #[token("+")]
    Plus,
    #[token("++")]
    Concat,
    #[token("|+|")]
    SaturatingAdd,
    #[token("-")]
    Minus,
    #[token("|-|")]
    SaturatingSub,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("&")]
    And,
    #[token("&&")]
    AndAnd,
    #[token("&&&")]
    Mask,
    #[token("|")]
    Or,
    #[token("||")]
    OrOr,
    #[token("^")]
    Xor,
    #[token("~")]
    Tilde,
    #[token("!")]
    Not,
    #[token("==")]
    Equal,
    #[token("!=")]
    NotEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEqual,
    #[token("<<")]
    ShiftLeft,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEqual,
    /// The end of the source, after the last token.
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'s> {
    pub(super) token: Token,
    pub(super) text: &'s str,
    pub(super) at: At,
}

/// Splits a source into tokens. The last token is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Placed<'_>>> {
    if source.len() > MAX_SOURCE_BYTES {
        return fail(0, ErrorKind::SourceTooLarge);
    }
    let mut placed = Vec::new();
    for (token, span) in Token::lexer(source).spanned() {
        let at = span.start as At;
        let text = source.get(span.clone()).unwrap_or_default();
        match token {
            Ok(token) => placed.push(Placed { token, text, at }),
            Err(()) if text.starts_with('#') => return fail(at, ErrorKind::Directive),
            Err(()) => return fail(at, ErrorKind::Character(text.chars().next().unwrap_or('?'))),
        }
    }
    placed.push(Placed { token: Token::End, text: "", at: source.len() as At });
    Ok(placed)
}

/// The width and the signedness of a number with a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberType {
    pub(super) width: u32,
    pub(super) signed: bool,
}

/// A number: its value, which fits its type, and its type if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: u128,
    pub(super) ty: Option<NumberType>,
}

/// Reads a number. `text` begins with a digit.
pub(super) fn number(text: &str, at: At) -> Result<Number> {
    let read = || {
        let prefix = text.bytes().take_while(u8::is_ascii_digit).count();
        let (front, rest) = text.split_at(prefix);
        let (ty, digits) = match rest.as_bytes().first() {
            Some(sign @ (b'w' | b's')) => {
                let width = front.parse().ok().filter(|width| (1..=MAX_WIDTH).contains(width))?;
                (Some(NumberType { width, signed: *sign == b's' }), rest.get(1..)?)
            }
            _ => (None, text),
        };
        let lower = digits.get(..2).map(str::to_ascii_lowercase);
        let (radix, digits) = match lower.as_deref() {
            Some("0x") => (16, &digits[2..]),
            Some("0b") => (2, &digits[2..]),
            Some("0o") => (8, &digits[2..]),
            Some("0d") => (10, &digits[2..]),
            _ => (10, digits),
        };
        let digits = if digits.starts_with('_') { return None } else { digits.replace('_', "") };
        // `from_str_radix` would accept a sign, but the token never has one.
        let value = u128::from_str_radix(&digits, radix).ok()?;
        let bits = ty.map_or(MAX_INTEGER_BITS, |ty| ty.width);
        (value.checked_shr(bits).unwrap_or(0) == 0).then_some(Number { value, ty })
    };
    read().map_or_else(|| fail(at, ErrorKind::Number(text.to_owned())), Ok)
}
