//! Tests hosts, cables and the live fabric with the kernel's own TCP and UDP.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use fabric_model::{Fabric, FabricConfig, LinkStats, Port, Time};
use tiercel_tests::checks::{PATIENCE, wait_until};
use tiercel_tests::{Bridge, Host, LiveFabric, Namespace, Network, Pair};

const A: Port = Port(0);
const B: Port = Port(1);

fn through(config: &str) -> Pair {
    let config: FabricConfig = config.parse().expect("a configuration");
    Pair::through(config).expect("root and iproute2")
}

fn live(pair: &Pair) -> &LiveFabric {
    pair.fabric().expect("a pair through a fabric")
}

fn towards(pair: &Pair, port: Port) -> LinkStats {
    live(pair).stats().fabric.towards.swap_remove(port.0.into())
}

/// Returns bytes that repeat only after some 251 MiB.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends bytes by TCP from one host to the other and back. They must come back unchanged.
fn echo(from: &Host, to: &Host, address: IpAddr, length: usize) {
    let listener = to.run(|| TcpListener::bind((address, 0))).expect("the address is the host's");
    let target = listener.local_addr().expect("bound");
    let stream = from.run(|| TcpStream::connect_timeout(&target, PATIENCE)).expect("the way is open");
    let (mut other, _) = listener.accept().expect("connected");
    let sent = pattern(length);
    let mut returned = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut all = Vec::new();
            other.set_read_timeout(Some(PATIENCE)).expect("not zero");
            other.read_to_end(&mut all).expect("all of it");
            other.write_all(&all).expect("all of it");
        });
        scope.spawn(|| {
            (&stream).write_all(&sent).expect("all of it");
            stream.shutdown(Shutdown::Write).expect("connected");
        });
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        (&stream).read_to_end(&mut returned).expect("all of it");
    });
    assert!(sent == returned, "{length} bytes came back changed");
}

/// Opens a socket on each host, and connects the first to the second.
fn sockets(pair: &Pair) -> (UdpSocket, UdpSocket) {
    let bind = |host: &Host| host.run(|| UdpSocket::bind((host.ipv4, 7000))).expect("a free port");
    let (a, b) = (bind(&pair.a), bind(&pair.b));
    a.connect((pair.b.ipv4, 7000)).expect("a route");
    b.set_read_timeout(Some(PATIENCE)).expect("not zero");
    // The default buffer holds 166 datagrams. A receiver that waits for its CPU would lose the others.
    let bytes: libc::c_int = 4 << 20;
    let (level, name, size) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size_of_val(&bytes) as u32);
    // SAFETY: the kernel reads `size` bytes of `bytes`, which outlives the call.
    let result = unsafe { libc::setsockopt(b.as_raw_fd(), level, name, (&raw const bytes).cast(), size) };
    assert_eq!(result, 0, "root may set any buffer size");
    (a, b)
}

/// Bytes of payload of a numbered datagram.
const DATAGRAM: usize = 200;

