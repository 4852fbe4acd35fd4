//! How frames of the engine leave: redirected by XDP, or through the kernel's stack if the driver accepts none
//! from XDP.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::pin;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use tiercel::{Access, LocalCid, Mac, OpenConnection};
use tiercel_node::{Node, NodeOptions, Transmit};
use tiercel_tests::checks::{block_on, contents, counters, fill, settle, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::nodes::{CID_A, CID_B, Setup, TwoNodes};
use tiercel_tests::{Host, Namespace, Pair, need_root};
use transport_common::counters::Counter;
use transport_common::ids::RKey;

fn of(node: &Node, counter: Counter) -> u64 {
    counters(node)[counter.name()]
}

fn up(host: &Host, interface: &str, directory: &Path, name: &str, options: &[&str]) -> Result<NodeProcess> {
    let address = host.ipv4.to_string();
    let inbox = directory.display().to_string();
    let own =
        ["--interface", interface, "--address", &address, "--receive-dir", &inbox, "--receive-overwrite"];
    NodeProcess::up(host, directory, name, &[&own[..], options].concat())
}

/// Sends the stack's own frames on the loopback device. The program there must leave them alone.
fn talk_to_oneself(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.write_all(b"tiercel")?;
    let mut heard = [0; 7];
    listener.accept()?.0.read_exact(&mut heard)?;
    assert_eq!(&heard, b"tiercel");
    Ok(())
}

/// Moves bytes to B and back through the stack. Checks that they arrive, and that everything that counts as sent has
/// left.
fn there_and_back_through_the_stack(nodes: &TwoNodes) -> Result<()> {
    const BYTES: usize = 200_000;
    let (local, back) = (nodes.a.register(BYTES, Access::LOCAL)?, nodes.a.register(BYTES, Access::LOCAL)?);
    let remote = nodes.b.register(BYTES, Access::ALL)?;
    let sent = fill(&local, BYTES, 7);
    block_on(nodes.at_a.write(&local, 0, remote.key(), 0, BYTES as u64))?;
    block_on(nodes.at_a.read(&back, 0, remote.key(), 0, BYTES as u64))?;
    assert!(contents(&remote, BYTES) == sent && contents(&back, BYTES) == sent, "the bytes arrived");
    settle(&nodes.a);
    settle(&nodes.b);
    for (from, to) in [(&nodes.a, &nodes.b), (&nodes.b, &nodes.a)] {
        assert_eq!(from.transmit()?, Transmit::Stack);
        assert_eq!(of(from, Counter::DropNotSent), 0);
        all_has_left(from, to);
    }
    Ok(())
}

/// Waits until a node has received as many frames as count as sent at the other. The last ACK may still be on its way.
fn all_has_left(from: &Node, to: &Node) {
    wait_until("what counts as sent has left", || {
        let sent = counters(from);
        let left = sent[Counter::SentByEngine.name()] + sent[Counter::SentInReceivedFrame.name()];
        of(to, Counter::Received) == left
    });
}

/// Checks that B receives everything that A sends through the stack, and that the stack's own frames are not
/// affected.
fn through_the_stack(ipv6: bool) -> Result<()> {
    need_root();
    let setup = Setup { transmit: Some(Transmit::Stack), ipv6, ..Setup::default() };
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    nodes.pair.a.run(|| talk_to_oneself(if ipv6 { "[::1]:0" } else { "127.0.0.1:0" }))?;
    there_and_back_through_the_stack(&nodes)?;
    for node in [&nodes.a, &nodes.b] {
        wait_until("all that was handed to the stack is sent", || {
            let all = counters(node);
            all[Counter::HandedToStack.name()] == all[Counter::SentByEngine.name()]
        });
    }
    assert!(of(&nodes.a, Counter::SentByEngine) > 100, "a packet holds 3264 bytes");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn frames_leave_through_the_stack_over_ipv4() -> Result<()> {
    through_the_stack(false)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn frames_leave_through_the_stack_over_ipv6() -> Result<()> {
    through_the_stack(true)
}

/// A bridge behaves like e1000e: it has no native XDP, and it accepts no frames from XDP.
const BRIDGE: &str = "br0";

/// Puts the host's interface into a bridge. The bridge takes over the interface's address.
fn bridge(host: &Host) -> Result<()> {
    let (port, address) = (Host::INTERFACE, host.ipv4);
    host.ip(&format!(
        "link add {BRIDGE} type bridge forward_delay 0\nlink set {port} master {BRIDGE}\naddr flush dev {port}\n\
         addr add {address}/24 dev {BRIDGE}\nlink set {BRIDGE} up\n"
    ))
}

/// A file crosses in generic mode on a card without native XDP. It is compared by SHA-256 at both ends.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_file_crosses_through_the_stack() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    bridge(&pair.a)?;
    bridge(&pair.b)?;
    let (inbox_a, inbox_b) = (directory.path().join("a"), directory.path().join("b"));
    std::fs::create_dir(&inbox_a)?;
    std::fs::create_dir(&inbox_b)?;
    let a = up(&pair.a, BRIDGE, &inbox_a, "a", &["--generic"])?;
    let b = up(&pair.b, BRIDGE, &inbox_b, "b", &["--generic"])?;
    let status = a.json(&["status"])?;
    assert_eq!((&status["attach"], &status["transmit"]), (&"generic".into(), &"stack".into()));
    wait_until("the node tells how frames leave", || a.log().contains("frames leave by stack"));
    let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
    let file = directory.path().join("file");
    let content: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&file, &content)?;
    for via in ["send", "write"] {
        // `cp` fails unless both ends have the same SHA-256.
        a.ok(&["cp", "--overwrite", "--via", via, &file.display().to_string(), &format!("{cid}:")])?;
        assert!(std::fs::read(inbox_b.join("file"))? == content, "by {via}");
    }
    // The kernel may refuse a frame, for instance if it has no memory for the copy. Each is counted as one or the other. An ACK
    // may still leave between the two readings.
    let mut seen = [0; 3];
    wait_until("each frame was sent or refused", || {
        let names = ["handed_to_stack", "sent_by_engine", "drop_not_sent"];
        let counters = a.json(&["stats"]).expect("the node is up")["counters"].clone();
        let now = names.map(|name| counters[name].as_u64().expect("a counter"));
        if seen != now {
            eprintln!("{names:?}: {now:?}"); // shown if the test fails
            seen = now;
        }
        now[0] == now[1] + now[2]
    });
    // Frames of both wait in the same backlogs of the kernel, one for each CPU. When one is full of the source's data, it
    // refuses the few ACKs of the receiver too.
    let both = |name| Ok::<_, anyhow::Error>(a.counter(name)? + b.counter(name)?);
    let (handed, refused) = (both("handed_to_stack")?, both("drop_not_sent")?);
    assert!(refused * 100 <= handed, "{refused} of {handed} frames were refused");
    Ok(())
}

/// Checks that a frame that the kernel cannot pass to the card is counted as not sent, and never as sent. When the
/// card is up again, the connection works again.
fn nothing_leaves_while_the_interface_is_down(way: Transmit) -> Result<()> {
    need_root();
    let setup = Setup { transmit: Some(way), ..Setup::default() };
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    let local = nodes.a.register(4096, Access::LOCAL)?;
    let remote = nodes.b.register(4096, Access::ALL)?;
    let sent = fill(&local, 4096, 3);
    set_link(&nodes.pair.a, "down")?;
    block_on(async {
        let write = nodes.at_a.write(&local, 0, remote.key(), 0, 4096);
        let meanwhile = async {
            wait_until("frames do not leave", || of(&nodes.a, Counter::DropNotSent) >= 3);
            assert_eq!(of(&nodes.a, Counter::SentByEngine), 0);
            set_link(&nodes.pair.a, "up")
        };
        // The write is polled first, so it is under way.
        let (written, up) = futures_util::future::join(write, meanwhile).await;
        up?;
        Ok::<_, anyhow::Error>(written?)
    })?;
    assert!(contents(&remote, 4096) == sent);
    settle(&nodes.a);
    all_has_left(&nodes.a, &nodes.b);
    Ok(())
}

fn set_link(host: &Namespace, state: &str) -> Result<()> {
    host.ip(&format!("link set {} {state}\n", Host::INTERFACE))
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_frame_that_xdp_cannot_redirect_is_not_counted_as_sent() -> Result<()> {
    nothing_leaves_while_the_interface_is_down(Transmit::XdpRedirect)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_frame_that_the_stack_refuses_is_not_counted_as_sent() -> Result<()> {
    nothing_leaves_while_the_interface_is_down(Transmit::Stack)
}

/// Opens a TAP device in the calling thread's namespace. Its driver takes frames from XDP into a ring, which this file
/// empties.
fn open_tap(name: &str) -> Result<File> {
    let tap = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("this test needs the kernel's TUN/TAP driver: modprobe tun")?;
    // SAFETY: all zero bytes are a valid value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: the kernel reads and writes only the struct, which outlives the call.
    let done = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if done != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot make a TAP device");
    }
    Ok(tap)
}

/// The ring of the driver holds 8 frames, and nobody empties it. The others are counted as not sent.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_frame_for_which_the_drivers_ring_has_no_room_is_not_counted_as_sent() -> Result<()> {
    const TAP: &str = "tap0";
    const RING: usize = 8;
    need_root();
    let host = Namespace::new()?;
    let mut tap = host.run(|| open_tap(TAP))?;
    host.ip(&format!(
        "link set {TAP} txqueuelen {RING}\naddr add 10.9.0.1/24 dev {TAP}\nlink set {TAP} up\n"
    ))?;
    let node = host.run(|| {
        Node::up(NodeOptions {
            transmit: Some(Transmit::XdpRedirect),
            ..NodeOptions::new(TAP, IpAddr::from([10, 9, 0, 1]))
        })
    })?;
    let peer = OpenConnection::new(CID_B, IpAddr::from([10, 9, 0, 2]), Mac([2, 0, 0, 0, 9, 2]));
    let connection = node.open(OpenConnection { local_cid: LocalCid::Given(CID_A), ..peer })?;
    let local = node.register(100_000, Access::LOCAL)?;
    block_on(async {
        // The write never completes. It is polled first, so it is under way.
        let write = pin!(connection.write(&local, 0, RKey(1), 0, 100_000));
        let full = pin!(async { wait_until("the ring is full", || of(&node, Counter::DropNotSent) > 0) });
        futures_util::future::select(write, full).await;
    });
    connection.close();
    settle(&node);
    let (mut falcon, mut frame) = (0, [0; 2048]);
    while let Ok(length) = tap.read(&mut frame) {
        // The stack's own frames, such as those of IPv6, are no packets of the node.
        falcon +=
            u64::from(length > 38 && frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == [3, 232]);
    }
    assert!(falcon > 0, "the ring held some");
    assert_eq!(of(&node, Counter::SentByEngine), falcon, "what counts as sent has left");
    Ok(())
}

/// A veth accepts frames from XDP only while its other end polls. Before and after that, frames leave through the
/// stack.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_way_follows_what_the_driver_takes() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    pair.b.merge(false)?;
    let a = up(&pair.a, Host::INTERFACE, directory.path(), "a", &[])?;
    let way = || a.json(&["status"]).map_or(Value::Null, |status| status["transmit"].clone());
    assert_eq!(way(), "stack", "nobody polls at B");
    let mut b = up(&pair.b, Host::INTERFACE, directory.path(), "b", &[])?;
    wait_until("XDP is the way once B is up", || way() == "xdp_redirect");
    b.kill()?;
    wait_until("the stack is the way again", || way() == "stack");
    Ok(())
}

/// Two containers on a bridge: native XDP receives, but the driver takes no frames from XDP. Answers that are built in
/// the received frame leave too.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn nodes_in_containers_answer() -> Result<()> {
    need_root();
    let nodes = TwoNodes::up(Pair::bridged()?, Setup::default())?;
    there_and_back_through_the_stack(&nodes)?;
    for node in [&nodes.a, &nodes.b] {
        assert!(of(node, Counter::SentInReceivedFrame) > 0, "some are answers");
    }
    Ok(())
}

/// The refusal contains the kernel's message, and the hint fits.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_driver_without_native_xdp_is_refused_in_the_kernels_words() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    bridge(&pair.a)?;
    let address = pair.a.ipv4.to_string();
    let options = ["--interface", BRIDGE, "--address", &address];
    let refused = NodeProcess::refused(&pair.a, directory.path(), "a", &options)?;
    assert_eq!(refused.code, 1);
    let said = refused.stderr.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
    assert!(said.contains("does not support XDP") && said.contains("has no native XDP"), "{said}");
    assert!(said.ends_with("attach in generic mode (--generic)"), "{said}");
    Ok(())
}
