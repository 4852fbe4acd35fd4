//! What a node does when the interface on which it runs changes.

use anyhow::Result;
use tiercel_tests::checks::{block_on, wait_until};
use tiercel_tests::nodes::{Setup, node};
use tiercel_tests::routed::Routed;
use tiercel_tests::{Host, Namespace, Pair, need_root};
use transport_user::{EngineOptions, Error, Lost, Node, NodeOptions, Tuning};

fn up(host: &Host) -> Result<Node> {
    node(host, EngineOptions::default(), Setup::default())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_ends_with_a_reason_when_its_mac_address_changes() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = up(&pair.a)?;
    let before = node.device().mac;
    pair.a.ip(&format!("link set {} address 02:00:00:00:00:77\n", Host::INTERFACE))?;
    let lost = block_on(node.lost());
    let Lost::MacChanged { interface, from, to } = &lost else { panic!("{lost}") };
    assert_eq!((interface.as_str(), *from, *to), (Host::INTERFACE, before, "02:00:00:00:00:77".parse().ok()));
    assert!(matches!(node.stats(), Err(Error::NodeDown)));
    drop(node);
    // It comes up again with the new one, as soon as the kernel has let go of the old program.
    let mut again = None;
    wait_until("the interface is free for another node", || {
        again = up(&pair.a).ok();
        again.is_some()
    });
    assert_eq!(again.map(|node| node.device().mac), *to);
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_ends_with_a_reason_when_its_interface_moves_away() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = up(&pair.a)?;
    let elsewhere = Namespace::new()?;
    pair.a.ip(&format!("link set {} netns {}\n", Host::INTERFACE, elsewhere.path().display()))?;
    let lost = block_on(node.lost());
    assert!(matches!(lost, Lost::InterfaceGone { .. }), "{lost}");
    // The program left with the node, so another can take the interface where it is now.
    let shown = elsewhere.command("ip", ["link", "show", Host::INTERFACE])?;
    assert!(!shown.contains("prog/xdp"), "{shown}");
    Ok(())
}

/// The name, the carrier and the address are followed. Each change is an event, and the node goes on.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_follows_its_interface() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    let host = &routed.hosts[0];
    // The interface is up, so its name changes only since Linux 6.2.
    host.ip("link set veth0 name eth7\n")?;
    a.wait_for_event("interface veth0 has the name eth7 now");
    assert_eq!(a.node.device().interface, "eth7");
    routed.router.ip("link set port0 down\n")?;
    a.wait_for_event("interface eth7 is down or has no carrier");
    assert!(!a.node.device().carrier);
    routed.router.ip("link set port0 up\n")?;
    a.wait_for_event("interface eth7 is up again");
    wait_until("the device says so", || a.node.device().carrier);
    let address = a.node.device().address;
    host.ip(&format!("addr del {address}/24 dev eth7\n"))?;
    a.wait_for_event(&format!("does not have the node's address {address} any more"));
    host.ip(&format!("addr add {address}/24 dev eth7\n"))?;
    a.wait_for_event(&format!("has the node's address {address} again"));
    assert!(a.node.stats().is_ok());
    Ok(())
}

/// A node that starts at boot waits until the kernel has checked its address for duplicates (RFC 4862). If another host has
/// the address, the node says so.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_tentative_address_is_waited_for_and_a_duplicate_is_named() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let address = "fd78::1".parse().expect("an address");
    let begin_check = |host: &Host| -> Result<()> {
        let setting = format!("/proc/sys/net/ipv6/conf/{}/accept_dad", Host::INTERFACE);
        host.run(|| std::fs::write(setting, "1"))?;
        host.ip(&format!("addr add {address}/64 dev {}\n", Host::INTERFACE))
    };
    let up = |host: &Host| host.run(|| Node::up(NodeOptions::new(Host::INTERFACE, address)));
    begin_check(&pair.a)?;
    let shown = pair.a.command("ip", ["-6", "address", "show", "dev", Host::INTERFACE])?;
    assert!(shown.contains("tentative"), "the check has ended before the test began: {shown}");
    let node = up(&pair.a)?;
    assert!(node.device().addresses.contains(&address));
    // It can be bound at once.
    pair.a.run(|| std::net::TcpListener::bind((address, 4792)))?;
    begin_check(&pair.b)?;
    let error = up(&pair.b).expect_err("A has the address");
    assert!(matches!(error, Error::AddressDuplicate { .. }), "{error}");
    Ok(())
}
