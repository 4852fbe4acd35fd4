//! Reads a table of a TOML file field by field, and collects all complaints, each with its line.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tiercel::backend::is_host;
use tiercel::quantity::{format_duration, format_size, parse_duration, parse_size};
use tiercel::{Mac, ScopedAddress};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// Longest name of a node, bytes. The path of its socket must fit 108 bytes.
pub(super) const LONGEST_NAME: usize = 64;

/// One mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// Line, from 1.
    pub line: usize,
    /// Full name of the field, such as `connection[2].tx.rsn`. Empty for a syntax error.
    pub field: String,
    /// The text: what is wrong, what is allowed and what to do.
    pub text: String,
}

impl Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return write!(f, "line {}: {}", self.line, self.text);
        }
        write!(f, "line {}: {}: {}", self.line, self.field, self.text)
    }
}

/// Complaints about one file.
pub(super) struct Complaints<'s> {
    source: &'s str,
    list: Vec<Complaint>,
}

impl<'s> Complaints<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, list: Vec::new() }
    }

    /// Adds a complaint about byte `at` of the file.
    pub(super) fn add(&mut self, at: usize, field: impl Into<String>, text: impl Into<String>) {
        let line = 1 + self.source.bytes().take(at).filter(|byte| *byte == b'\n').count();
        self.list.push(Complaint { line, field: field.into(), text: text.into() });
    }

    /// Returns all complaints, sorted by line.
    pub(super) fn into_sorted(mut self) -> Vec<Complaint> {
        self.list.sort_by_key(|complaint| complaint.line);
        self.list
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

/// A table that is read field by field. [`Reader::finish`] complains about the fields that were not read.
pub(super) struct Reader<'c, 's> {
    table: &'s DeTable<'s>,
    path: String,
    span: Range<usize>,
    known: Vec<&'static str>,
    complaints: &'c mut Complaints<'s>,
}

impl<'c, 's> Reader<'c, 's> {
    /// Starts to read a table. `path` is its name, empty for the file itself.
    pub(super) fn new(
        table: &'s DeTable<'s>,
        path: impl Into<String>,
        span: Range<usize>,
        complaints: &'c mut Complaints<'s>,
    ) -> Self {
        Self { table, path: path.into(), span, known: Vec::new(), complaints }
    }

    fn full_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn find(&mut self, name: &'static str) -> Option<&'s Spanned<DeValue<'s>>> {
        self.known.push(name);
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Complains about field `name`, at the line of the field, or at the table's line if the field is absent.
    pub(super) fn complain(&mut self, name: &str, text: impl Into<String>) {
        let place = self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(key, _)| key.span().start);
        let field = self.full_name(name);
        self.complaints.add(place.unwrap_or(self.span.start), field, text);
    }

    /// Returns `value`. Complains that the field is missing if the table does not have it.
    pub(super) fn require<T>(&mut self, name: &'static str, value: Option<T>, example: &str) -> Option<T> {
        if value.is_none() && !self.table.iter().any(|(key, _)| key.get_ref() == name) {
            self.complain(name, format!("missing: add a line such as `{name} = {example}`"));
        }
        value
    }

    /// Reads a value with `read`, which returns the text of a complaint if the value is wrong.
    fn value<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'s DeValue<'s>) -> Result<T, String>,
    ) -> Option<T> {
        match read(self.find(name)?.get_ref()) {
            Ok(value) => Some(value),
            Err(text) => {
                self.complain(name, text);
                None
            }
        }
    }

    /// Reads a string.
    pub(super) fn string(&mut self, name: &'static str) -> Option<String> {
        self.value(name, |value| text(value, "a string in quotes").map(str::to_owned))
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.value(name, |value| {
            value.as_bool().ok_or_else(|| format!("is {}; allowed: true or false", kind(value)))
        })
    }

    /// Reads a whole number in `low..=high`, in any notation of TOML (decimal, `0x`, `0o`, `0b`).
    pub(super) fn integer(&mut self, name: &'static str, low: u64, high: u64) -> Option<u64> {
        self.value(name, |value| {
            let allowed = format!("allowed: a whole number from {low} to {high}");
            let Some(integer) = value.as_integer() else {
                return Err(format!("is {}; {allowed}", kind(value)));
            };
            u64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| format!("{integer} is out of range; {allowed}"))
        })
    }

    /// Reads a whole number or a decimal fraction in `low..=high`.
    pub(super) fn number(&mut self, name: &'static str, low: f64, high: f64) -> Option<f64> {
        self.value(name, |value| {
            let allowed = format!("allowed: a number from {low} to {high}");
            let written = match value {
                DeValue::Integer(integer) => decimal(integer)?,
                DeValue::Float(float) => float.as_str().to_owned(),
                _ => return Err(format!("is {}; {allowed}", kind(value))),
            };
            written
                .parse::<f64>()
                .ok()
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| format!("{written} is out of range; {allowed}"))
        })
    }

    /// Reads a duration in `low..=high`.
    pub(super) fn duration(&mut self, name: &'static str, low: Duration, high: Duration) -> Option<Duration> {
        self.value(name, |value| {
            let allowed = format!(
                "allowed: a duration from \"{}\" to \"{}\"",
                format_duration(low),
                format_duration(high)
            );
            let written =
                text(value, "a string with a unit").map_err(|error| format!("{error}; {allowed}"))?;
            let duration = parse_duration(written)?;
            if (low..=high).contains(&duration) {
                return Ok(duration);
            }
            Err(format!("\"{written}\" is out of range; {allowed}"))
        })
    }

    /// Reads a size in `low..=high` bytes: a whole number of bytes, or a string with a unit.
    pub(super) fn size(&mut self, name: &'static str, low: u64, high: u64) -> Option<u64> {
        self.value(name, |value| {
            let wanted = format!("a size from \"{}\" to \"{}\"", format_size(low), format_size(high));
            let written = match value {
                DeValue::Integer(integer) => decimal(integer)?,
                _ => text(value, &wanted)?.to_owned(),
            };
            let size = parse_size(&written)?;
            if (low..=high).contains(&size) {
                return Ok(size);
            }
            Err(format!("\"{written}\" is out of range; allowed: {wanted}"))
        })
    }

    /// Reads the address of one host, IPv4 or IPv6. A link-local one may have the interface as its scope.
    pub(super) fn address(&mut self, name: &'static str, interface: Option<&str>) -> Option<IpAddr> {
        self.value(name, |value| {
            let written = text(value, "an address in quotes")?;
            let wrong = || {
                format!("\"{written}\" is not an IP address: write one such as \"10.7.0.1\" or \"fd00::1\", without prefix length")
            };
            let scoped: ScopedAddress = match written.parse() {
                Err(reason) if written.contains('%') => return Err(reason),
                scoped => scoped.map_err(|_| wrong())?,
            };
            let address = match (&scoped.scope, interface) {
                (Some(_), Some(interface)) => scoped.on(interface)?,
                (Some(scope), None) => return Err(format!("leave out %{scope}: an address here has no scope")),
                (None, _) => scoped.address,
            };
            if address.is_unspecified() || address.is_multicast() {
                return Err(format!("{address} is not the address of one host: write the address of an interface"));
            }
            Ok(address)
        })
    }

    /// Reads the MAC address of one host.
    pub(super) fn mac(&mut self, name: &'static str) -> Option<Mac> {
        self.value(name, |value| {
            let mac: Mac =
                text(value, "a MAC address in quotes")?.parse().map_err(|error| format!("{error}"))?;
            if is_host(mac) {
                return Ok(mac);
            }
            Err(format!(
                "\"{mac}\" is not the address of one host: use the one that `ip link` shows at the peer"
            ))
        })
    }

    /// Reads a string, a number or a truth value as text, without quotes.
    pub(super) fn written(&mut self, name: &'static str) -> Option<String> {
        self.value(name, |value| match value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(integer) => decimal(integer),
            DeValue::Float(float) => Ok(float.as_str().to_owned()),
            DeValue::Boolean(truth) => Ok(truth.to_string()),
            other => Err(format!("is {}; allowed: a string, a number, true or false", kind(other))),
        })
    }

    /// Reads an array of `N` whole numbers in `low..=high`.
    pub(super) fn integers<const N: usize>(
        &mut self,
        name: &'static str,
        low: u64,
        high: u64,
    ) -> Option<[u64; N]> {
        self.value(name, |value| {
            let allowed = || format!("allowed: an array of {N} whole numbers from {low} to {high}");
            let array = value.as_array().ok_or_else(|| format!("is {}; {}", kind(value), allowed()))?;
            let number = |element: &Spanned<DeValue<'_>>| {
                let integer = element.get_ref().as_integer()?;
                let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
                (low..=high).contains(&number).then_some(number)
            };
            let numbers: Option<Vec<u64>> = array.iter().map(number).collect();
            numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(allowed)
        })
    }

    /// Reads a table of tables whose names the user chooses (`[name.ANY]`), each with `read`.
    pub(super) fn named<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Reader<'_, 's>, &str) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Some(value) = self.find(name) else { return Vec::new() };
        let DeValue::Table(entries) = value.get_ref() else {
            self.complain(name, format!("is {}; write each as its own [{name}.NAME]", kind(value.get_ref())));
            return Vec::new();
        };
        let mut all = Vec::new();
        for (key, entry) in entries {
            let key = key.get_ref();
            let DeValue::Table(table) = entry.get_ref() else {
                let text = format!("holds {}; write each as its own [{name}.NAME]", kind(entry.get_ref()));
                self.complain(name, text);
                continue;
            };
            let path = format!("{name}.{key}");
            let value = self.nested(&path, table, entry.span(), |table| read(table, key));
            all.extend(value.map(|value| (key.to_string(), value)));
        }
        all
    }

    /// Reads a table inside this one with `read`.
    pub(super) fn table<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'_, 's>) -> Option<T>,
    ) -> Option<T> {
        let value = self.find(name)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(name, format!("is {}; allowed: a table", kind(value.get_ref())));
            return None;
        };
        self.nested(name, table, value.span(), read)
    }

    /// Reads an array of tables (`[[name]]`), each with `read`. A missing array counts as empty.
    pub(super) fn tables<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Reader<'_, 's>) -> Option<T>,
    ) -> Vec<T> {
        let Some(value) = self.find(name) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.complain(name, format!("is {}; write each as its own [[{name}]]", kind(value.get_ref())));
            return Vec::new();
        };
        let mut all = Vec::new();
        for (index, element) in array.iter().enumerate() {
            match element.get_ref() {
                DeValue::Table(table) => {
                    let path = format!("{name}[{}]", index + 1);
                    all.extend(self.nested(&path, table, element.span(), &mut read));
                }
                other => {
                    self.complain(name, format!("holds {}; write each as its own [[{name}]]", kind(other)))
                }
            }
        }
        all
    }

    fn nested<T>(
        &mut self,
        name: &str,
        table: &'s DeTable<'s>,
        span: Range<usize>,
        read: impl FnOnce(&mut Reader<'_, 's>) -> Option<T>,
    ) -> Option<T> {
        let path = self.full_name(name);
        let mut reader = Reader::new(table, path, span, self.complaints);
        let value = read(&mut reader);
        reader.finish();
        value
    }

    /// Complains about every field that was not read.
    pub(super) fn finish(self) {
        for (key, _) in self.table {
            let name = key.get_ref();
            if self.known.iter().any(|known| known == name) {
                continue;
            }
            let field = self.full_name(name);
            let text = format!("unknown field; allowed here: {}", self.known.join(", "));
            self.complaints.add(key.span().start, field, text);
        }
    }
}

/// Returns whether `name` can be the name of a node. The name is also a part of a file name.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

fn text<'s>(value: &'s DeValue<'s>, wanted: &str) -> Result<&'s str, String> {
    value.as_str().ok_or_else(|| format!("is {}; allowed: {wanted}", kind(value)))
}

/// Returns a whole number in decimal digits, whatever its notation.
fn decimal(integer: &DeInteger<'_>) -> Result<String, String> {
    match integer.radix() {
        10 => Ok(integer.as_str().to_owned()),
        radix => u64::from_str_radix(integer.as_str(), radix)
            .map(|number| number.to_string())
            .map_err(|_| format!("{integer} does not fit 64 bits")),
    }
}

/// Returns the name of a value's TOML type, with its article.
fn kind(value: &DeValue<'_>) -> String {
    let name = value.type_str();
    let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {name}")
}