/// Sends numbered datagrams, then an end mark without impairments, and returns the numbers that arrived before it.
fn deliver(pair: &Pair, count: u32) -> Vec<u32> {
    let (a, b) = sockets(pair);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut numbers = Vec::new();
            let mut buffer = [0; 2048];
            loop {
                let length = b.recv(&mut buffer).expect("the last one is not lost");
                assert_eq!(length, DATAGRAM);
                match u32::from_be_bytes(*buffer.first_chunk().expect("long enough")) {
                    u32::MAX => return numbers,
                    number => numbers.push(number),
                }
            }
        });
        for number in 0..count {
            let mut datagram = [0x5a; DATAGRAM];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            a.send(&datagram).expect("sent");
        }
        // The end mark must not overtake frames that are still held back or queued.
        wait_until("all have crossed the fabric", || {
            let link = towards(pair, B);
            link.offered - link.spared == u64::from(count) && link.in_flight == 0
        });
        live(pair).set(B, "".parse().expect("valid"));
        a.send(&[0xff; DATAGRAM]).expect("sent");
        receiver.join().expect("received")
    })
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_cable_carries_tcp() {
    let pair = Pair::direct().expect("root and iproute2");
    assert!(pair.fabric().is_none());
    echo(&pair.a, &pair.b, pair.b.ipv4.into(), 8 << 20);
    echo(&pair.b, &pair.a, pair.a.ipv6.into(), 1 << 20);
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_fabric_without_impairments_changes_nothing() {
    let pair = through("seed=1");
    echo(&pair.a, &pair.b, pair.b.ipv4.into(), 8 << 20);
    echo(&pair.b, &pair.a, pair.a.ipv6.into(), 1 << 20);
    // The last segments of TCP may still be on their way when the bytes are there.
    let mut stats = live(&pair).stats();
    wait_until("nothing is in flight", || {
        stats = live(&pair).stats();
        stats.fabric.towards.iter().all(|link| link.in_flight == 0)
    });
    for link in &stats.fabric.towards {
        assert!(link.delivered > 1_000, "{link:?}");
        assert_eq!((link.delivered, link.dropped(), link.reordered), (link.offered, 0, 0));
    }
    assert_eq!((stats.overrun, stats.undeliverable), (0, 0));
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn tcp_arrives_whole_through_every_impairment() {
    let pair = through("seed=1,loss=1%,reorder=1%,duplicate=0.5%,corrupt=0.5%,delay=20us,jitter=10us,hops=2");
    echo(&pair.a, &pair.b, pair.b.ipv4.into(), 4 << 20);
    for port in [A, B] {
        let link = towards(&pair, port);
        let counts = [link.lost, link.held_back, link.reordered, link.duplicated, link.corrupted];
        assert!(counts.iter().all(|count| *count > 0), "{link:?}");
        // TCP may still repeat the end of its connection between the two readings.
        wait_until("each corruption is in the log", || {
            live(&pair).corruptions(port).len() as u64 == towards(&pair, port).corrupted
        });
    }
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_seed_decides_the_same_again_and_on_virtual_time() {
    let config = "seed=42,loss=5%,burst=1%/30%/100%,duplicate=3%,corrupt=3%,reorder=5%,reorder_hold=50ms";
    const COUNT: u32 = 500;
    let run = || {
        let pair = through(config);
        // The end mark of `deliver` comes after all the decisions compared here.
        let numbers = deliver(&pair, COUNT);
        let flips: Vec<_> =
            live(&pair).corruptions(B).into_iter().map(|c| (c.ordinal, c.copy, c.flips)).collect();
        (numbers, flips, towards(&pair, B))
    };
    let (first, second) = (run(), run());
    assert!(!first.0.is_sorted(), "some are reordered");
    assert_eq!(first.1, second.1, "the same bits are flipped");
    let sorted = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers
    };
    // The kernel drops corrupted datagrams by their checksum. Their time of arrival does not matter.
    assert_eq!(sorted(first.0), sorted(second.0), "the same datagrams arrive as often");

    let mut model = Fabric::new(2, config.parse().expect("valid")).expect("two ports");
    model.learn([2, 0, 0, 0, 0, 2], B);
    let mut frame = vec![0; 14 + 20 + 8 + DATAGRAM];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[23] = 17;
    (0..COUNT).for_each(|_| model.offer(Time::ZERO, A, frame.clone()));
    let model_flips: Vec<_> =
        model.corruptions(B).iter().map(|c| (c.ordinal, c.copy, c.flips.clone())).collect();
    assert_eq!(first.1, model_flips, "the model foretells the live run");
    let foretold = &model.stats().towards[1];
    let decisions =
        |link: &LinkStats| (link.lost, link.burst_lost, link.duplicated, link.corrupted, link.held_back);
    assert_eq!(decisions(&first.2), decisions(foretold));
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn order_is_kept_unless_reordering_is_asked_for() {
    let pair = through("seed=3,delay=200us,jitter=300us,rate=1Gbps,queue=1MiB");
    let numbers = deliver(&pair, 400);
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn hop_limits_and_marks_reach_real_headers() {
    let pair = through("hops=2,ecn=0,ecn_mark=always");
    let (a, b) = sockets(&pair);
    // The kernel checks the IPv4 header checksum, so a wrong update would lose the datagram.
    for ttl in [2, 3] {
        a.set_ttl(ttl).expect("an IPv4 socket");
        a.send(&[ttl as u8]).expect("sent");
    }
    let mut byte = [0];
    b.recv(&mut byte).expect("the second");
    assert_eq!(byte, [3], "the first died on the way");
    let link = towards(&pair, B);
    assert_eq!((link.hop_limit_expired, link.ecn_marked), (1, 1));
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn links_and_impairments_change_under_way() {
    let pair = through("");
    let (a, b) = sockets(&pair);
    let send = |byte: u8, offered: u64| {
        a.send(&[byte]).expect("sent");
        wait_until("the fabric has it", || {
            let link = towards(&pair, B);
            link.offered - link.spared == offered
        });
    };
    let recv = || {
        let mut byte = [0];
        b.recv(&mut byte).map(|_| byte[0]).expect("nothing drops it")
    };
    let fabric = live(&pair);
    send(1, 1);
    assert_eq!(recv(), 1);
    fabric.set_link(B, false);
    send(2, 2);
    fabric.set_link(B, true);
    fabric.set(B, "loss=100%".parse().expect("valid"));
    send(3, 3);
    fabric.set(B, "".parse().expect("valid"));
    send(4, 4);
    assert_eq!(recv(), 4);
    let link = towards(&pair, B);
    assert_eq!(link.lost, 1);
    assert!(link.link_down_dropped >= 1, "{link:?}");
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_star_joins_all_with_all() {
    let star = Network::star(4, "seed=1,delay=10us".parse().expect("valid")).expect("root and iproute2");
    for from in &star.hosts {
        for to in star.hosts.iter().filter(|to| to.mac != from.mac) {
            echo(from, to, to.ipv4.into(), 64 << 10);
        }
    }
    assert_eq!(star.fabric.stats().undeliverable, 0);
}

/// Returns the monotonic clock in nanoseconds.
fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec, which outlives the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_bridge_carries_everything_and_tells_when() {
    /// The largest time between the readings of two clocks.
    const SLACK: u64 = 100_000;
    let bridge = Bridge::new().expect("root");
    let mark = b"what is looked for";
    let capture = bridge.capture(move |at, frame| frame.ends_with(mark).then_some(at)).expect("root");
    echo(&bridge.a, &bridge.b, bridge.b.ipv4.into(), 1_000_000);
    echo(&bridge.b, &bridge.a, bridge.a.ipv6.into(), 1_000_000);
    assert!(capture.take().is_empty(), "nobody has sent it yet");
    let bind = |host: &Host| host.run(|| UdpSocket::bind((host.ipv4, 7000))).expect("a free port");
    let (a, b) = (bind(&bridge.a), bind(&bridge.b));
    b.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let sent = monotonic();
    a.send_to(mark, (bridge.b.ipv4, 7000)).expect("a route");
    assert_eq!(b.recv(&mut [0; DATAGRAM]).expect("it arrives"), mark.len());
    let arrived = monotonic();
    // Frames from the other host arrive on the other cable.
    b.send_to(mark, (bridge.a.ipv4, 7000)).expect("a route");
    let times = capture.take();
    assert!(
        times.len() == 1 && (sent - SLACK..arrived + SLACK).contains(&times[0]),
        "{sent} {times:?} {arrived}"
    );
    assert_eq!(capture.missed(), 0);
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_thread_enters_and_leaves() {
    let own = || std::fs::read_link("/proc/thread-self/ns/net").expect("proc is mounted");
    let namespace = Namespace::new().expect("root");
    let outside = own();
    {
        let _inside = namespace.enter().expect("root");
        assert_ne!(own(), outside);
        assert_eq!(own(), namespace.run(own));
    }
    assert_eq!(own(), outside);
    assert_eq!(std::fs::read_link(namespace.path()).expect("open"), namespace.run(own));
    let error = namespace.command("ip", ["link", "show", "nothing"]).expect_err("no such interface");
    assert!(error.to_string().contains("nothing"), "{error}");
}

/// Returns what a process leaves visible on the machine: named namespaces and interfaces.
fn visible() -> BTreeSet<String> {
    let output = Command::new("ip").args(["netns", "list"]).output().expect("iproute2");
    let interfaces = std::fs::read_dir("/sys/class/net").expect("sysfs is mounted");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("readable").file_name().to_string_lossy().into_owned()
    };
    let namespaces = String::from_utf8_lossy(&output.stdout).into_owned();
    interfaces.map(name).chain(namespaces.lines().map(|line| format!("namespace {line}"))).collect()
}

/// Waits until nothing is visible that was not before. Other programs make and remove interfaces as well.
fn nothing_is_left(before: &BTreeSet<String>) {
    wait_until("nothing is left behind", || visible().is_subset(before));
}

/// Returns whether the process runs. A zombie does not run.
fn is_running(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Set in the process that `kill_leaves_nothing_behind` starts and kills.
const VICTIM: &str = "TIERCEL_TESTS_VICTIM";

#[test]
#[ignore = "needs root: cargo xtask test"]
fn kill_leaves_nothing_behind() {
    if std::env::var_os(VICTIM).is_some() {
        victim();
    }
    let before = visible();
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "kill_leaves_nothing_behind"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut output = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    while !output.contains("sleeper=") || !output.ends_with('\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("the victim tells before it dies");
        output.push(byte[0].into());
    }
    let sleeper = output.trim_end().rsplit_once("sleeper=").expect("told").1.parse().expect("a process");
    assert!(is_running(sleeper));
    child.kill().expect("not dead yet");
    child.wait().expect("ours");
    wait_until("the kernel kills the sleeper", || !is_running(sleeper));
    nothing_is_left(&before);
}

/// Makes all kinds of objects, prints the id of the process inside, and waits to be killed.
fn victim() -> ! {
    let pair = through("seed=1,loss=1%");
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut sleeper = pair.a.spawn(command).expect("started");
    println!("\nsleeper={}", sleeper.id());
    panic!("the victim outlived its sleeper: {:?}", sleeper.wait());
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn dropping_ends_what_runs_inside() {
    let before = visible();
    let pair = through("seed=1");
    let target = SocketAddr::from((pair.b.ipv4, 7000));
    assert!(pair.a.run(|| TcpStream::connect_timeout(&target, PATIENCE)).is_err(), "nobody listens");
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut sleeper = pair.b.spawn(command).expect("started");
    // The thread that started it has ended, but the process still runs.
    assert!(sleeper.try_wait().expect("ours").is_none());
    drop(pair);
    assert!(!sleeper.wait().expect("ours").success(), "killed");
    nothing_is_left(&before);
}
