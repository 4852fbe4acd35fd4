//! What becomes of the output of `tiercel` if it cannot be written.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tiercel_tests::checks::wait_until;
use tiercel_tests::cli::{NodeProcess, Outcome, program, tiercel};
use tiercel_tests::{Pair, need_root};

/// A frame that is not Falcon.
const FRAME: &str = "ffffffffffff0200000000010806";

/// Commands that print something and need no node. `{dir}` is a directory.
const PRINTING: [&[&str]; 10] = [
    &["--help"],
    &["--version"],
    &["conn", "connect", "--help"],
    &["completions", "bash"],
    &["completions", "bash", "--json"],
    &["conformance", "--list"],
    &["conformance", "--list", "--json"],
    &["decode", "--hex", FRAME],
    &["man", "{dir}"],
    &["man", "{dir}", "--json"],
];

/// Commands to a node, each of which prints something, with `--json` as well. [`Places`] fills in what is in braces.
const ASKING: [&[&str]; 29] = [
    &["status"],
    &["stats"],
    &["stats", "--all"],
    &["conn", "list"],
    &["conn", "show", "{cid}"],
    &["conn", "connect", "{peer}"],
    &["conn", "cc", "{cid}"],
    &["conn", "watch", "{cid}", "--interval", "10ms", "--count", "1"],
    &["conn", "reset", "{fixed}"],
    &["conn", "xlr", "{fixed}", "begin"],
    &["conn", "xlr", "{fixed}", "end"],
    &["mr", "register", "4KiB", "--rkey", "{new}"],
    &["mr", "list"],
    &["mr", "write", "{new}", "--data", "hello"],
    &["mr", "read", "{new}", "--length", "5"],
    &["mr", "read", "{new}", "--length", "5", "--out", "{dir}/mr-{new}"],
    &["mr", "deregister", "{new}"],
    &["write", "{cid}", "--rkey", "{key}", "--data", "hello"],
    &["read", "{cid}", "--rkey", "{key}", "--length", "5"],
    &["read", "{cid}", "--rkey", "{key}", "--length", "5", "--out", "{dir}/read-{new}"],
    &["send", "{cid}", "--data", "hello"],
    &["recv", "post", "{cid}"],
    &["recv", "list", "{cid}"],
    &["atomic", "fetch-add", "{cid}", "--rkey", "{key}", "--add", "1"],
    &["atomic", "compare-swap", "{cid}", "--rkey", "{key}", "--compare", "0", "--swap", "7"],
    &["cp", "{dir}/file", "{cid}:copy-{new}"],
    &["cp", "--overwrite", "{dir}/file", "{dir}/other", "{cid}:"],
    &["trace", "--out", "{dir}/{new}.trace", "--duration", "10ms"],
    &["conn", "close", "{extra}"],
];
/// The same, where `--json` is wrong.
const RAW: [&[&str]; 2] = [
    &["mr", "read", "{own}", "--length", "5", "--raw"],
    &["read", "{cid}", "--rkey", "{key}", "--length", "5", "--raw"],
];
/// The same, and then the node is down.
const LAST: &[&str] = &["down"];
/// Commands that are in none of these lists: `up` prints nothing, and `model` becomes another program, which has its own test.
const OTHERS: [&str; 2] = ["tiercel-up", "tiercel-model"];

