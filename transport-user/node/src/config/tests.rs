//! Tests with good and bad node files. They also check the messages.

use tiercel::{LocalCid, Mac, Tunnel, Ulp};
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::units::Picoseconds;

use super::*;

const GOOD: &str = r#"
[node]
interface = "veth0"
address   = "10.7.0.1"            # or IPv6
[[connection]]
local_cid = 5                     # CID that the peer writes into packets to us
peer_cid  = 10
peer_address = "10.7.0.2"
peer_mac     = "02:00:00:00:00:02"
ordered   = true
security  = { mode = "plaintext", tx_spi = 1, rx_spi = 2 }
local_function = 0
tx = { request_psn = 100, data_psn = 300, rsn = 1 }
rx = { request_psn = 500, data_psn = 700, rsn = 1 }
"#;

/// Returns the complaints about a file as text.
fn complaints(source: &str) -> Vec<String> {
    NodeFile::parse(source).expect_err("the file is wrong").iter().map(ToString::to_string).collect()
}

/// Returns [`GOOD`] with one text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replace(old, new)
}

/// The example node file that the Debian package installs.
const EXAMPLE: &str = include_str!("../../examples/node.toml");

#[test]
fn the_installed_example_is_good_as_it_is_and_with_all_that_it_shows() {
    let plain = NodeFile::parse(EXAMPLE).unwrap();
    assert_eq!(plain.node, NodeSection::new("eth1".into(), "192.0.2.1".parse().unwrap()));
    // Tells a setting that is commented out from a sentence.
    let setting = |line: &&str| line.starts_with('[') || line.split_whitespace().nth(1) == Some("=");
    let shown: Vec<&str> =
        EXAMPLE.lines().map(|line| line.strip_prefix("# ").filter(setting).unwrap_or(line)).collect();
    let all = NodeFile::parse(&shown.join("\n")).unwrap();
    assert_eq!((all.connections.len(), all.profiles.len()), (1, 1));
    assert_eq!((all.node.mtu, all.node.control_port), (Some(1500), DEFAULT_CONTROL_PORT));
}

#[test]
fn the_design_s_example_is_read_as_written() {
    let file = NodeFile::parse(GOOD).unwrap();
    assert_eq!(file.node, NodeSection::new("veth0".into(), "10.7.0.1".parse().unwrap()));
    let [connection] = file.connections.as_slice() else { panic!("one connection") };
    let expected = StaticConnection {
        local_cid: Cid(5),
        peer_cid: Cid(10),
        peer_address: "10.7.0.2".parse().unwrap(),
        peer_mac: Mac([2, 0, 0, 0, 0, 2]),
        follow_next_hop: false,
        ordered: true,
        ulp: Ulp::Rdma,
        tunnel: None,
        security: Security { tx_spi: Spi(1), rx_spi: Spi(2), checksum: true, remote_time: None },
        local_function: 0,
        peer_function: 0,
        tx: Initial { request_psn: Psn(100), data_psn: Psn(300), rsn: Rsn(1) },
        rx: Initial { request_psn: Psn(500), data_psn: Psn(700), rsn: Rsn(1) },
        tuning: Tuning::default(),
    };
    assert_eq!(*connection, expected);
}

#[test]
fn a_static_connection_is_opened_as_the_file_says() {
    let file = NodeFile::parse(&with("rx_spi = 2", "rx_spi = 2, checksum = false, remote_time = 9")).unwrap();
    let connection = &file.connections[0];
    let open = connection.to_open(LocalCid::Given(connection.local_cid), None);
    assert!(matches!(open.local_cid, LocalCid::Given(Cid(5))));
    assert_eq!(
        (open.peer_cid, open.peer_address, open.peer_mac),
        (Cid(10), connection.peer_address, connection.peer_mac)
    );
    assert_eq!(
        (open.security.psp_version, open.security.checksum, open.security.remote_time),
        (15, false, Some(Picoseconds(9).into()))
    );
    assert_eq!((open.tx, open.rx, open.ordered), (connection.tx, connection.rx, true));
    assert_eq!((open.tuning, open.max_segment, open.vlan_tci), (tiercel::Tuning::default(), None, None));
}

/// The address that is written counts, unless the file says otherwise.
#[test]
fn a_static_connection_follows_its_next_hop_only_if_it_is_told_to() {
    for (text, follows) in
        [("", false), ("follow_next_hop = false\n", false), ("follow_next_hop = true\n", true)]
    {
        let file = NodeFile::parse(&with("ordered   = true", &format!("{text}ordered = true"))).unwrap();
        assert_eq!(file.connections[0].to_open(LocalCid::Any, None).follow_next_hop, follows, "{text}");
    }
}

