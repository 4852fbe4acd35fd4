//! The tester shares with Tiercel only the encoders and decoders of the wire formats. Reads the sources and
//! the manifest.

use std::fs;
use std::path::{Path, PathBuf};

/// The parts of `transport_common` that the tester may use: wire formats, and the types of their fields.
const SHARED: [&str; 3] = ["wire", "ids", "units"];
/// The headers of RDMA, which are wire formats as well. The rest of that module is the project's ULP.
const RDMA_HEADERS: [&str; 5] = ["Aeth", "AtomicEth", "Bth", "Opcode", "Reth"];
const CRATE: &str = "transport_common::";

fn sources(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// Returns whether what follows `transport_common::` in a source may be used.
fn is_shared(path: &str) -> bool {
    let names = |text: &str| -> Vec<String> {
        let end = text.find(';').unwrap_or(text.len());
        let names = text[..end].split(|c: char| !c.is_alphanumeric() && c != '_');
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    if let Some(headers) = path.strip_prefix("ulp::rdma::") {
        return names(headers).iter().all(|name| RDMA_HEADERS.contains(&&**name));
    }
    SHARED.iter().any(|module| path.starts_with(&format!("{module}::")))
}

/// Returns the paths in a source that the tester must not use.
fn forbidden(source: &str) -> Vec<&str> {
    let uses = source.match_indices(CRATE).map(|(at, _)| &source[at + CRATE.len()..]);
    let mut found: Vec<_> =
        uses.filter(|path| !is_shared(path)).map(|path| path.lines().next().unwrap_or_default()).collect();
    // A crate under another name, or a whole crate imported, would pass the search above.
    found.extend(source.lines().filter(|line| {
        line.contains("transport_common as") || line.trim_start().starts_with("use transport_common;")
    }));
    found
}

#[test]
fn the_tester_uses_only_the_wire_formats_of_the_core() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    assert!(all.len() > 10, "the sources are found");
    for path in all {
        let source = fs::read_to_string(&path).expect("the file can be read");
        let found = forbidden(&source);
        assert!(found.is_empty(), "{} uses {found:?}", path.display());
    }
}

#[test]
fn the_search_finds_what_is_forbidden() {
    for source in [
        "use transport_common::packet_delivery::Window;",
        "let x = transport_common::connection::Snapshot::default();",
        "use transport_common::{ids, datapath};",
        "use transport_common::ulp::rdma::{Bth, Rdma};",
        "use transport_common::ulp::rdma::{\n    Bth,\n    Rdma,\n};",
        "use transport_common as core;",
    ] {
        assert!(!forbidden(source).is_empty(), "{source}");
    }
    assert!(
        forbidden("use transport_common::ulp::rdma::{Aeth, Bth};\nuse transport_common::ids::Psn;")
            .is_empty()
    );
}

#[test]
fn the_tester_depends_on_no_other_crate_of_the_project() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let manifest: toml::Table = manifest.expect("the manifest can be read").parse().expect("it is TOML");
    let used: Vec<_> = manifest["dependencies"].as_table().expect("a table").keys().cloned().collect();
    assert_eq!(used, ["libc", "pcap-file", "serde", "thiserror", "transport-common"]);
}
