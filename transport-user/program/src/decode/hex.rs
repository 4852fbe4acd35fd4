//! Parses hexadecimal text.

/// Why a text cannot be parsed as hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text has no digits.
    #[error("there are no hexadecimal digits in the input")]
    Empty,
    /// A character is neither a digit nor a separator.
    #[error("line {line}, column {column}: {found:?} is not a hexadecimal digit")]
    NotADigit {
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// The character.
        found: char,
    },
    /// A group has an odd number of digits.
    #[error(
        "line {line}, column {column}: {group:?} has an odd number of digits; a byte has two digits, so one is missing or one \
         is too many"
    )]
    OddDigits {
        /// Line, from 1.
        line: usize,
        /// First column of the group, from 1, in characters.
        column: usize,
        /// The group.
        group: String,
    },
}

/// Parses bytes from hexadecimal digits in groups of any even length.
///
/// Groups may be separated by white space, newlines, colons, dashes or commas, and may begin with `0x`. A column
/// of offsets as in the output of tcpdump (`0x0010:` at the start of a line) is skipped.
///
/// # Errors
/// [`HexError`], with line and column.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    for (index, line) in text.lines().enumerate() {
        parse_line(line, index + 1, &mut bytes)?;
    }
    if bytes.is_empty() { Err(HexError::Empty) } else { Ok(bytes) }
}

fn parse_line(text: &str, line: usize, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    let characters: Vec<char> = text.chars().collect();
    let is_separator = |c: &char| c.is_whitespace() || matches!(c, ':' | '-' | ',');
    let mut at = offset_column(&characters);
    while at < characters.len() {
        if is_separator(&characters[at]) {
            at += 1;
            continue;
        }
        let end = characters[at..].iter().position(is_separator).map_or(characters.len(), |n| at + n);
        let group = &characters[at..end];
        let digits = match group {
            ['0', 'x' | 'X', rest @ ..] => rest,
            _ => group,
        };
        let first_digit = end - digits.len();
        let mut values = Vec::with_capacity(digits.len());
        for (i, c) in digits.iter().enumerate() {
            let column = first_digit + i + 1;
            values.push(c.to_digit(16).ok_or(HexError::NotADigit { line, column, found: *c })?);
        }
        if values.len() % 2 != 0 || values.is_empty() {
            return Err(HexError::OddDigits { line, column: at + 1, group: group.iter().collect() });
        }
        bytes.extend(values.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8));
        at = end;
    }
    Ok(())
}

/// Returns the number of characters of an offset column: white space, `0x`, digits and a colon.
fn offset_column(characters: &[char]) -> usize {
    let start = characters.iter().take_while(|c| c.is_whitespace()).count();
    let Some(['0', 'x', rest @ ..]) = characters.get(start..) else { return 0 };
    let digits = rest.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    match rest.get(digits..) {
        Some([':', after, ..]) if digits > 0 && after.is_whitespace() => start + 2 + digits + 1,
        _ => 0,
    }
}
