//! Checks that pages and comments do not use the words of the list in `docs/words.md` that a pattern can find.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::clauses::sources::{self, Source};

/// The page with the list. It is not checked itself.
const LIST: &str = "docs/words.md";
/// The heading of its table that is checked.
const SECTION: &str = "\n## Found by the lint\n";
/// The specification, with words of its own.
const SPECIFICATION: &str = "docs/spec";
/// In the first lines of a page that a command writes.
const GENERATED: &str = "<!-- Written by `cargo xtask";

/// Fails if a page or a comment uses a word of the list. The error names each place.
///
/// # Errors
/// Also if a file cannot be read, or if the list is empty.
pub(crate) fn check(root: &Path) -> Result<()> {
    let sources = sources::read(root)?;
    let list = sources.iter().find(|source| source.path == Path::new(LIST));
    let list = list.map(|source| phrases(&source.text)).unwrap_or_default();
    ensure!(!list.is_empty(), "{LIST} has no table below \"{}\"", SECTION.trim());
    let found: Vec<String> = sources.iter().flat_map(|source| complaints(source, &list)).collect();
    if !found.is_empty() {
        bail!("{} places use words of {LIST}; it has plain ones:\n  {}", found.len(), found.join("\n  "));
    }
    Ok(())
}

/// Returns the phrases between backticks in the first column of the table.
fn phrases(page: &str) -> Vec<String> {
    let Some((_, section)) = page.split_once(SECTION) else { return vec![] };
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap_or_default());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_lowercase).collect()
}

/// Returns a message for each line of a source that uses a phrase.
fn complaints(source: &Source, phrases: &[String]) -> Vec<String> {
    let path = &source.path;
    let generated = source.text.lines().take(5).any(|line| line.starts_with(GENERATED));
    if generated || path == Path::new(LIST) || path.starts_with(SPECIFICATION) {
        return vec![];
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let lines = source.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let prose = prose(&extension, line)?.to_lowercase();
            let phrase = phrases.iter().find(|phrase| contains(&prose, phrase))?;
            Some(format!("{}:{}: {phrase}", path.display(), index + 1))
        })
        .collect()
}

/// Returns what people read in a line: all of a page's, else the comment.
fn prose<'a>(extension: &str, line: &'a str) -> Option<&'a str> {
    let comment = match extension {
        "md" => return Some(line),
        "py" | "sh" | "toml" => "#",
        "lua" => "--",
        _ => "//",
    };
    line.split_once(comment).map(|(_, text)| text)
}

/// Returns whether a text has a phrase between borders of words.
fn contains(text: &str, phrase: &str) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        !in_word(text[..at].chars().next_back()) && !in_word(text[at + phrase.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Words\n\n## Found by the lint\n\n| not | but |\n|---|---|\n| `the begin` | the start |\n\
                        | `a look`, `anew` | a check |\n\n## Others\n\n| `copy` | |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        complaints(&Source::new(path.into(), text.to_owned()), &phrases(PAGE))
    }

    #[test]
    fn the_first_table_is_the_list() {
        assert_eq!(phrases(PAGE), ["the begin", "a look", "anew"]);
    }

    #[test]
    fn planted_words_are_named_with_their_places() {
        assert_eq!(found("docs/page.md", "plain\nFrom The begin, anew.\n"), ["docs/page.md:2: the begin"]);
        // Put together here, so that this file has no such comment itself.
        let slashes = "/".repeat(2);
        assert_eq!(found("a/b.rs", &format!("fn f() {{}} {slashes} takes a look\n")), ["a/b.rs:1: a look"]);
        assert_eq!(found("a/b.lua", "x = 1 -- read anew\n"), ["a/b.lua:1: anew"]);
    }

    #[test]
    fn other_words_code_and_generated_pages_pass() {
        assert!(found("docs/page.md", "the beginning, a looking glass, a copy\n").is_empty());
        assert!(found("a/b.rs", "fn anew() -> String { \"anew\".to_owned() }\n").is_empty());
        assert!(found("docs/spec/chapter-9.md", "the begin\n").is_empty());
        assert!(found("docs/words.md", "the begin\n").is_empty());
        assert!(found("p.md", "# P\n\n<!-- Written by `cargo xtask p`. Do not edit. -->\nanew\n").is_empty());
    }

    #[test]
    fn the_list_of_the_project_can_be_read() {
        let page = std::fs::read_to_string(crate::shell::workspace().join(LIST)).unwrap();
        assert!(phrases(&page).contains(&"the begin".to_owned()));
    }
}
