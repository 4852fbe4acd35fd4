//! Reads the tables `[node.engine]` and `[node.limits]`.

use std::time::Duration;

use transport_common::queues::CONNECTIONS;

use super::reader::Reader;
use crate::connection_manager::Limits;
use crate::engine::{EngineMode, EngineOptions};

/// Largest number of simultaneous handshakes that a node may allow. Each handshake has a TCP connection.
const MOST_HANDSHAKES: u64 = 1024;
/// The real-time signals that programs may use on Linux. The C library uses 32 and 33.
const SIGNALS: (u64, u64) = (34, 64);

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
