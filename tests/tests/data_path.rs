//! A data path that does not carry Falcon packets, at set-up and later, mostly while TCP passes. How soon it is noticed is
//! compared with what docs/limits.md states.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join;
use tiercel::{
    Access, Cid, Connection, ConnectionState, LocalCid, MemoryRegion, OpenConnection, OperationError, RKey,
    Tuning,
};
use tiercel_node::connection_manager::{ConnectError, Event, Terms};
use tiercel_tests::checks::{self, wait_until};
use tiercel_tests::need_root;
use tiercel_tests::operations::all;
use tiercel_tests::routed::{Dropped, End, Routed, address};
use tiercel_tests::stopwatch::{Stopwatch, Taken};
use transport_common::transaction::CompletionCode;

/// The bounds of docs/limits.md, "How soon an end is noticed", with default tuning and a short round trip. At set-up this is what
/// its range begins with, because the range depends on the round trip.
mod stated {
    use super::Duration;

    pub(super) const AT_SET_UP: Duration = Duration::from_secs(2);
    pub(super) const WITH_PACKETS_OUTSTANDING: Duration = Duration::from_secs(3);
    pub(super) const STATIC_NEVER_WORKED: Duration = Duration::from_secs(5);
    /// An event says that a static connection is stalled.
    pub(super) const STATIC_IS_TOLD: Duration = Duration::from_secs(1);
    /// Rounds until an operation of a static connection fails, for each packet that is too long.
    pub(super) const STATIC_LONG_PACKET: u32 = 1001;
    /// Rounds until a static connection is dead.
    pub(super) const STATIC_DIES: u32 = 2002;
    pub(super) const PATH_SHRINKS: Duration = Duration::from_secs(4);
    pub(super) const INTERFACE_SHRINKS: Duration = Duration::from_secs(1);
    pub(super) const NOTHING_OUTSTANDING: Duration = Duration::from_secs(5);
}

const THERE: Dropped = Dropped::FalconFrom(0);
const BACK: Dropped = Dropped::FalconFrom(1);

/// A firewall drops Falcon packets in one direction or both: there is no connection, in seconds, and the direction is named at
/// both ends.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_firewall_that_drops_falcon_packets_is_named_at_set_up() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        for (dropped, seen_by_a, seen_by_b) in [
            (&[THERE, BACK][..], "to the peer or from it", "to the peer or from it"),
            (&[THERE], "to the peer", "from the peer"),
            (&[BACK], "from the peer", "to the peer"),
        ] {
            dropped.iter().try_for_each(|what| routed.drop_silently(*what))?;
            let stopwatch = Stopwatch::start();
            let error = a.try_connect(&b).expect_err("nothing passes");
            stopwatch.taken().check("the refusal", stated::AT_SET_UP);
            assert!(matches!(error, ConnectError::DataPath { .. }), "{error}");
            let text = format!("no Falcon packet passes {seen_by_a}: let UDP port 1000 pass");
            assert!(error.to_string().contains(&text), "{error}");
            b.wait_for_event(&format!("no Falcon packet passes {seen_by_b}: "));
            dropped.iter().try_for_each(|what| routed.forward_again(*what))?;
        }
        wait_until("nothing is left open", || a.node.connections().len() + b.node.connections().len() == 0);
        // An attempt is no connection that could have lost its path.
        let lost = |event: &Event| event.text.contains("have not been acknowledged");
        assert!(!a.manager.events().iter().any(lost), "{:?}", a.manager.events());
        a.connect(&b)?;
        // The proof leaves nothing behind.
        for end in [&a, &b] {
            wait_until("its region is gone", || end.node.regions().is_empty());
        }
    }
    Ok(())
}

/// Writes until an operation fails. Returns how long the last one took.
fn write_until_it_fails(from: &End<'_>, connection: &Connection, key: RKey, length: u64) -> Result<Taken> {
    let local = from.node.register(length as usize, Access::LOCAL)?;
    let mut stopwatch = Stopwatch::start();
    for _ in 0..1000 {
        stopwatch.restart();
        if checks::block_on(connection.write(&local, 0, key, 0, length)).is_err() {
            return Ok(stopwatch.taken());
        }
    }
    panic!("1000 WRITEs of {length} bytes passed");
}