#[test]
fn tuning_of_the_node_is_the_base_of_every_connection() {
    let source = format!(
        "{}\n[connection.tuning]\nrto = \"2ms\"\ninitial_fcwnd = 1.5\n",
        with(
            "[[connection]]",
            "[node.tuning]\nooo_threshold = 7\nrack_tlp = true\nack_coalescing_time = \"20us\"\n[[connection]]"
        )
    );
    let file = NodeFile::parse(&source).unwrap();
    let tuning = file.connections[0].tuning;
    assert_eq!(tuning.rto, std::time::Duration::from_millis(2));
    assert_eq!(tuning.fcwnd, 1.5);
    assert_eq!((tuning.ooo_threshold, tuning.rack_tlp), (7, true));
    assert_eq!(file.node.tuning.ack_coalescing, std::time::Duration::from_micros(20));
    // One connection can be without what the node has on.
    let without = NodeFile::parse(&source.replace("rto = \"2ms\"", "rack_tlp = false")).unwrap();
    assert_eq!((without.node.tuning.rack_tlp, without.connections[0].tuning.rack_tlp), (true, false));
}

/// F-7.1.2-1.
#[test]
fn a_tunnel_has_two_inner_addresses_of_one_ip_version() {
    let file =
        |tunnel: &str| NodeFile::parse(&with("ordered   = true", &format!("ordered = true\n{tunnel}")));
    let good = file("tunnel = { local = \"fd01::1\", peer = \"fd01::2\" }").unwrap();
    let tunnel = Tunnel { local: "fd01::1".parse().unwrap(), peer: "fd01::2".parse().unwrap() };
    assert_eq!(good.connections[0].tunnel, Some(tunnel));
    assert_eq!(good.connections[0].to_open(LocalCid::Any, None).tunnel, Some(tunnel));
    for (bad, part) in [
        ("tunnel = { local = \"fd01::1\" }", "connection[1].tunnel.peer: missing"),
        ("tunnel = { local = \"fd01::1\", peer = \"10.0.0.1\" }", "differ in IP version"),
        ("tunnel = { local = \"fd01::1\", peer = \"fd01::1\" }", "both inner addresses"),
        ("tunnel = { local = \"fd01::1\", peer = \"ff02::1\" }", "not the address of one host"),
        ("tunnel = { local = \"fd01::1\", peer = \"fd01::2\", id = 1 }", "tunnel.id"),
    ] {
        let complaints = file(bad).unwrap_err();
        assert!(complaints.iter().any(|complaint| complaint.to_string().contains(part)), "{complaints:?}");
    }
}

#[test]
fn ipv6_and_optional_fields_are_read() {
    let source = GOOD
        .replace(
            "10.7.0.1\"",
            "fd00::1\"\nmtu = 3390\nhardware_timestamps = false\nname = \"left\"\ncontrol_port = 5000",
        )
        .replace("10.7.0.2", "fd00::2")
        .replace("rx_spi = 2", "rx_spi = 0xffffffff, checksum = false, remote_time = 12");
    let file = NodeFile::parse(&source).unwrap();
    assert_eq!((file.node.mtu, file.node.name.as_str(), file.node.control_port), (Some(3390), "left", 5000));
    assert_eq!(file.node.hardware_timestamps, Some(false));
    let security = file.connections[0].security;
    assert_eq!(
        (security.rx_spi, security.checksum, security.remote_time),
        (Spi(u32::MAX), false, Some(Picoseconds(12).into()))
    );
}

