//! The programs that execute the dissector: tshark, and the interpreters of Lua with a part of Wireshark's API.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::capture::{self, Frame};

/// Interpreters of Lua, each with a version that Wireshark has.
pub(crate) const LUAS: [&str; 2] = ["lua5.2", "lua5.4"];

/// A field of a packet in tshark's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Abbreviation.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: String,
    /// The line in the tree.
    pub(crate) line: String,
}

/// Returns the dissector.
pub(crate) fn dissector() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wireshark/falcon.lua")
}

/// Runs a program. If it is missing, the error says what to install.
fn run(command: &mut Command, package: &str) -> Result<(String, String)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| {
        format!("cannot start {name}: run `cargo xtask setup`, or install the package {package}")
    })?;
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "{name} failed ({}): {errors}", output.status);
    Ok((text, errors))
}

/// Runs tshark with the dissector on a capture.
///
/// # Errors
/// Also if the dissector has an error.
pub(crate) fn tshark(file: &Path, options: &[&str]) -> Result<String> {
    let script = format!("lua_script:{}", dissector().display());
    run_tshark(file, TempDir::new()?.path(), &[&["-X", &script], options].concat())
}

/// Runs tshark with the dissector in the folder of personal plugins.
///
/// # Errors
/// As [`tshark`].
pub(crate) fn with_plugin(file: &Path, options: &[&str]) -> Result<String> {
    let home = TempDir::new()?;
    let plugins = home.path().join(".local/lib/wireshark/plugins");
    std::fs::create_dir_all(&plugins)?;
    std::fs::copy(dissector(), plugins.join("falcon.lua"))?;
    run_tshark(file, home.path(), options)
}

fn run_tshark(file: &Path, home: &Path, options: &[&str]) -> Result<String> {
    let mut command = without_root("tshark");
    command.arg("-r").arg(file).args(options);
    // Bytes behind an IP packet may look like a trailer of PRP, which says that it is malformed.
    command.args(["--disable-protocol", "prp"]);
    // Neither the user's plugins and preferences, nor names of addresses.
    command.args(["-n", "-o", "gui.column.format:\"Info\",\"%i\""]);
    command.env("HOME", home).env("XDG_CONFIG_HOME", home.join(".config")).env("LC_ALL", "C.UTF-8");
    for variable in ["WIRESHARK_CONFIG_DIR", "WIRESHARK_PLUGIN_DIR", "XDG_DATA_HOME"] {
        command.env_remove(variable);
    }
    let (text, errors) = run(&mut command, "tshark")?;
    // tshark reports an error in a plugin in the packet's tree, or on the error output when it loads the plugin.
    if let Some(line) = text.lines().chain(errors.lines()).find(|line| is_plugin_error(line)) {
        bail!("the dissector has an error: {line}");
    }
    Ok(text)
}

/// Returns a command that may read every file but is not root's. Wireshark executes no Lua of a user for root since 4.4.
fn without_root(program: &str) -> Command {
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(program);
    }
    const NOBODY: u32 = 65_534;
    const RIGHTS: &str = "+dac_override,+dac_read_search";
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
    command.args([&format!("--inh-caps={RIGHTS}"), &format!("--ambient-caps={RIGHTS}"), program]);
    command
}

fn is_plugin_error(line: &str) -> bool {
    let line = line.to_lowercase();
    line.contains("lua error") || line.contains("error during loading") || line.contains("falcon.lua:")
}

/// Writes a temporary capture, and runs tshark on it.
pub(crate) fn tshark_on(frames: &[Frame], options: &[&str]) -> Result<String> {
    let directory = TempDir::new()?;
    let file = directory.path().join("frames.pcapng");
    capture::write(&file, frames)?;
    tshark(&file, options)
}

/// Returns the dissector's fields of each frame.
pub(crate) fn fields(frames: &[Frame]) -> Result<Vec<Vec<Shown>>> {
    let packets =
        parsed(&tshark_on(frames, &["-T", "pdml", "-J", "falcon.psp falcon.inner falcon falcon.rdma"])?)?;
    ensure!(packets.len() == frames.len(), "{} packets for {} frames", packets.len(), frames.len());
    Ok(packets)
}

/// Returns the dissector's fields of each packet of tshark's output in PDML.
pub(crate) fn parsed(pdml: &str) -> Result<Vec<Vec<Shown>>> {
    let mut packets: Vec<Vec<Shown>> = vec![];
    for line in pdml.lines().map(str::trim_start) {
        if line.starts_with("<packet>") {
            packets.push(vec![]);
        } else if line.starts_with("<field name=\"falcon.") {
            let packet = packets.last_mut().context("fields are in packets")?;
            let get = |name| attribute(line, name).unwrap_or_default();
            packet.push(Shown { name: get("name"), value: get("show"), line: get("showname") });
        }
    }
    Ok(packets)
}

/// Returns the value of an attribute of an XML tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, from) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = from.split_once('"')?;
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")];
    Some(entities.iter().fold(value.to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}

/// Returns the Info column of each frame.
pub(crate) fn summaries(frames: &[Frame]) -> Result<Vec<String>> {
    Ok(tshark_on(frames, &["-P"])?.lines().map(|line| line.trim().to_owned()).collect())
}

/// What the dissector adds for one packet: the values of each field, and the Info column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Imitated {
    pub(crate) fields: BTreeMap<String, Vec<String>>,
    pub(crate) info: String,
}

/// Executes the dissector with an interpreter of Lua on the datagrams of frames.
pub(crate) fn imitated(lua: &str, frames: &[Frame]) -> Result<Vec<Imitated>> {
    let mut lines = String::new();
    for frame in frames {
        let datagram = frame.datagram().context("every frame has a datagram")?;
        let hex: String = datagram.payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let (seconds, size) = (frame.after.as_secs_f64(), datagram.payload.len());
        writeln!(lines, "{seconds} {} {} {size} {hex}", datagram.source, datagram.destination)?;
    }
    let directory = TempDir::new()?;
    let file = directory.path().join("packets");
    std::fs::write(&file, lines)?;
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wireshark/stub.lua");
    let (text, _) = run(Command::new(lua).arg(stub).arg(dissector()).arg(&file), lua)?;
    let mut packets: Vec<Imitated> = vec![];
    for line in text.lines() {
        let Some((name, value)) = line.split_once('\t') else { continue };
        if name == "packet" {
            packets.push(Imitated::default());
            continue;
        }
        let packet = packets.last_mut().context("fields are in packets")?;
        if name == "info" {
            packet.info = value.to_owned();
        } else {
            packet.fields.entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
    ensure!(packets.len() == frames.len(), "{} packets for {} frames", packets.len(), frames.len());
    Ok(packets)
}

/// Returns the number that a field shows, as tshark or the imitation write it.
pub(crate) fn number(text: &str) -> Option<u64> {
    match (text, text.strip_prefix("0x")) {
        ("True", _) => Some(1),
        ("False", _) => Some(0),
        (_, Some(hex)) => u64::from_str_radix(hex, 16).ok(),
        _ => text.parse().ok(),
    }
}