fn ended_at_both([a, b]: [&End<'_>; 2]) {
    wait_until("it has ended at both ends", || a.node.connections().len() + b.node.connections().len() == 0);
}

/// Waits until both ends have no connection any more, and checks that both say why.
fn both_ended([a, b]: [&End<'_>; 2], cause: &str) {
    ended_at_both([a, b]);
    a.wait_for_event(cause);
    b.wait_for_event(cause);
}

/// The path's second link shrinks while a connection is open: the next operation of full packets fails in seconds, and so do
/// connection and peer, with both sizes. A new connection has the new size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_path_that_shrinks_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        let remote = b.node.register(100_000, Access::ALL)?;
        // The end that writes, and the end whose answers to READs are too long.
        for (reads, narrow) in [(false, 1400), (true, 1300)] {
            a.connect(&b)?;
            let before = a.session().mtu;
            let connection = a.connection();
            let local = a.node.register(100_000, Access::LOCAL)?;
            checks::block_on(connection.write(&local, 0, remote.key(), 0, 100_000))?;
            routed.narrow(narrow)?;
            let stopwatch = Stopwatch::start();
            let failed = if reads {
                checks::block_on(connection.read(&local, 0, remote.key(), 0, 100_000)).is_err()
            } else {
                checks::block_on(connection.write(&local, 0, remote.key(), 0, 100_000)).is_err()
            };
            stopwatch.taken().check("the end of an operation of too long packets", stated::PATH_SHRINKS);
            assert!(failed, "reads {reads}");
            both_ended([&a, &b], &format!("bytes, and the connection was set up with {before}"));
            // A veth takes 4 bytes more than its MTU from the other end, in place of a VLAN tag. Either end may be the first
            // to know its direction.
            a.wait_for_event(&format!("the MTU of the path is now {}", narrow / 10));
        }
        a.connect(&b)?;
        assert_eq!(a.session().mtu, 1300);
    }
    Ok(())
}

/// The path shrinks while packets that fit it are lost for another reason: their end searches, because it is stalled, and both ends go
/// on with shorter packets.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_stalled_connection_whose_packets_fit_a_smaller_path_goes_on() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    // Packet delivery and the session do not give up, however long the search takes.
    let tuning = Tuning { max_retransmit_attempts: 60_000, ..Tuning::DEFAULT };
    let [a, b] = routed.up(false, tuning)?;
    a.connect(&b)?;
    a.there_and_back(&b)?;
    let connection = a.connection();
    let (local, remote) = (a.node.register(1000, Access::LOCAL)?, b.node.register(1000, Access::ALL)?);
    routed.narrow(1400)?;
    routed.drop_silently(THERE)?;
    let written = checks::block_on(async {
        let write = connection.write(&local, 0, remote.key(), 0, 1000);
        // If it ends, there is no session, and the write says so.
        let is_short = |end: &End<'_>| end.manager.sessions().iter().all(|session| session.mtu == 1400);
        let pass_again = async {
            while !(is_short(&a) && is_short(&b)) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            routed.forward_again(THERE)
        };
        let (written, forwarded) = join(write, pass_again).await;
        forwarded.map(|()| written)
    })?;
    assert_eq!(written, Ok(()), "{:?}", a.manager.events());
    for end in [&a, &b] {
        // An end may have found 1404 first, see above.
        end.wait_for_event("the MTU of the path is now 1400 bytes, it was ");
    }
    assert_eq!((a.connection().cid(), a.session().path_mtu), (connection.cid(), Some(1400)));
    assert!(connection.max_segment() < 1400);
    a.there_and_back(&b)?;
    b.there_and_back(&a)
}

