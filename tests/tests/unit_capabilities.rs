//! A node with the capabilities that the service's unit gives it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tiercel_tests::checks::pattern;
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::{Pair, need_root};

/// What a node says that cannot ask for the address of a next hop.
const CANNOT_ASK: &str = "cannot ask for next hops by ARP: ";

/// Returns a setting of the unit.
fn setting(key: &str) -> Result<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/dist/tiercel@.service");
    let unit = fs::read_to_string(unit)?;
    let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    Ok(value.with_context(|| format!("the unit has no {key}"))?.to_owned())
}

/// Returns capabilities as `setpriv` names them.
fn bounding_set(capabilities: &str) -> String {
    let names = capabilities.split_whitespace().filter_map(|name| name.strip_prefix("CAP_"));
    names.fold("-all".to_owned(), |all, name| format!("{all},+{}", name.to_lowercase()))
}

/// The unit gives what a node needs: it runs, connects and copies, and can ask for next hops. A node with less says what
/// it cannot do.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_unit_gives_a_node_what_it_needs() -> Result<()> {
    need_root();
    let families = setting("RestrictAddressFamilies")?;
    for needed in ["AF_UNIX", "AF_NETLINK", "AF_INET", "AF_INET6", "AF_PACKET"] {
        assert!(families.split_whitespace().any(|family| family == needed), "{needed}");
    }
    let given = setting("CapabilityBoundingSet")?;
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let inbox = directory.path().join("inbox");
    fs::create_dir(&inbox)?;
    let receive = ["--receive-dir", inbox.to_str().context("a path in UTF-8")?];
    let a = NodeProcess::limited(&pair.a, directory.path(), "a", &bounding_set(&given), &[])?;
    let less = bounding_set(&given.replace("CAP_NET_RAW", ""));
    let b = NodeProcess::limited(&pair.b, directory.path(), "b", &less, &receive)?;
    assert!(!a.log().contains("cannot"), "{}", a.log());
    assert!(b.log().contains(CANNOT_ASK) && b.log().contains("CAP_NET_RAW is needed"), "{}", b.log());

    let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
    let from = directory.path().join("file");
    fs::write(&from, pattern(100_000, 3))?;
    a.ok(&["cp", from.to_str().context("a path in UTF-8")?, &format!("{cid}:")])?;
    assert!(fs::read(inbox.join("file"))? == pattern(100_000, 3), "other bytes arrived");
    Ok(())
}
