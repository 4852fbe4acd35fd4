//! Output for people: tables, dumps, progress.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use tiercel::control::Progress;

use crate::exit::Exit;
use crate::stdout::written;

/// Prints a line.
pub(crate) fn print(text: impl AsRef<str>) {
    print_raw(format!("{}\n", text.as_ref()).as_bytes());
}

/// Prints JSON for programs.
pub(crate) fn print_json(value: &impl Serialize) {
    print(serde_json::to_string_pretty(value).expect("answers are plain data"));
}

/// Prints JSON for programs that read line by line.
pub(crate) fn print_json_line(value: &impl Serialize) {
    print(serde_json::to_string(value).expect("answers are plain data"));
}

/// Prints bytes as they are.
pub(crate) fn print_raw(bytes: &[u8]) {
    go_on_if(written(io::stdout().lock(), bytes));
}

/// Prints the help that was asked for, with colours on a terminal.
pub(crate) fn print_help(help: &clap::Error) {
    go_on_if(help.print().and_then(|()| io::stdout().flush()));
}

/// Ends the program if its output could not be printed: without an error if the reader has closed the pipe, as `head`
/// does, because it has what it wants; otherwise as a failure, because the output is lost.
fn go_on_if(printed: io::Result<()>) {
    match printed {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => std::process::exit(Exit::output(&error).tell().into()),
    }
}

/// A column of a table: its title, and a function that returns its cell of a row.
pub(crate) type Column<'c, T> = (&'c str, &'c dyn Fn(&T) -> String);

/// Returns a table of rows as text.
pub(crate) fn table<T>(rows: &[T], columns: &[Column<'_, T>]) -> String {
    let mut table = empty_table();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for row in rows {
        table.add_row(columns.iter().map(|(_, cell)| cell(row)));
    }
    table.trim_fmt()
}

fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// A list of names and values, one per line, in the order in which they are added. Nested fields have dotted
/// names.
#[derive(Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Adds a value.
    pub(crate) fn add(mut self, name: &str, value: &impl Serialize) -> Self {
        flatten(name, &json(value), &mut self.0);
        self
    }

    /// Adds those fields of a value that are not zero.
    pub(crate) fn add_counted(mut self, name: &str, value: &impl Serialize) -> Self {
        flatten(name, &counted(json(value)), &mut self.0);
        self
    }

    /// Lists all fields of a structure, except for the fields named in `but`.
    pub(crate) fn of(value: &impl Serialize, but: &[&str]) -> Self {
        Self::of_json(json(value), but)
    }

    /// Lists all fields of a structure that are not zero, except for the fields named in `but`.
    pub(crate) fn of_counted(value: &impl Serialize, but: &[&str]) -> Self {
        Self::of_json(counted(json(value)), but)
    }

    fn of_json(value: Value, but: &[&str]) -> Self {
        let mut rows = Vec::new();
        flatten("", &value, &mut rows);
        let left_out = |name: &str| {
            but.iter().any(|but| {
                name.strip_prefix(but).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        rows.retain(|(name, _)| !left_out(name));
        Self(rows)
    }

    /// Returns the list as text.
    pub(crate) fn show(self) -> String {
        let mut table = empty_table();
        for (name, cell) in self.0 {
            table.add_row([name, cell]);
        }
        table.trim_fmt()
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("answers are plain data")
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, rows);
            }
        }
        Value::Array(list) if list.iter().any(|element| element.is_object()) => {
            for (index, element) in list.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), element, rows);
            }
        }
        Value::Array(list) => {
            rows.push((path.to_owned(), list.iter().map(text).collect::<Vec<_>>().join(", ")))
        }
        other => rows.push((path.to_owned(), text(other))),
    }
}

/// Returns the text of a value for people.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Removes fields that are zero, and groups that have only such fields.
fn counted(mut value: Value) -> Value {
    retain_counted(&mut value);
    value
}

fn retain_counted(value: &mut Value) {
    let counts = |value: &mut Value| {
        let was_empty = is_empty(value);
        retain_counted(value);
        *value != 0 && (was_empty || !is_empty(value))
    };
    match value {
        Value::Object(group) => group.retain(|_, value| counts(value)),
        // Numbers in a list keep their index, so zeros stay.
        Value::Array(list) if list.iter().any(Value::is_object) => list.iter_mut().for_each(retain_counted),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(group) => group.is_empty(),
        Value::Array(list) => list.iter().all(|element| element.is_object() && is_empty(element)),
        _ => false,
    }
}