/// The interface of a node shrinks: a connection with nothing on its way goes on at once with shorter packets, at both ends. One
/// whose packets on their way are too long ends, with both sizes. New ones have the new size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interface_that_shrinks_shortens_packets_or_ends_the_connection() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    let stopwatch = Stopwatch::start();
    routed.hosts[0].ip("link set veth0 mtu 1500\n")?;
    wait_until("packets are shorter at both ends", || [&a, &b].iter().all(|end| end.session().mtu == 1500));
    stopwatch.taken().check("the change", stated::INTERFACE_SHRINKS);
    a.wait_for_event("interface veth0: the node's MTU is now 1500 bytes, it was 3390");
    a.wait_for_event("the MTU of the node is now 1500 bytes, it was 3390: packets are shorter");
    b.wait_for_event("the MTU of the peer's node is now 1500 bytes, it was 3390: packets are shorter");
    assert_eq!(a.node.device().mtu, 1500);
    a.there_and_back(&b)?;
    b.there_and_back(&a)?;

    // These packets are on their way for as long as the test wants.
    let (connection, dropped) = (a.connection(), Dropped::LongFalconFrom(0, 1300));
    let (local, remote) = (a.node.register(10_000, Access::LOCAL)?, b.node.register(10_000, Access::ALL)?);
    routed.drop_silently(dropped)?;
    let mut stopwatch = Stopwatch::start();
    let (written, shrunk) = checks::block_on(async {
        let write = connection.write(&local, 0, remote.key(), 0, 10_000);
        // The write is polled first, so its packets have the old size.
        let shrink = async {
            stopwatch.restart();
            routed.hosts[0].ip("link set veth0 mtu 1300\n")
        };
        join(write, shrink).await
    });
    shrunk?;
    stopwatch.taken().check("the end of an operation of too long packets", stated::INTERFACE_SHRINKS);
    assert!(written.is_err(), "no packet of it passed");
    ended_at_both([&a, &b]);
    // The search of the path may find it before the node's own change has ended the connection.
    let sizes = " is now 1300 bytes, and the connection was set up with 1500";
    a.wait_for_event(sizes);
    b.wait_for_event(sizes);
    // The peer reads words of its own: its node has another MTU.
    let wrong = " closed by the peer: the MTU of the node";
    assert!(b.manager.events().iter().all(|event| !event.text.contains(wrong)));
    routed.forward_again(dropped)?;
    a.connect(&b)?;
    assert_eq!(a.session().mtu, 1300);
    a.there_and_back(&b)
}

/// Falcon packets stop passing while TCP goes on: the operation ends in seconds, and the connection at both ends with a cause.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_data_path_that_is_cut_later_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let remote = b.node.register(1000, Access::ALL)?;
    for dropped in [THERE, BACK] {
        a.connect(&b)?;
        routed.drop_silently(dropped)?;
        let took = write_until_it_fails(&a, &a.connection(), remote.key(), 5)?;
        took.check("the end of an operation", stated::WITH_PACKETS_OUTSTANDING);
        ended_at_both([&a, &b]);
        routed.forward_again(dropped)?;
    }
    a.wait_for_event(" ended: no packet was acknowledged for ");
    b.wait_for_event(" closed by the peer: no packet of the peer was acknowledged for ");
    a.wait_for_event("no Falcon packet of the peer arrives any more");
    Ok(())
}

/// A static connection has no handshake that proves its data path. If it never worked, the first operation shows it in
/// seconds, and events say it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_static_connection_whose_data_path_never_worked_is_told() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, _b] = routed.up(false, Tuning::DEFAULT)?;
    let peer = address(1, true, false);
    let open = OpenConnection {
        local_cid: LocalCid::Given(Cid(5)),
        ..OpenConnection::new(Cid(10), peer, a.node.resolve(peer)?)
    };
    let connection = a.node.open(open)?;
    let stopwatch = Stopwatch::start();
    let took = write_until_it_fails(&a, &connection, RKey(1), 5)?;
    took.check("the end of an operation", stated::STATIC_NEVER_WORKED);
    a.wait_for_event(&format!("connection 5 to {peer}: its packets have not been acknowledged for "));
    a.wait_for_event("no Falcon packet of the peer has ever arrived");
    a.wait_for_event(&format!("connection 5 to {peer} failed: the peer does not acknowledge its packets"));
    stopwatch.taken().check("the end of the connection", stated::STATIC_NEVER_WORKED);
    Ok(())
}

/// Nothing passes any more, neither Falcon nor TCP, as when a cable is pulled out behind a switch. With packets outstanding an end
/// notices it as soon as when only Falcon is cut. An end that waits for nothing notices it after its patience.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_peer_that_is_gone_is_noticed_in_time() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let remote = b.node.register(1000, Access::ALL)?;
    for outstanding in [true, false] {
        a.connect(&b)?;
        let connection = a.connection();
        let stopwatch = Stopwatch::start();
        routed.drop_silently(Dropped::Everything)?;
        if outstanding {
            let took = write_until_it_fails(&a, &connection, remote.key(), 5)?;
            took.check("the end of an operation", stated::WITH_PACKETS_OUTSTANDING);
        }
        ended_at_both([&a, &b]);
        stopwatch.taken().check("the end at both ends", stated::NOTHING_OUTSTANDING);
        routed.forward_again(Dropped::Everything)?;
        wait_until("the sessions have ended as well", || a.is_idle() && b.is_idle());
    }
    // This end had packets outstanding in the first round. The peer waited for nothing in both.
    a.wait_for_event("ended: no packet was acknowledged for ");
    for end in [&a, &b] {
        end.wait_for_event("lost: nothing arrived for 5 s");
    }
    Ok(())
}

