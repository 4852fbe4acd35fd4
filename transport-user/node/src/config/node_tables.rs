//! Reads the tables `[node.engine]`, `[node.limits]` and `[node.receive]`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use transport_common::queues::CONNECTIONS;

use super::reader::Reader;
use crate::connection_manager::Limits;
use crate::node::engine::{EngineMode, EngineOptions};

/// Largest number of simultaneous handshakes that a node may allow. Each handshake has a TCP connection.
const MOST_HANDSHAKES: u64 = 1024;
/// Largest limit of the receive directory: no file of Linux is longer.
const MOST_BYTES: u64 = i64::MAX as u64;
/// The real-time signals that programs may use on Linux. The C library uses 32 and 33.
const SIGNALS: (u64, u64) = (34, 64);

/// The directory in which peers may store files, and from which they may fetch files: the table `[node.receive]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveOptions {
    /// The directory.
    pub directory: PathBuf,
    /// Whether peers may replace files in it.
    pub overwrite: bool,
    /// Longest file that a peer may store, bytes. `None`: as long as there is space.
    pub max_file: Option<u64>,
    /// Most bytes in the directory and below it, up to which peers may store files. Each file and each directory counts as
    /// 4096 bytes at least. `None`: as long as there is space.
    pub max_total: Option<u64>,
}

impl ReceiveOptions {
    /// Options without limits for this directory. Peers may not replace files.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, overwrite: false, max_file: None, max_total: None }
    }
}

/// Reads the options of the receive directory.
pub(super) fn read_receive(table: &mut Reader<'_, '_>) -> Option<ReceiveOptions> {
    let directory = table.string("directory");
    let directory = table.require("directory", directory, "\"/srv/inbox\"");
    if directory.as_ref().is_some_and(|directory| !directory.starts_with('/')) {
        table.complain("directory", "is not absolute: write a path that begins with a slash");
    }
    let overwrite = table.boolean("overwrite");
    let (max_file, max_total) =
        (table.size("max_file", 1, MOST_BYTES), table.size("max_total", 1, MOST_BYTES));
    let base = ReceiveOptions::new(directory?.into());
    Some(ReceiveOptions { overwrite: overwrite.unwrap_or(base.overwrite), max_file, max_total, ..base })
}

/// Reads the options of the engine thread. An option that is not in the table has its default.
pub(super) fn read_engine(table: &mut Reader<'_, '_>) -> Option<EngineOptions> {
    let base = EngineOptions::default();
    let mode = match table.string("mode").as_deref() {
        Some("busy") => EngineMode::Busy,
        Some("sleeping") | None => EngineMode::Sleeping,
        Some(other) => {
            table.complain("mode", format!("\"{other}\" is unknown; allowed: \"sleeping\", \"busy\""));
            base.mode
        }
    };
    Some(EngineOptions {
        mode,
        cpu: table.integer("cpu", 0, u32::MAX.into()).map(|cpu| cpu as usize),
        batch: table.integer("batch", 1, bpf_call::MAX_BATCH.into()).map(|batch| batch as u32),
        spin: table.duration("spin", Duration::ZERO, Duration::from_secs(1)).unwrap_or(base.spin),
        signal: table.integer("signal", SIGNALS.0, SIGNALS.1).map(|signal| signal as i32),
    })
}

/// Reads the limits for peers. A limit that is not in the table has its default.
pub(super) fn read_limits(table: &mut Reader<'_, '_>) -> Option<Limits> {
    let base = Limits::default();
    let mut count =
        |name, most, default: usize| table.integer(name, 1, most).map_or(default, |value| value as usize);
    Some(Limits {
        handshakes: count("handshakes", MOST_HANDSHAKES, base.handshakes),
        handshakes_per_source: count("handshakes_per_source", MOST_HANDSHAKES, base.handshakes_per_source),
        connections_per_source: count(
            "connections_per_source",
            CONNECTIONS as u64,
            base.connections_per_source,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::NodeFile;
    use super::*;

    const NODE: &str = "[node]\ninterface = \"veth0\"\naddress = \"10.7.0.1\"\n";

    #[test]
    fn engine_and_limits_are_read_and_have_defaults() {
        let parse = |rest: &str| NodeFile::parse(&format!("{NODE}{rest}")).expect("a good file").node;
        let node = parse("");
        assert_eq!((node.engine, node.limits), (EngineOptions::default(), Limits::default()));
        let node = parse(
            "[node.engine]\nmode = \"busy\"\ncpu = 1\nbatch = 8\nspin = \"2ms\"\nsignal = 40\n\
             [node.limits]\nhandshakes = 8\nconnections_per_source = 4\n",
        );
        let engine = EngineOptions {
            mode: EngineMode::Busy,
            cpu: Some(1),
            batch: Some(8),
            spin: Duration::from_millis(2),
            signal: Some(40),
        };
        let limits = Limits { handshakes: 8, connections_per_source: 4, ..Limits::default() };
        assert_eq!((node.engine, node.limits), (engine, limits));
        assert_eq!(node.options().engine, engine);
    }

    #[test]
    fn the_receive_directory_has_limits_only_if_they_are_set() {
        let parse = |rest: &str| NodeFile::parse(&format!("{NODE}{rest}"));
        assert_eq!(parse("").expect("a good file").node.receive, None);
        let plain = parse("[node.receive]\ndirectory = \"/srv/in\"\n").expect("a good file").node.receive;
        assert_eq!(plain, Some(ReceiveOptions::new("/srv/in".into())));
        let all = "[node.receive]\ndirectory = \"/srv/in\"\noverwrite = true\nmax_file = \"1GiB\"\nmax_total = \"5GiB\"\n";
        let expected = ReceiveOptions {
            directory: "/srv/in".into(),
            overwrite: true,
            max_file: Some(1 << 30),
            max_total: Some(5 << 30),
        };
        assert_eq!(parse(all).expect("a good file").node.receive, Some(expected));
        for (wrong, says) in [
            ("[node.receive]\noverwrite = true\n", "node.receive.directory"),
            ("[node.receive]\ndirectory = \"in\"\n", "is not absolute"),
            ("[node.receive]\ndirectory = \"/srv/in\"\nmax_file = 0\n", "node.receive.max_file"),
        ] {
            let complaints = parse(wrong).expect_err(wrong);
            assert!(complaints[0].to_string().contains(says), "{complaints:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let file = format!(
            "{NODE}[node.engine]\nmode = \"fast\"\nbatch = 0\nsignal = 9\n[node.limits]\nhandshakes = 0\nmost = 1\n"
        );
        let wrong: Vec<String> =
            NodeFile::parse(&file).expect_err("mistakes").iter().map(ToString::to_string).collect();
        let begins = [
            "line 5: node.engine.mode: \"fast\" is unknown",
            "line 6: node.engine.batch",
            "line 7: node.engine.signal",
            "line 9: node.limits.handshakes",
            "line 10: node.limits.most",
        ];
        assert_eq!(wrong.len(), begins.len(), "{wrong:#?}");
        for (text, begin) in wrong.iter().zip(begins) {
            assert!(text.starts_with(begin), "{text} instead of {begin}");
        }
    }
}
