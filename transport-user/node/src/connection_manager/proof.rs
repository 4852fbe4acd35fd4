//! The proof of the data path, the last step of a handshake.
//!
//! TCP reaches the peer long before anybody knows whether Falcon packets do: a firewall may drop their UDP port, a link may
//! drop their length, a driver may drop what XDP sends. So each end WRITEs into a region of the other end over the new
//! connection: a short packet, and one of full size. Each end tells the other what came of it. The connection is established
//! if all of them were acknowledged. Otherwise both ends close it, and say which packets do not pass in which direction.

use std::time::Duration;

use tokio::net::TcpStream;
use transport_common::ids::{Cid, RKey};

use super::agreement::Agreement;
use super::blocked::Blocked;
use super::host::Host;
use super::message::{Message, WireError, read_message, write_message};
use super::shared::Shared;
use crate::common::mutex::lock;

/// How many of the first retransmission timeouts the packets of a proof have, and the shortest time of a proof.
const TIMEOUTS: u32 = 4;
const SHORTEST: Duration = Duration::from_secs(2);

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
    let longest = shared.timing.proof;
    let limit = (agreement.connection.tuning.rto * TIMEOUTS).clamp(SHORTEST.min(longest), longest);
    let _proving = Proving::begin(shared, agreement.connection.local_cid);
    let here = shared.host.prove(agreement.connection.local_cid, peers, limit).await;
    write_message(stream, &Message::Proof { proof: here }, shared.timing.patience).await?;
    // The other end began at another time and may have a longer limit.
    match read_message(stream, shared.timing.patience.max(longest) + longest).await? {
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
