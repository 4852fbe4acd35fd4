//! How the sources cite `docs/spec`. CONTRIBUTING.md describes the same grammar:
//!
//! | citation | what it means |
//! | --- | --- |
//! | `F-<section>-<n>` | one requirement |
//! | `F-<section>-<n>..<m>` | the requirements from `n` to `m`, both included |
//! | `F-<section>` | all requirements of a section and of those below it |
//! | `D-<nn>` | one decision; the number has two digits |
//! | `D-<nn>..D-<mm>` | the decisions from `nn` to `mm`, both included |

use std::fmt;

/// One citation, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Citation {
    /// Requirements of one section, first to last; the two are the same for one requirement.
    Requirements { section: String, first: u32, last: u32 },
    /// All of a section.
    Section(String),
    /// Decisions, first to last.
    Decisions { first: u32, last: u32 },
    /// Text that begins like a citation but is none.
    Malformed(String),
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requirements { section, first, last } if first == last => write!(f, "F-{section}-{first}"),
            Self::Requirements { section, first, last } => write!(f, "F-{section}-{first}..{last}"),
            Self::Section(section) => write!(f, "F-{section}"),
            Self::Decisions { first, last } if first == last => write!(f, "D-{first:02}"),
            Self::Decisions { first, last } => write!(f, "D-{first:02}..D-{last:02}"),
            Self::Malformed(text) => f.write_str(text),
        }
    }
}

/// Returns every citation in a text with its line, counted from 1.
pub(super) fn in_text(text: &str) -> impl Iterator<Item = (usize, Citation)> {
    text.lines()
        .enumerate()
        .flat_map(|(index, line)| in_line(line).into_iter().map(move |citation| (index + 1, citation)))
}

/// Returns every citation in a line, from left to right.
pub(super) fn in_line(line: &str) -> Vec<Citation> {
    let mut found = vec![];
    let mut rest = line;
    let mut before = None;
    while let Some(character) = rest.chars().next() {
        let joined = before.is_some_and(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
        let mut cursor = Cursor(rest);
        let citation = match character {
            _ if joined => None,
            'F' => cursor.requirement(),
            'D' => cursor.decision(),
            _ => None,
        };
        let after = if citation.is_some() { cursor.0 } else { &rest[character.len_utf8()..] };
        found.extend(citation);
        before = rest[..rest.len() - after.len()].chars().next_back();
        rest = after;
    }
    found
}

/// The rest of a line.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        let Some(rest) = self.0.strip_prefix(prefix) else { return false };
        self.0 = rest;
        true
    }

    /// Takes the digits that follow; returns an empty text if there are none.
    fn digits(&mut self) -> String {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits.to_owned()
    }

    /// Takes `prefix` and a number after it, and returns the number. Takes nothing if they do not follow.
    fn number_after(&mut self, prefix: &str) -> Option<String> {
        let rest = self.0.strip_prefix(prefix)?;
        rest.starts_with(|c: char| c.is_ascii_digit()).then(|| {
            self.0 = rest;
            self.digits()
        })
    }

    fn requirement(&mut self) -> Option<Citation> {
        self.take("F");
        let mut section = self.number_after("-")?;
        while let Some(part) = self.number_after(".") {
            section = format!("{section}.{part}");
        }
        let Some(first) = self.number_after("-") else {
            return Some(Citation::Section(section));
        };
        let last = self.number_after("..").unwrap_or_else(|| first.clone());
        let written = format!("F-{section}-{first}..{last}");
        Some(match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Citation::Requirements { section, first, last },
            _ => Citation::Malformed(written),
        })
    }

    fn decision(&mut self) -> Option<Citation> {
        self.take("D");
        let first = self.number_after("-")?;
        let last = self.number_after("..D-").unwrap_or_else(|| first.clone());
        Some(match (first.parse(), last.parse()) {
            (Ok(from), Ok(to)) if from <= to && first.len() == 2 && last.len() == 2 => {
                Citation::Decisions { first: from, last: to }
            }
            _ => Citation::Malformed(if first == last {
                format!("D-{first}")
            } else {
                format!("D-{first}..D-{last}")
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(section: &str, first: u32, last: u32) -> Citation {
        Citation::Requirements { section: section.to_owned(), first, last }
    }

    fn decision(first: u32, last: u32) -> Citation {
        Citation::Decisions { first, last }
    }

    #[test]
    fn reads_ids_ranges_and_sections() {
        let line = "/// The gate (F-9.1.2-1..3, D-26): see F-9-6, F-9.1.4, D-19..D-21's and F-11-4.";
        let expected = [
            requirement("9.1.2", 1, 3),
            decision(26, 26),
            requirement("9", 6, 6),
            Citation::Section("9.1.4".to_owned()),
            decision(19, 21),
            requirement("11", 4, 4),
        ];
        assert_eq!(in_line(line), expected);
    }

    #[test]
    fn the_end_of_a_sentence_belongs_to_no_id() {
        assert_eq!(
            in_line("as F-9.1.5. Then D-46..."),
            [Citation::Section("9.1.5".into()), decision(46, 46)]
        );
    }

    #[test]
    fn what_is_part_of_another_word_is_no_citation() {
        for text in ["0xF-1", "PDF-2", "RFC-D-12", "CARD-10", "F-…", "F-<section>", "D-nn", "D-{number}"] {
            assert_eq!(in_line(text), [], "{text}");
        }
    }

    #[test]
    fn a_range_that_runs_backwards_or_a_decision_of_one_digit_is_malformed() {
        for text in ["F-9.2.1-4..2", "D-7", "D-123", "D-30..D-20"] {
            assert_eq!(in_line(text), [Citation::Malformed(text.to_owned())]);
        }
    }

    #[test]
    fn writes_a_citation_as_it_is_read() {
        for text in ["F-9.1.2-1..3", "F-9.1.2-1", "F-9.1.2", "D-08", "D-19..D-21"] {
            assert_eq!(in_line(text)[0].to_string(), text);
        }
    }
}