/// Returns the text of a value, or a dash if there is none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Returns a number of bytes with a suitable unit.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Returns the rate in gigabits per second of a number of bytes in a number of seconds.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    format!("{:.2} Gb/s", bytes as f64 * 8.0 / seconds / 1e9)
}

/// Returns a hex dump with sixteen bytes per line: offset, hexadecimal, text. `first` is the offset of the first
/// byte.
pub(crate) fn hex_dump(bytes: &[u8], first: u64) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(printable).collect();
        format!("{:08x}  {:<47}  {text}", first + 16 * index as u64, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// A progress bar. It is shown on a terminal only.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Makes a bar that counts bytes.
    pub(crate) fn new() -> Self {
        Self::shown("{bar:40} {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left")
    }

    /// Makes a bar that counts in another unit.
    pub(crate) fn counting(unit: &str) -> Self {
        Self::shown(&format!("{{bar:40}} {{human_pos}} of {{human_len}} {unit}  {{eta}} left"))
    }

    /// Makes a bar that is never shown.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    fn shown(template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn show(&self, progress: Progress) {
        if let Some(total) = progress.total {
            self.0.set_length(total);
        }
        self.0.set_position(progress.done);
    }

    /// Prints a line on stderr, above the bar if there is one.
    pub(crate) fn say(&self, text: &str) {
        self.0.suspend(|| eprintln!("{text}"));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(shown: &str) -> Vec<Vec<&str>> {
        shown.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn dumps_show_offset_bytes_and_text() {
        let dump = hex_dump(b"Tiercel\0transport", 0x10);
        let lines: Vec<_> = dump.lines().collect();
        assert_eq!(lines[0], "00000010  54 69 65 72 63 65 6c 00 74 72 61 6e 73 70 6f 72  Tiercel.transpor");
        assert_eq!(lines[1], "00000020  74                                               t");
        assert_eq!(hex_dump(b"", 0), "");
    }

    #[test]
    fn nested_values_get_dotted_names() {
        let value = json!({ "a": { "b": 1, "c": null }, "list": [1, 2], "rows": [{ "x": true }] });
        let shown = Fields::of(&value, &[]).show();
        assert_eq!(
            lines(&shown),
            [vec!["a.b", "1"], vec!["a.c", "-"], vec!["list", "1,", "2"], vec!["rows[0].x", "yes"]]
        );
        assert_eq!(
            lines(&Fields::of(&value, &["a.b", "rows", "li"]).show()),
            [vec!["a.c", "-"], vec!["list", "1,", "2"]]
        );
    }

    #[test]
    fn fields_keep_the_order_in_which_they_are_added() {
        let shown = Fields::default()
            .add("z", &1)
            .add("a", &json!({ "x": 0 }))
            .add_counted("c", &json!({ "x": 0, "y": 2 }))
            .show();
        assert_eq!(lines(&shown), [["z", "1"], ["a.x", "0"], ["c.y", "2"]]);
    }

    #[test]
    fn tables_have_a_title_line() {
        let shown = table(&[5, 6], &[("CID", &|row| row.to_string())]);
        let lines: Vec<_> = shown.lines().map(str::trim).collect();
        assert_eq!(lines, ["CID", "5", "6"]);
    }

    #[test]
    fn rates_need_time() {
        assert_eq!(rate(1_250_000_000, 1.0), "10.00 Gb/s");
        assert_eq!(rate(1, 0.0), "-");
    }

    #[test]
    fn zeros_are_left_out_wherever_they_stand() {
        let value = json!({
            "pools": { "cells": 2048, "cells_in_use": 0 },
            "rate_update": { "state": "off", "queues": [{ "events": 0 }, { "events": 0 }], "verdicts": { "a": 0 } },
            "events": [], "limits": [0, 768], "cpu": null, "yes": false,
        });
        let kept = json!({
            "pools": { "cells": 2048 }, "rate_update": { "state": "off" },
            "events": [], "limits": [0, 768], "cpu": null, "yes": false,
        });
        assert_eq!(counted(value), kept);
    }
}