#[test]
fn every_mistake_is_reported_at_once_with_its_line() {
    let source = r#"
[node]
interface = "an-interface-too-long"
adress = "10.7.0.1"
mtu = 167
[[connection]]
local_cid = 16777216
peer_cid  = -1
peer_address = "10.7.0.2/24"
peer_mac     = "ff:ff:ff:ff:ff:ff"
ordered   = "yes"
security  = { mode = "psp", tx_spi = 0 }
tx = { request_psn = 4294967296, data_psn = 300, rsn = 1.5 }
[connection.tuning]
rto = 1
min_fcwnd = 0
ar_percent = 101
rnr_code = 32
transaction_timeout = "1h"
"#;
    let expected = [
        "line 2: node.address: missing: add a line such as `address = \"10.7.0.1\"`",
        "line 3: node.interface: is not the name of an interface: use a name that `ip link` shows",
        "line 4: node.adress: unknown field; allowed here: interface, address, mtu, memory, hardware_timestamps, name, control_port, patience, congestion, tuning, rate_update, engine, limits, receive",
        "line 5: node.mtu: 167 is out of range; allowed: a whole number from 168 to 3390",
        "line 6: connection[1].rx: missing: add a line such as `rx = { request_psn = 100, data_psn = 300, rsn = 1 }`",
        "line 7: connection[1].local_cid: 16777216 is out of range; allowed: a whole number from 1 to 16777215",
        "line 8: connection[1].peer_cid: -1 is out of range; allowed: a whole number from 0 to 16777215",
        "line 9: connection[1].peer_address: \"10.7.0.2/24\" is not an IP address: write one such as \"10.7.0.1\" or \"fd00::1\", without prefix length",
        "line 10: connection[1].peer_mac: \"ff:ff:ff:ff:ff:ff\" is not the address of one host: use the one that `ip link` shows at the peer",
        "line 11: connection[1].ordered: is a string; allowed: true or false",
        "line 12: connection[1].security.tx_spi: 0 is out of range; allowed: a whole number from 1 to 4294967295",
        "line 12: connection[1].security.rx_spi: missing: add a line such as `rx_spi = 2`",
        "line 12: connection[1].security.mode: \"psp\" is not available yet; use \"plaintext\"",
        "line 13: connection[1].tx.request_psn: 4294967296 is out of range; allowed: a whole number from 0 to 4294967295",
        "line 13: connection[1].tx.rsn: is a float; allowed: a whole number from 0 to 4294967295",
        "line 15: connection[1].tuning.rto: is an integer; allowed: a string with a unit; allowed: a duration from \"1us\" to \"2199ms\"",
        "line 16: connection[1].tuning.min_fcwnd: 0 is out of range; allowed: a number from 0.0009765625 to 2047.9990234375",
        "line 17: connection[1].tuning.ar_percent: 101 is out of range; allowed: a whole number from 0 to 100",
        "line 18: connection[1].tuning.rnr_code: 32 is out of range; allowed: a whole number from 0 to 31",
        "line 19: connection[1].tuning.transaction_timeout: \"1h\" is not a duration: write a number and a unit, such as \"8us\" or \"1.5ms\"",
    ];
    let found = complaints(source);
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    found.sort_by_key(|text| (line(text), text.to_string()));
    let mut expected = expected.to_vec();
    expected.sort_by_key(|text| (line(text), text.to_string()));
    assert_eq!(found, expected);
}

fn line(text: &str) -> u32 {
    text.strip_prefix("line ").and_then(|rest| rest.split(':').next()).unwrap().parse().unwrap()
}

