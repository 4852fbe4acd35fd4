//! The lists of the platform's and the queues' calls: a new call touches few files, and each has a reason.

use std::fs;
use std::path::{Path, PathBuf};

/// A call of a list.
struct Call {
    name: &'static str,
    /// The note is made from the list, and not written by hand.
    has_note_of_the_list: bool,
}

/// Returns the calls of both lists.
fn calls() -> Vec<Call> {
    macro_rules! with_queues {
        ($($calls:tt)*) => { transport_common::queue_calls! { calls $($calls)* } };
    }
    macro_rules! calls {
        ($(
            $(#[$about:meta])* trait $trait:ident { $(
                $(#[$doc:meta])*
                fn $name:ident(& $($receiver:ident)+ $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                    $($tag:ident $label:literal $words:tt)?
                }
            )* }
        )*) => {
            vec![$($(Call {
                name: stringify!($name),
                has_note_of_the_list: false $(|| stringify!($words).starts_with('['))?,
            },)*)*]
        };
    }
    transport_common::platform_calls! { with_queues }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What stands in front of a platform, and the replay.
const MADE_FROM_THE_LISTS: [&str; 6] = [
    "transport-common/src/tape/recorded.rs",
    "transport-common/src/tape/recorder.rs",
    "hw-model/host-nic/src/remote.rs",
    "hw-model/falcon-nic/src/card.rs",
    "hw-model/replay/src/platform.rs",
    "hw-model/replay/src/queues.rs",
];

#[test]
fn forwarders_tags_and_answers_come_from_the_lists() {
    let calls = calls();
    assert!(calls.iter().filter(|call| call.has_note_of_the_list).count() > 20, "the lists are read");
    for file in MADE_FROM_THE_LISTS {
        let text = read(file);
        for call in calls.iter().filter(|call| call.has_note_of_the_list) {
            assert!(
                !text.contains(&format!("fn {}(", call.name)),
                "{file} implements `{}` by hand",
                call.name
            );
        }
    }
}

/// Adds the Rust files below a directory that are no tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["tests", "contract", "target"].contains(&name) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The list, two implementations, the caller, and the card, of which a block serves the call.
#[test]
fn a_call_is_named_in_five_files() {
    let mut files = Vec::new();
    for directory in ["transport-common/src", "transport-ebpf/src", "hw-model", "tests/src"] {
        sources(&root().join(directory), &mut files);
    }
    // Names that nothing else has.
    for call in ["frame_to_memory", "store_value"] {
        assert!(calls().iter().any(|other| other.name == call), "{call}");
        let naming: Vec<_> = files
            .iter()
            .filter(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(call)))
            .collect();
        assert_eq!(naming.len(), 5, "{call}: {naming:#?}");
    }
}

#[test]
fn each_call_has_a_reason() {
    let page = read("docs/architecture.md");
    for call in calls() {
        let quoted = format!("`{}`", call.name);
        let named =
            page.lines().filter(|line| line.split('|').nth(1).is_some_and(|cell| cell.contains(&quoted)));
        assert_eq!(named.count(), 1, "`{}` in the table of calls", call.name);
    }
}