/// Everything is lost for longer than the patience, while operations are outstanding. Each of them ends with the error of a dead
/// connection, an event says how many they were, and another connection takes the place. Nothing of the old one is repeated.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_of_a_lost_connection_end_and_another_takes_its_place() -> Result<()> {
    const OUTSTANDING: u64 = 7;
    const PART: u64 = 100;
    const LENGTH: usize = (OUTSTANDING * PART) as usize;
    const PATIENCE: Duration = Duration::from_secs(2);
    need_root();
    let routed = Routed::new()?;
    // Packet delivery itself does not give up, so the patience is what ends the connection.
    let tuning = Tuning { max_retransmit_attempts: 60_000, ..Tuning::DEFAULT };
    let [a, b] = routed.up(false, tuning)?;
    let terms = Terms { patience: Some(PATIENCE), reconnect: true, ..Terms::default() };
    let lost = a.try_connect_with(&b, terms)?;
    b.accept();
    let (local, remote) = (a.node.register(LENGTH, Access::LOCAL)?, b.node.register(LENGTH, Access::ALL)?);
    let connection = a.connection();
    let first = checks::fill(&local, LENGTH, 1);
    checks::block_on(connection.write(&local, 0, remote.key(), 0, LENGTH as u64))?;

    checks::fill(&local, LENGTH, 2);
    routed.drop_silently(Dropped::Everything)?;
    let stopwatch = Stopwatch::start();
    let write = |n: u64| connection.write(&local, n * PART, remote.key(), n * PART, PART);
    let ends = checks::block_on(all((0..OUTSTANDING).map(write)));
    stopwatch.taken().check("the end of the operations", PATIENCE);
    let dead = OperationError::Completion { code: CompletionCode::DeadConnection as u8, ulp_code: 0 };
    assert_eq!(ends, vec![Err::<(), _>(dead); OUTSTANDING as usize]);
    a.wait_for_event(&format!(
        "lost: nothing arrived for 2 s; {OUTSTANDING} outstanding operations completed with DeadConn"
    ));
    wait_until("it is being set up again", || {
        a.manager.reconnecting().iter().any(|reconnecting| reconnecting.cid == lost.0)
    });
    wait_until("the peer has lost it too", || b.is_idle());

    routed.forward_again(Dropped::Everything)?;
    wait_until("another takes its place", || a.manager.successor(lost).is_some());
    b.accept();
    let by = a.connection();
    assert_eq!(a.manager.successor(lost), Some(by.cid()));
    assert_ne!(by.cid(), lost);
    assert!(a.session().reconnects && a.manager.reconnecting().is_empty());
    let Cid(new) = by.cid();
    a.wait_for_event(&format!("connection {new} takes the place of connection {}, which was lost", lost.0));
    assert!(checks::contents(&remote, LENGTH) == first, "an operation of the lost connection took effect");
    let sent = checks::fill(&local, LENGTH, 3);
    checks::block_on(by.write(&local, 0, remote.key(), 0, LENGTH as u64))?;
    assert!(checks::contents(&remote, LENGTH) == sent);
    // The handle of the old one does not become that of the new one.
    let refused = checks::block_on(connection.write(&local, 0, remote.key(), 0, PART));
    assert_eq!(refused, Err(OperationError::Closed));
    Ok(())
}

/// A static connection between nodes on both hosts, and memory at both.
struct Fixed {
    connection: Connection,
    local: MemoryRegion,
    remote: MemoryRegion,
}

impl Fixed {
    /// CIDs at both ends.
    const CIDS: [u32; 2] = [5, 10];
    const BYTES: usize = 10_000;
    /// Data of two packets that are both longer than 1500 bytes.
    const TWO_LONG: u64 = 6000;