#[test]
fn broken_syntax_is_named_with_its_line() {
    let found = complaints("[node]\ninterface = \n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("line 2: not TOML: "), "{found:?}");
}

#[test]
fn two_connections_cannot_share_a_cid_or_its_slot() {
    let second = GOOD.split_once("[[connection]]").unwrap().1;
    let same = format!("{GOOD}[[connection]]{second}");
    assert_eq!(
        complaints(&same),
        ["line 16: connection[2].local_cid: 5 is used by connection[1]: each connection needs its own CID"]
    );
    let slot = format!("{GOOD}[[connection]]{}", second.replace("local_cid = 5", "local_cid = 261"));
    assert_eq!(
        complaints(&slot),
        [
            "line 16: connection[2].local_cid: 261 shares table slot 5 with CID 5 of connection[1]: choose a CID with another remainder modulo 256"
        ]
    );
}

#[test]
fn a_peer_is_another_host_of_the_same_family() {
    assert_eq!(
        complaints(&with("\"10.7.0.2\"", "\"10.7.0.1\"")),
        ["line 8: connection[1].peer_address: is the address of this node: write the peer's address"]
    );
    assert_eq!(
        complaints(&with("\"10.7.0.2\"", "\"fd00::2\"")),
        ["line 8: connection[1].peer_address: must have the IP version of node.address (10.7.0.1)"]
    );
}

#[test]
fn windows_and_timeouts_must_not_contradict_each_other() {
    let tuning = |line: &str| format!("{GOOD}[connection.tuning]\n{line}\n");
    assert_eq!(
        complaints(&tuning("initial_fcwnd = 300")),
        [
            "line 16: connection[1].tuning.initial_fcwnd: must lie between min_fcwnd and max_fcwnd: change one of the three"
        ]
    );
    assert_eq!(
        complaints(&tuning("max_ncwnd = 8")),
        [
            "line 15: connection[1].tuning.initial_ncwnd: must lie between min_ncwnd and max_ncwnd: change one of the three"
        ]
    );
    assert_eq!(
        complaints(&tuning("rto = \"500us\"")),
        [
            "line 16: connection[1].tuning.rto: must not be below min_rto (default \"1ms\"): lower min_rto as well, or raise rto"
        ]
    );
}

#[test]
fn a_file_s_errors_name_it_and_say_what_to_do() {
    let missing = NodeFile::load(Path::new("no-such-node.toml")).unwrap_err().to_string();
    assert_eq!(
        missing,
        "cannot read the node file no-such-node.toml: No such file or directory (os error 2); check the path given to --config"
    );
    let invalid = FileError::Invalid { path: "n.toml".into(), complaints: NodeFile::parse("").unwrap_err() };
    assert_eq!(
        invalid.to_string(),
        "n.toml cannot be used:\n  n.toml, line 1: node: missing: add a line such as `node = { interface = \"eth0\", address = \"10.7.0.1\" }`"
    );
}

#[test]
fn names_of_nodes_are_safe_names_of_files() {
    assert!(is_name("veth0") && is_name("a.b-c_9"));
    for name in ["", ".", "..", "a/b", "a b", ".hidden", &"x".repeat(65)] {
        assert!(!is_name(name), "{name}");
    }
}

/// A link-local address may name the interface of its link, which has to be the node's.
#[test]
fn link_local_addresses_may_have_the_nodes_interface_as_scope() {
    let file = |own: &str, peer: &str| {
        let changed = GOOD.replace("\"10.7.0.1\"", &format!("\"{own}\""));
        NodeFile::parse(&changed.replace("\"10.7.0.2\"", &format!("\"{peer}\"")))
    };
    let good = file("fe80::1%veth0", "fe80::2%veth0").expect("the node's interface");
    let addresses = (good.node.address.to_string(), good.connections[0].peer_address.to_string());
    assert_eq!(addresses, ("fe80::1".into(), "fe80::2".into()));
    for (own, peer, expected) in [
        ("fe80::1%eth9", "fe80::2", "the node's interface is \"veth0\""),
        ("fe80::1", "fe80::2%eth9", "the node's interface is \"veth0\""),
        ("fd00::1%veth0", "fd00::2", "only link-local IPv6 addresses have one"),
    ] {
        let complaints = file(own, peer).expect_err(expected);
        let text = complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(complaints.len() == 1 && text.contains(expected), "{text}");
    }
}

#[test]
fn a_bad_address_hides_no_other_mistake_of_the_node() {
    let source =
        "[node]\ninterface = \"abcdefghijklmnopqrstuvwxyz0\"\naddress = \"10.7.0.300\"\nname = \".x\"\n";
    let complaints = NodeFile::parse(source).expect_err("three mistakes");
    let text = complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(complaints.len(), 3, "{text}");
    for field in ["interface", "address", "name"] {
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[test]
fn a_binary_file_is_no_node_file() {
    let file = std::env::temp_dir().join(format!("tiercel-binary-{}.toml", std::process::id()));
    std::fs::write(&file, [0x7f, b'E', b'L', b'F', 0xff, 0xfe]).expect("a temporary file");
    let refused = NodeFile::load(&file);
    std::fs::remove_file(&file).expect("it was written");
    assert!(refused.expect_err("binary").to_string().contains("is not a text file"));
}

/// The memory of a node is a size with or without a unit.
#[test]
fn the_memory_of_a_node_is_a_size() {
    let parse = |memory: &str| {
        let file = format!("[node]\ninterface = \"veth0\"\naddress = \"10.7.0.1\"\nmemory = {memory}\n");
        NodeFile::parse(&file).map(|file| file.node.memory)
    };
    assert_eq!(parse("\"1GiB\"").ok(), Some(1 << 30));
    assert_eq!(parse("268435456").ok(), Some(256 << 20));
    for (memory, begin) in [
        (
            "\"1MiB\"",
            "line 4: node.memory: \"1MiB\" is out of range; allowed: a size from \"256MiB\" to \"64GiB\"",
        ),
        ("\"65GiB\"", "line 4: node.memory: \"65GiB\" is out of range"),
        ("0", "line 4: node.memory: \"0\" is out of range"),
        ("\"much\"", "line 4: node.memory: \"much\" is not a size"),
        ("true", "line 4: node.memory: is a boolean; allowed: a size from \"256MiB\" to \"64GiB\""),
    ] {
        let wrong = parse(memory).expect_err("a mistake");
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].to_string().starts_with(begin), "{} instead of {begin}", wrong[0]);
    }
}
