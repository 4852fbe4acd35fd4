//! Limits are not types: what depends on the size of a table or of a window goes through `ring`, `ids` and `WindowBits`, so
//! that another size needs a change in one place.

use std::fs;
use std::path::{Path, PathBuf};

/// The sizes of tables and windows.
const SIZES: [&str; 7] =
    ["CONNECTIONS", "TRANSACTIONS", "RESPONSES", "PACKETS", "CELLS", "DATA_WINDOW", "REQUEST_WINDOW"];

/// Adds the Rust files below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns why a line of code depends on a size that it should not know.
fn fault(line: &str) -> Option<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    let masks = |size: &&str| {
        let text = format!(" {code}");
        ["- 1)", "as u32 - 1)"].iter().any(|end| text.contains(&format!("& ({size} {end}")))
            || text.contains(&format!("% {size}"))
    };
    let is_cell = |width: &&str| code.contains(&format!("cell: {width}"));
    if SIZES.iter().any(masks) || code.contains("& 127") || code.contains("& 255") {
        Some("a mask: see `ring`")
    } else if ["u16", "u32"].iter().any(is_cell) {
        Some("a receive cell is a `CellId`")
    } else if code.contains("Bitmap128") {
        Some("the bitmap of a window is `WindowBits`")
    } else {
        None
    }
}

#[test]
fn faults_are_found() {
    for line in ["a & (PACKETS - 1)", "x & (CONNECTIONS as u32 - 1)", "n % RESPONSES", "key & 127"] {
        assert_eq!(fault(line), Some("a mask: see `ring`"), "{line}");
    }
    assert_eq!(fault("    pub cell: u16,"), Some("a receive cell is a `CellId`"));
    assert_eq!(fault("all: Bitmap128,"), Some("the bitmap of a window is `WindowBits`"));
    assert_eq!(fault("place::<PACKETS>(psn.0) // n % PACKETS"), None);
}

#[test]
fn sizes_are_known_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for directory in
        ["transport-common/src", "transport-ebpf/src", "hw-model/host-nic/src", "hw-model/replay/src"]
    {
        sources(&root.join(directory), &mut files);
    }
    // The bitmaps themselves, the formats on the wire, which have 128 bits, and the type for windows.
    let owners =
        ["/bitmap.rs", "/wire/packet.rs", "/datapath/parse/inner.rs", "/packet_delivery/window_bits.rs"];
    let mut faults = Vec::new();
    for file in files {
        let name = file.display().to_string().replace('\\', "/");
        if owners.iter().any(|owner| name.ends_with(owner)) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source");
        for (n, line) in text.lines().enumerate() {
            faults.extend(fault(line).map(|why| format!("{name}:{}: {why}", n + 1)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
