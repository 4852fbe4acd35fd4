//! What people read: tables, dumps, progress.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use transport_user::control::Progress;

use crate::exit::Exit;

/// Prints a line; a reader that has left, such as `head`, ends the program without noise.
pub(crate) fn print(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", text.as_ref()).is_err() {
        std::process::exit(0);
    }
}

/// Prints JSON for programs.
pub(crate) fn print_json(value: &Value) {
    print(format!("{value:#}"));
}

/// Prints bytes as they are.
pub(crate) fn print_raw(bytes: &[u8]) -> Result<(), Exit> {
    std::io::stdout()
        .lock()
        .write_all(bytes)
        .map_err(|error| Exit::file(format!("cannot write to stdout: {error}")))
}

/// A column of a table: its title, and how to take its cell out of a row.
pub(crate) type Column<'c> = (&'c str, &'c dyn Fn(&Value) -> String);

/// A table of rows.
pub(crate) fn table(rows: &[Value], columns: &[Column<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|(title, _)| *title));
    for row in rows {
        table.add_row(columns.iter().map(|(_, cell)| cell(row)));
    }
    table.trim_fmt()
}

/// Names and values below one another; nested fields get dotted names.
pub(crate) fn fields(value: &Value) -> String {
    fields_of(std::slice::from_ref(value))
}

/// The fields of several values, one after the other.
pub(crate) fn fields_of(values: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    let mut rows = Vec::new();
    values.iter().for_each(|value| flatten("", value, &mut rows));
    for (name, cell) in rows {
        table.add_row([name, cell]);
    }
    table.trim_fmt()
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

/// A value as people read it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Bytes with the unit in which they read best.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Bytes in seconds as gigabits per second.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    format!("{:.2} Gb/s", bytes as f64 * 8.0 / seconds / 1e9)
}

/// Sixteen bytes a line: offset, hexadecimal, text.
pub(crate) fn hex_dump(bytes: &[u8], first: u64) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(printable).collect();
        format!("{:08x}  {:<47}  {text}", first + 16 * index as u64, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Bytes of the hexadecimal text a node answered with.
pub(crate) fn bytes_of(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap_or_default().as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    digits.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A progress bar on a terminal, nothing in a pipe.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Of bytes.
    pub(crate) fn new() -> Self {
        Self::shown("{bar:40} {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left")
    }

    /// Of anything else.
    pub(crate) fn counting(unit: &str) -> Self {
        Self::shown(&format!("{{bar:40}} {{human_pos}} of {{human_len}} {unit}  {{eta}} left"))
    }

    fn shown(template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn show(&self, progress: Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
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
        let shown = fields(&value);
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [vec!["a.b", "1"], vec!["a.c", "-"], vec!["list", "1,", "2"], vec!["rows[0].x", "yes"]]
        );
    }

    #[test]
    fn tables_have_a_title_line() {
        let rows = [json!({ "cid": 5 }), json!({ "cid": 6 })];
        let shown = table(&rows, &[("CID", &|row| text(&row["cid"]))]);
        let lines: Vec<_> = shown.lines().map(str::trim).collect();
        assert_eq!(lines, ["CID", "5", "6"]);
    }

    #[test]
    fn hexadecimal_answers_become_bytes() {
        assert_eq!(bytes_of(&json!("00ffa5")), [0, 0xff, 0xa5]);
        assert!(bytes_of(&Value::Null).is_empty());
    }

    #[test]
    fn rates_need_time() {
        assert_eq!(rate(1_250_000_000, 1.0), "10.00 Gb/s");
        assert_eq!(rate(1, 0.0), "-");
    }
}