/// What stands for a name in braces.
struct Places(Vec<(&'static str, String)>);

impl Places {
    fn in_directory(directory: &Path) -> Result<Self> {
        Ok(Self(vec![("{dir}", directory.to_str().context("a plain path")?.to_owned())]))
    }

    fn set(&mut self, name: &'static str, value: impl ToString) {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, value.to_string()));
    }

    fn fill(&self, arguments: &[&str]) -> Vec<String> {
        let filled = |argument: &&str| {
            self.0.iter().fold((*argument).to_owned(), |text, (name, value)| text.replace(name, value))
        };
        arguments.iter().map(filled).collect()
    }
}

/// Runs `tiercel` with this stdout.
fn run(arguments: &[impl AsRef<str>], stdout: impl Into<Stdio>) -> Result<Outcome> {
    let mut command = Command::new(program());
    command.args(arguments.iter().map(AsRef::as_ref)).stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped());
    command.spawn()?.wait_with_output()?.try_into()
}

/// Returns a file that takes nothing, as on a full disk.
fn full_disk() -> Result<File> {
    Ok(File::options().write(true).open("/dev/full")?)
}

/// Returns a pipe whose reader has gone.
fn closed_pipe() -> Result<io::PipeWriter> {
    let (reader, writer) = io::pipe()?;
    drop(reader);
    Ok(writer)
}

/// Runs a command whose output is lost.
fn loses(arguments: &[impl AsRef<str> + std::fmt::Debug]) -> Result<()> {
    let Outcome { code, stderr, .. } = run(arguments, full_disk()?)?;
    ensure!(code == 5, "{arguments:?}: exit code {code}: {stderr}");
    ensure!(stderr.contains("cannot write to stdout: No space left"), "{arguments:?}: {stderr}");
    Ok(())
}

#[test]
fn lost_output_is_a_failure() -> Result<()> {
    let directory = TempDir::new()?;
    let places = Places::in_directory(directory.path())?;
    PRINTING.iter().try_for_each(|arguments| loses(&places.fill(arguments)))
}

#[test]
fn a_reader_that_has_enough_is_no_failure() -> Result<()> {
    let directory = TempDir::new()?;
    let places = Places::in_directory(directory.path())?;
    for arguments in PRINTING {
        let Outcome { code, stderr, .. } = run(&places.fill(arguments), closed_pipe()?)?;
        ensure!(code == 0 && !stderr.contains("stdout"), "{arguments:?}: exit code {code}: {stderr}");
    }
    Ok(())
}

#[test]
fn a_failure_keeps_its_exit_code_although_its_json_is_lost() -> Result<()> {
    let wrong = ["write", "5", "--rkey", "1", "--json"];
    let lost = run(&wrong, full_disk()?)?;
    ensure!(lost.code == 2 && lost.stderr.contains("cannot write to stdout"), "{lost:?}");
    let unread = run(&wrong, closed_pipe()?)?;
    ensure!(unread.code == 2 && !unread.stderr.contains("stdout"), "{unread:?}");
    Ok(())
}

/// There is a manual page for each command.
#[test]
fn each_command_is_tried() -> Result<()> {
    let directory = TempDir::new()?;
    let printed = tiercel(&["man", directory.path().to_str().context("a plain path")?, "--json"])?;
    let pages: Value = serde_json::from_str(&printed.stdout)?;
    let name = |page: &Value| Some(Path::new(page.as_str()?).file_stem()?.to_str()?.to_owned());
    let pages: BTreeSet<String> =
        pages["pages"].as_array().context("a list")?.iter().filter_map(name).collect();
    let has_subcommands = |page: &String| {
        let below = format!("{page}-");
        pages.iter().any(|other| other.starts_with(&below))
    };
    let tried: BTreeSet<String> = [&PRINTING[..], &ASKING, &RAW, &[LAST]]
        .concat()
        .iter()
        .flat_map(|arguments| {
            (1..=2).map(move |words| arguments.iter().take(words).copied().collect::<Vec<_>>())
        })
        .map(|words| format!("tiercel-{}", words.join("-")))
        .collect();
    let left: Vec<&String> = pages
        .iter()
        .filter(|page| !has_subcommands(page) && !tried.contains(*page) && !OTHERS.contains(&page.as_str()))
        .collect();
    ensure!(pages.len() > 30 && left.is_empty(), "no line is for {left:?} of {pages:?}");
    Ok(())
}

/// What a command did at the node is done, and the command fails because nobody reads of it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn lost_output_of_a_command_to_a_node_is_a_failure() -> Result<()> {
    const FIXED: u32 = 5;
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let config = directory.path().join("a.toml");
    let text = format!(
        "[node]\ninterface = \"veth0\"\naddress = \"{}\"\n\n[[connection]]\nlocal_cid = {FIXED}\npeer_cid = 10\n\
         peer_address = \"{}\"\npeer_mac = \"{}\"\nordered = true\n\
         security = {{ mode = \"plaintext\", tx_spi = 1, rx_spi = 2 }}\n\
         tx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\nrx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\n",
        pair.a.ipv4, pair.b.ipv4, pair.b.mac
    );
    std::fs::write(&config, text)?;
    ["file", "other"].iter().try_for_each(|name| std::fs::write(directory.path().join(name), name))?;
    let inbox = directory.path().join("inbox");
    std::fs::create_dir(&inbox)?;
    let receive = ["--receive-dir", inbox.to_str().context("a plain path")?, "--receive-overwrite"];
    let config = ["--config", config.to_str().context("a plain path")?];
    let a = NodeProcess::up(&pair.a, directory.path(), "a", &config)?;
    let b = NodeProcess::on(&pair.b, directory.path(), "b", &receive)?;
    let peer = pair.b.ipv4.to_string();
    let connected = a.json(&["conn", "connect", &peer])?;
    let cid_b = connected["peer_cid"].to_string();
    // The peer takes no file by SEND while a receive waits there.
    let post = || b.run(&["recv", "post", &cid_b]).is_ok_and(|posted| posted.code == 0);
    let arrived = || b.ok(&["recv", "list", &cid_b]).is_ok_and(|list| !list.contains("posted"));
    let mut places = Places::in_directory(directory.path())?;
    places.set("{cid}", &connected["local_cid"]);
    places.set("{peer}", &peer);
    places.set("{fixed}", FIXED);
    places.set("{key}", &b.json(&["mr", "register", "4KiB"])?["key"]);
    places.set("{own}", &a.json(&["mr", "register", "4KiB"])?["key"]);

    let socket = |node: &NodeProcess| ["--socket".to_owned(), node.socket().display().to_string()];
    for (new, json) in [(1000, false), (1001, true)] {
        places.set("{new}", new);
        places.set("{extra}", &a.json(&["conn", "connect", &peer])?["local_cid"]);
        let option = if json { &["--json".to_owned()][..] } else { &[] };
        for arguments in ASKING {
            let sends = arguments[0] == "send";
            if sends {
                wait_until("the peer has posted a receive", post);
            }
            loses(&[&socket(&a)[..], &places.fill(arguments), option].concat())?;
            if sends {
                wait_until("the peer has the message", arrived);
            }
        }
    }
    for arguments in RAW {
        loses(&[&socket(&a)[..], &places.fill(arguments)].concat())?;
    }
    assert_eq!(std::fs::read(inbox.join("copy-1001"))?, b"file");
    for mut node in [a, b] {
        loses(&[&socket(&node)[..], &places.fill(LAST)].concat())?;
        assert_eq!(node.ended()?.code(), Some(0), "{}", node.log());
    }
    Ok(())
}
