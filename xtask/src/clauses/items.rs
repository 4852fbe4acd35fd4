//! Finds the item of a Rust source to which a line belongs. It relies on the layout of `cargo fmt`, which the
//! lints enforce: an item ends with a closing brace that has the same indentation as its first line.

/// The keywords that open an item, after visibility and qualifiers.
const KEYWORDS: [&str; 11] =
    ["fn", "struct", "enum", "union", "trait", "impl", "mod", "const", "static", "type", "macro_rules!"];

/// The words that may precede the keyword.
const QUALIFIERS: [&str; 6] = ["pub", "async", "unsafe", "extern", "default", "const"];

/// The item that a line belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    /// Its path inside the file, such as `TransmitWindow::gate`; empty for the file itself.
    pub(super) name: String,
    /// Whether it is a test or is in a module of tests.
    pub(super) is_test: bool,
}

struct Open {
    indent: usize,
    /// `None` for an item that gives no name to the items inside, such as a module.
    name: Option<String>,
    is_test: bool,
}

/// Returns, for each line of `text`, the item to which it belongs. Documentation and attributes belong to the
/// item that follows.
pub(super) fn of_lines(text: &str) -> Vec<Item> {
    let lines: Vec<&str> = text.lines().collect();
    let mut open: Vec<Open> = vec![];
    let mut items = vec![];
    let mut waiting = 0; // comments and attributes whose item has not been read yet
    let mut test_is_announced = false;
    for line in &lines {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let is_inner = content.starts_with("//!") || content.starts_with("#!");
        if !is_inner && (content.starts_with("//") || content.starts_with("#[")) {
            waiting += 1;
            test_is_announced |= ["#[test]", "#[cfg(test)]"].contains(&content);
            continue;
        }
        // A comment that ends before a blank line belongs to the item around it.
        if content.is_empty() {
            items.extend(std::iter::repeat_n(current(&open), waiting));
            waiting = 0;
        }
        if content.starts_with('}') {
            items.extend(std::iter::repeat_n(current(&open), waiting));
            waiting = 0;
            items.push(current(&open));
            open.retain(|item| item.indent < indent);
            continue;
        }
        if let Some((keyword, name)) = opening(content) {
            open.retain(|item| item.indent < indent);
            let is_test = test_is_announced || open.last().is_some_and(|item| item.is_test);
            let name = (keyword != "mod").then_some(name);
            open.push(Open { indent, name, is_test });
        }
        items.extend(std::iter::repeat_n(current(&open), waiting + 1));
        // An item of one line ends with that line.
        if content.ends_with(';') || (content.ends_with('}') && opening(content).is_some()) {
            open.retain(|item| item.indent < indent);
        }
        waiting = 0;
        test_is_announced = false;
    }
    items.extend(std::iter::repeat_n(current(&open), waiting));
    items
}

/// Returns the innermost open item. A function inside a function has only the name of the outer function.
fn current(open: &[Open]) -> Item {
    let names: Vec<&str> = open.iter().filter_map(|item| item.name.as_deref()).take(2).collect();
    Item { name: names.join("::"), is_test: open.last().is_some_and(|item| item.is_test) }
}

/// Returns keyword and name of the item that a line opens.
fn opening(line: &str) -> Option<(&'static str, String)> {
    let mut rest = line;
    loop {
        let word = rest.split([' ', '<', '(']).next()?;
        if let Some(keyword) = KEYWORDS.into_iter().find(|it| *it == word)
            && !(word == "const"
                && ["fn", "unsafe"].contains(&rest[word.len()..].trim_start().split(' ').next()?))
        {
            let after = rest[word.len()..].trim_start();
            let name = if keyword == "impl" { implemented(&rest[word.len()..]) } else { identifier(after) };
            return (!name.is_empty() && name != "_").then_some((keyword, name));
        }
        if !QUALIFIERS.contains(&word) {
            return None;
        }
        rest = &rest[word.len()..];
        if let Some(scope) = rest.strip_prefix('(') {
            rest = scope.split_once(')')?.1; // pub(crate)
        }
        rest = rest.trim_start();
        if let Some(language) = rest.strip_prefix('"') {
            rest = language.split_once('"')?.1.trim_start(); // extern "C"
        }
    }
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns the type that an `impl` is for, without its parameters.
fn implemented(rest: &str) -> String {
    let mut rest = rest;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        });
        rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
    }
    let rest = rest.trim();
    let subject = rest.split_once(" for ").map_or(rest, |(_, subject)| subject).trim_start_matches('&');
    let path: String = subject.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
    path.rsplit("::").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"//! The transmit side of a window.

use core::fmt;

/// Bits of a table.
const SLOTS: usize = 128;

/// What one window knows.
#[derive(Clone)]
pub(crate) struct Window {
    /// The oldest.
    base: u32,
}

impl<T: Clone> fmt::Display for Window<T> {
    /// Shows it.
    fn fmt(&self) {
        // why
        show();
    }

    pub const fn gate(&self) -> bool {
        true
    }
}

// A remark about the file.

#[cfg(test)]
mod tests {
    /// A window that is full.
    #[test]
    fn gate_is_shut() {
        let x = 1;
    }

    fn help() {}
}
"#;

    /// The item of the line that contains `text`.
    fn item_of(text: &str) -> (String, bool) {
        let line = SOURCE.lines().position(|line| line.contains(text)).unwrap();
        let item = of_lines(SOURCE)[line].clone();
        (item.name, item.is_test)
    }

    #[test]
    fn every_line_has_an_item() {
        assert_eq!(of_lines(SOURCE).len(), SOURCE.lines().count());
    }

    #[test]
    fn documentation_belongs_to_what_follows_it() {
        assert_eq!(item_of("Bits of a table"), ("SLOTS".into(), false));
        assert_eq!(item_of("What one window knows"), ("Window".into(), false));
        assert_eq!(item_of("The oldest"), ("Window".into(), false));
        assert_eq!(item_of("Shows it"), ("Window::fmt".into(), false));
    }

    #[test]
    fn a_remark_belongs_to_what_is_around_it() {
        assert_eq!(item_of("// why"), ("Window::fmt".into(), false));
        assert_eq!(item_of("A remark about the file"), (String::new(), false));
        assert_eq!(item_of("The transmit side"), (String::new(), false));
        assert_eq!(item_of("true"), ("Window::gate".into(), false));
    }

    #[test]
    fn a_module_of_tests_makes_tests_of_all_in_it() {
        assert_eq!(item_of("A window that is full"), ("gate_is_shut".into(), true));
        assert_eq!(item_of("let x"), ("gate_is_shut".into(), true));
        assert_eq!(item_of("fn help"), ("help".into(), true));
    }
}
