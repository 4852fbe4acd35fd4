//! The proof of the data path, the last step of a handshake.
//!
//! TCP reaches the peer long before anybody knows whether Falcon packets do: a firewall may drop their UDP port, a link may
//! drop their length, a driver may drop what XDP sends. So each end WRITEs into a region of the other end over the new
//! connection: a short packet, and one of full size. Each end tells the other what came of it. The connection is established
//! if all of them were acknowledged. Otherwise both ends close it, and say which packets do not pass in which direction.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use transport_common::ids::{Cid, RKey};
use transport_common::wire::udp::FALCON_UDP_PORT;

use super::agreement::Agreement;
use super::host::Host;
use super::message::{Message, WireError, read_message, write_message};
use super::{Shared, lock};

/// How many of the first retransmission timeouts the packets of a proof have, and the shortest and longest time of a proof.
const TIMEOUTS: u32 = 4;
const LIMITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

/// What came of the packets that one end sent as its part of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// A short packet was acknowledged.
    pub short: bool,
    /// A packet of full size was acknowledged.
    pub full: bool,
    /// Falcon packets of the other end arrived at this end.
    pub heard: bool,
}

impl Proof {
    /// The proof of an end whose packets all passed.
    pub const COMPLETE: Self = Self { short: true, full: true, heard: true };
}

/// A direction of the data path, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    There,
    Back,
    Both,
}

/// What the data path does not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    way: Way,
    /// The size that does not pass, bytes. `None`: no Falcon packet of any size passes.
    size: Option<u32>,
}

impl Blocked {
    /// Compares what both ends found on a connection with this MTU. Returns `None` if everything passed.
    fn find(here: Proof, there: Proof, mtu: u32) -> Option<Self> {
        let way = |there_passes: bool, back_passes: bool| match (there_passes, back_passes) {
            (false, true) => Some(Way::There),
            (true, false) => Some(Way::Back),
            (false, false) => Some(Way::Both),
            (true, true) => None,
        };
        // An acknowledged packet shows both directions for short packets: its own, and that of the acknowledgement.
        let short_passes = here.short || there.short;
        if short_passes {
            return way(here.full, there.full).map(|way| Self { way, size: Some(mtu) });
        }
        let way = way(there.heard, here.heard).unwrap_or(Way::Both);
        Some(Self { way, size: None })
    }

    /// Returns whether packets of a size above `size` bytes do not pass, and shorter ones do.
    pub(super) fn begins_above(self, size: u32) -> bool {
        self.size.is_some_and(|blocked| blocked > size)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::There => "to the peer",
            Way::Back => "from the peer",
            Way::Both => "to the peer or from it",
        };
        match self.size {
            None => write!(
                f,
                "no Falcon packet passes {way}: let UDP port {FALCON_UDP_PORT} pass in both directions in every firewall between \
                 the nodes"
            ),
            Some(size) => write!(
                f,
                "Falcon packets of {size} bytes do not pass {way}, shorter ones do: raise the MTU of the links between the nodes, \
                 or set `mtu` of the node below what they carry"
            ),
        }
    }
}

/// Makes a region into which the peer proves its direction. Without one, the data path is not proven.
pub(super) fn region<H: Host>(shared: &Shared<H>) -> Option<(H::Region, RKey)> {
    let region = shared.host.proof_region(shared.host.local().max_segment);
    if region.is_none() {
        shared.events.flood(|| {
            "no memory or no R_Key is left to prove data paths: connections are set up without a proof"
                .to_owned()
        });
    }
    region
}

/// Proves the data path of a connection that both ends have opened. `peers` is the peer's region. Returns what is blocked.
pub(super) async fn prove<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    agreement: &Agreement,
    peers: RKey,
) -> Result<Option<Blocked>, WireError> {
    let limit = (agreement.connection.tuning.rto * TIMEOUTS).clamp(LIMITS.0, LIMITS.1);
    let _proving = Proving::begin(shared, agreement.connection.local_cid);
    let here = shared.host.prove(agreement.connection.local_cid, peers, limit).await;
    write_message(stream, &Message::Proof { proof: here }, shared.timing.patience).await?;
    // The other end began at another time and may have a longer limit.
    match read_message(stream, shared.timing.patience.max(LIMITS.1) + LIMITS.1).await? {
        Message::Proof { proof: there } => Ok(Blocked::find(here, there, agreement.mtu)),
        _ => Err(WireError::Garbage("the message after ready is not proof".into())),
    }
}

/// Marks a connection as one whose data path is being proven, until it is dropped.
struct Proving<'a, H>(&'a Shared<H>, Cid);

impl<'a, H> Proving<'a, H> {
    fn begin(shared: &'a Shared<H>, cid: Cid) -> Self {
        lock(&shared.proving).insert(cid);
        Self(shared, cid)
    }
}

impl<H> Drop for Proving<'_, H> {
    fn drop(&mut self) {
        lock(&self.0.proving).remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Proof = Proof { short: false, full: false, heard: false };
    const HEARD: Proof = Proof { heard: true, ..NOTHING };
    const SHORT: Proof = Proof { full: false, ..Proof::COMPLETE };

    #[test]
    fn direction_and_size_are_named() {
        for (here, there, expected) in [
            (NOTHING, NOTHING, "no Falcon packet passes to the peer or from it: let UDP port 1000 "),
            (HEARD, NOTHING, "no Falcon packet passes to the peer: "),
            (NOTHING, HEARD, "no Falcon packet passes from the peer: "),
            (
                SHORT,
                Proof::COMPLETE,
                "Falcon packets of 1500 bytes do not pass to the peer, shorter ones do: ",
            ),
            (
                Proof::COMPLETE,
                SHORT,
                "Falcon packets of 1500 bytes do not pass from the peer, shorter ones do: ",
            ),
            (SHORT, SHORT, "Falcon packets of 1500 bytes do not pass to the peer or from it, "),
        ] {
            let blocked = Blocked::find(here, there, 1500).expect("something is blocked");
            assert!(blocked.to_string().starts_with(expected), "{here:?} {there:?}: {blocked}");
            assert_eq!([1499, 1500].map(|size| blocked.begins_above(size)), [here.short, false]);
        }
        assert_eq!(Blocked::find(Proof::COMPLETE, Proof::COMPLETE, 1500), None);
    }
}
