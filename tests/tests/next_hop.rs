//! A router fails over to another one with another MAC address. Connections go on with it.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::join;
use tiercel::{Access, Cid, ConnectionState, Mac, Tuning};
use tiercel_tests::checks::{self, wait_until};
use tiercel_tests::need_root;
use tiercel_tests::routed::{Dropped, End, Routed, address};
use tiercel_tests::stopwatch::Stopwatch;
use tiercel_tests::veth::MacAddress;

/// The bounds of docs/limits.md, "How soon an end is noticed".
mod stated {
    use super::Duration;

    /// From the moment when the kernel knows the address.
    pub(super) const ANNOUNCED: Duration = Duration::from_millis(500);
    /// From the moment when a packet is outstanding.
    pub(super) const NOT_ANNOUNCED: Duration = Duration::from_secs(2);
}

const LENGTH: usize = 100_000;
/// The MAC addresses of the other router.
const ROUTERS: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 0x98]), MacAddress([2, 0, 0, 0, 0, 0x99])];

/// Two connected ends, and what is expected of them.
struct Connected<'e> {
    ends: [&'e End<'e>; 2],
    cids: [Cid; 2],
    generation: u32,
    /// The next hops of both ends.
    before: [Mac; 2],
}

impl<'e> Connected<'e> {
    fn new([a, b]: [&'e End<'e>; 2], ipv6: bool) -> Result<Self> {
        a.connect(b)?;
        let before = [a.node.resolve(address(1, true, ipv6))?, b.node.resolve(address(0, true, ipv6))?];
        let info = a.connection().info()?;
        assert_eq!(info.peer_mac, before[0]);
        let cids = [a.connection().cid(), b.connection().cid()];
        Ok(Self { ends: [a, b], cids, generation: info.generation, before })
    }

    /// Returns whether both ends send to the other router.
    fn moved(&self) -> Result<bool> {
        let sends_to = |end: &End<'_>| end.connection().info().map(|info| info.peer_mac);
        let [a, b] = self.ends;
        Ok([sends_to(a)?, sends_to(b)?] == ROUTERS.map(|router| Mac(router.0)))
    }

    /// Checks that both ends name both addresses, that the connection is the same, and that it works.
    fn goes_on(&self) -> Result<()> {
        for (n, end) in self.ends.into_iter().enumerate() {
            let (cid, now, was) = (self.cids[n], ROUTERS[n], self.before[n]);
            end.wait_for_event(&format!("next hop of connection {} is now {now} instead of {was}", cid.0));
            assert_eq!(end.connection().cid(), cid);
        }
        let [a, b] = self.ends;
        let connection = a.connection();
        assert_eq!(
            (connection.state(), connection.info()?.generation),
            (ConnectionState::Open, self.generation)
        );
        assert_eq!(a.manager.statistics().path_lost + b.manager.statistics().path_lost, 0);
        a.there_and_back(b)?;
        b.there_and_back(a)
    }
}

/// Another router takes over while an operation is under way. As soon as the hosts know it, both ends go on with it: the end that
/// waits for acknowledgements, and the end that only sends some. The operation ends well, over the same connection, and both ends
/// name both addresses.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_router_with_another_mac_address_is_followed() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        let (local, remote) =
            (a.node.register(LENGTH, Access::LOCAL)?, b.node.register(LENGTH, Access::ALL)?);
        let connected = Connected::new([&a, &b], ipv6)?;
        let (connection, sent) = (a.connection(), checks::fill(&local, LENGTH, 7));

        // Until the other router is there, nothing passes. So the operation cannot end before.
        let dropped = Dropped::FalconFrom(0);
        routed.drop_silently(dropped)?;
        let (written, followed) = checks::block_on(async {
            let write = connection.write(&local, 0, remote.key(), 0, LENGTH as u64);
            // The write is polled first.
            let take_over = async {
                routed.take_over(ROUTERS)?;
                let stopwatch = Stopwatch::start();
                routed.forward_again(dropped)?;
                while !connected.moved()? {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                anyhow::Ok(stopwatch.taken())
            };
            join(write, take_over).await
        });
        assert_eq!(written, Ok(()), "IPv6 {ipv6}: {:?}", a.manager.events());
        followed?.check("another next hop", stated::ANNOUNCED);
        assert!(checks::contents(&remote, LENGTH) == sent, "other bytes arrived");
        connected.goes_on()?;
    }
    Ok(())
}

/// Another router takes over and does not announce itself: the kernel goes on with an entry that is wrong, and would notice
/// after many seconds. The stalled end asks for the address. The other end only acknowledges. It learns the address from the
/// question of the router, or asks because its peer is stalled.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_router_that_does_not_announce_itself_is_followed() -> Result<()> {
    need_root();
    for (ipv6, known) in [(false, "stale"), (false, "reachable"), (true, "stale"), (true, "reachable")] {
        let routed = Routed::new()?;
        routed.learn_router(known)?;
        // Packet delivery itself does not give up, however long the machine takes.
        let tuning = Tuning { max_retransmit_attempts: 60_000, ..Tuning::DEFAULT };
        let [a, b] = routed.up(ipv6, tuning)?;
        let (local, remote) =
            (a.node.register(LENGTH, Access::LOCAL)?, b.node.register(LENGTH, Access::ALL)?);
        let connected = Connected::new([&a, &b], ipv6)?;
        let (connection, sent) = (a.connection(), checks::fill(&local, LENGTH, 7));

        routed.take_over_silently(ROUTERS)?;
        let stopwatch = Stopwatch::start();
        let written = checks::block_on(connection.write(&local, 0, remote.key(), 0, LENGTH as u64));
        let taken = stopwatch.taken();
        assert_eq!(written, Ok(()), "IPv6 {ipv6}, {known}: {:?}", a.manager.events());
        taken.check("another next hop that nobody announced", stated::NOT_ANNOUNCED);
        assert!(checks::contents(&remote, LENGTH) == sent, "other bytes arrived");
        wait_until("both ends send to the other router", || connected.moved().is_ok_and(|moved| moved));
        connected.goes_on()?;
    }
    Ok(())
}