    fn open(ends: [&End<'_>; 2]) -> Result<Self> {
        Self::open_with(ends, Tuning::DEFAULT)
    }

    fn open_with([a, b]: [&End<'_>; 2], tuning: Tuning) -> Result<Self> {
        let open = |end: &End<'_>, own: u32, other: u32, peer: usize| -> Result<_> {
            let peer = address(peer, true, false);
            let mac = end.node.resolve(peer)?;
            Ok(end.node.open(OpenConnection {
                local_cid: LocalCid::Given(Cid(own)),
                tuning,
                ..OpenConnection::new(Cid(other), peer, mac)
            })?)
        };
        let [cid_a, cid_b] = Self::CIDS;
        open(b, cid_b, cid_a, 0)?;
        let connection = open(a, cid_a, cid_b, 1)?;
        let local = a.node.register(Self::BYTES, Access::LOCAL)?;
        let remote = b.node.register(Self::BYTES, Access::ALL)?;
        Ok(Self { connection, local, remote })
    }

    async fn write(&self, length: u64) -> Result<(), OperationError> {
        self.connection.write(&self.local, 0, self.remote.key(), 0, length).await
    }

    async fn read(&self, length: u64) -> Result<(), OperationError> {
        self.connection.read(&self.local, 0, self.remote.key(), 0, length).await
    }

    /// WRITEs, and compares what has arrived.
    fn moves(&self, length: usize, seed: u64) -> Result<()> {
        let sent = checks::fill(&self.local, length, seed);
        checks::block_on(self.write(length as u64))?;
        assert!(checks::contents(&self.remote, length) == sent, "{length} bytes: other bytes arrived");
        Ok(())
    }

    /// WRITEs until the last round trip was an ordinary one. The pause between two packets of the smallest window is a multiple
    /// of it, so a single long one would make the test long.
    fn warm_up(&self) {
        wait_until("the last round trip is an ordinary one", || {
            let written = checks::block_on(async {
                for _ in 0..50 {
                    self.write(5).await?;
                }
                Ok::<_, OperationError>(())
            });
            written.expect("the path works");
            let info = self.connection.info().expect("it is open");
            info.rtt_ns <= 4 * info.path.floor_ns.max(25_000)
        });
    }

    /// Runs an operation of this connection until it fails.
    fn fails(&self, end: &End<'_>, operation: impl Future<Output = Result<(), OperationError>>) -> Failed {
        let (told, round) = (Cell::new(None), Cell::new(Duration::ZERO));
        let stalled = |event: &Event| event.text.contains("its packets have not been acknowledged for ");
        let stopwatch = Stopwatch::start();
        let watch = async {
            loop {
                if told.get().is_none() && end.manager.events().iter().any(stalled) {
                    told.set(Some(stopwatch.taken()));
                }
                if let Ok(info) = self.connection.info() {
                    let now = Duration::from_nanos(info.rto_ns.max(info.inter_packet_gap_ns));
                    round.set(round.get().max(now));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let outcome = checks::block_on(async {
            tokio::select! {
                outcome = operation => outcome,
                () = watch => unreachable!("it goes on"),
            }
        });
        let taken = stopwatch.taken();
        assert!(matches!(outcome, Err(OperationError::Completion { .. })), "{outcome:?}");
        // The task that tells it may be late when the machine is busy. `Failed::check` says how late.
        let told = told.get().unwrap_or_else(|| {
            wait_until("an event says that the connection is stalled", || {
                end.manager.events().iter().any(stalled)
            });
            stopwatch.taken()
        });
        Failed { taken, told, round: round.get() }
    }
}

/// How an operation of a static connection failed.
#[derive(Debug)]
struct Failed {
    taken: Taken,
    /// When an event said that the connection is stalled.
    told: Taken,
    /// The longest round meanwhile: the retransmission timeout, or the pause between two packets of the smallest window.
    round: Duration,
}

impl Failed {
    /// Checks what is stated: an event after a second, and the end of the operation after so many rounds, or with the timeout of
    /// its transactions.
    fn check(&self, rounds: u32) {
        let stated = (rounds * self.round).min(Tuning::DEFAULT.transaction_timeout);
        self.told.check("the event", stated::STATIC_IS_TOLD);
        self.taken.check(&format!("the end of an operation, {rounds} rounds of {:?},", self.round), stated);
    }
}

/// The path of a static connection shrinks: an operation of packets that are too long fails, and an event says why. The connection
/// stays, and packets that fit pass.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_path_that_shrinks_fails_long_operations_of_a_static_connection() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let fixed = Fixed::open([&a, &b])?;
    fixed.moves(Fixed::TWO_LONG as usize, 1)?;
    routed.narrow(1400)?;
    fixed.warm_up();
    fixed.fails(&a, fixed.write(Fixed::TWO_LONG)).check(2 * stated::STATIC_LONG_PACKET);
    a.wait_for_event("and that the MTU of the path has not become smaller");
    for end in [&a, &b] {
        let states: Vec<_> = end.node.connections().iter().map(|info| info.state).collect();
        assert_eq!(states, [ConnectionState::Open]);
    }
    fixed.moves(1000, 2)
}

/// The answers to a READ are too long for a path that has shrunk. The end that reads waits for as long as its transactions may take.
/// The end that answers knows better, and its event says so.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_path_that_shrinks_fails_long_reads_of_a_static_connection() -> Result<()> {
    // Shorter than the default, which would only make the test long.
    const TIMEOUT: Duration = Duration::from_secs(3);
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let fixed = Fixed::open_with([&a, &b], Tuning { transaction_timeout: TIMEOUT, ..Tuning::DEFAULT })?;
    checks::block_on(fixed.read(3000))?;
    routed.narrow(1300)?;
    fixed.warm_up();
    let failed = fixed.fails(&b, fixed.read(3000));
    failed.told.check("the event", stated::STATIC_IS_TOLD);
    failed.taken.check("the end of a READ", TIMEOUT);
    assert!(fixed.connection.is_alive());
    fixed.moves(1000, 1)
}

/// The interface of a node with a static connection shrinks: an operation whose packets are on their way fails, and an event says
/// it. New packets are shorter, and so are those of the peer's answers.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interface_that_shrinks_shortens_new_packets_of_a_static_connection() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let fixed = Fixed::open([&a, &b])?;
    fixed.moves(Fixed::TWO_LONG as usize, 1)?;
    fixed.warm_up();
    // These packets are on their way for as long as the test wants.
    let dropped = Dropped::LongFalconFrom(0, 1300);
    routed.drop_silently(dropped)?;
    let operation = async {
        // The write is polled first, so its packets have the old size.
        let shrink = async { routed.hosts[0].ip("link set veth0 mtu 1500\n") };
        let (written, shrunk) = join(fixed.write(Fixed::TWO_LONG), shrink).await;
        shrunk.expect("the interface can be shorter");
        written
    };
    fixed.fails(&a, operation).check(2 * stated::STATIC_LONG_PACKET);
    a.wait_for_event(
        "the node's MTU is now 1500 bytes, it was 3390; static connections send shorter packets",
    );
    wait_until("new packets are shorter", || fixed.connection.max_segment() < 1500);
    routed.forward_again(dropped)?;
    fixed.moves(Fixed::BYTES, 2)?;
    let sent = checks::fill(&fixed.remote, Fixed::BYTES, 3);
    checks::block_on(fixed.read(Fixed::BYTES as u64))?;
    assert!(checks::contents(&fixed.local, Fixed::BYTES) == sent, "READ: other bytes came");
    Ok(())
}

/// The data path of a static connection worked, and then carries nothing any more: an event says so, the operation fails, and the
/// connection is dead.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_static_connection_whose_data_path_dies_is_told() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let fixed = Fixed::open([&a, &b])?;
    fixed.moves(Fixed::BYTES, 1)?;
    fixed.warm_up();
    routed.drop_silently(Dropped::Everything)?;
    fixed.fails(&a, fixed.write(5)).check(stated::STATIC_DIES);
    let [cid, _] = Fixed::CIDS;
    let peer = address(1, true, false);
    a.wait_for_event("no Falcon packet of the peer arrives any more");
    a.wait_for_event(&format!(
        "connection {cid} to {peer} failed: the peer does not acknowledge its packets; when the peer is back, reset a static \
         connection with `tiercel conn reset {cid}`"
    ));
    assert_eq!(fixed.connection.state(), ConnectionState::Fatal);
    // The peer waits for nothing, so it notices nothing.
    assert_eq!(b.node.connections().len(), 1);
    Ok(())
}
