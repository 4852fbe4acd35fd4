//! What is wrong with the preparation of a run.

use serde::Serialize;
use transport_common::ids::{Cid, Psn, RKey};

use crate::subject::REGION_BYTES;

/// What is wrong with the preparation. No clause is judged then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "diagnosis", rename_all = "snake_case")]
pub enum Misfit {
    /// The peer answers nothing.
    #[error(
        "the peer did not answer a WRITE: check that it runs, that its connection has the CIDs, SPIs and first \
         sequence numbers of the file, and that the connection is fresh (`tiercel conn reset` on a Tiercel \
         peer)"
    )]
    Silent,
    /// The peer's kernel says that nobody listens.
    #[error(
        "no Falcon device is at this address: its host answers with ICMP that the port is unreachable. Start the peer"
    )]
    Unreachable,
    /// The tester's own packets come back.
    #[error(
        "no Falcon device is at this address: the tester's own packets come back unchanged. Look for a loop in the \
         network, or for a program that reflects packets"
    )]
    Echo,
    /// The peer has received packets of this connection before.
    #[error(
        "connection {} is not fresh: the peer expects data PSN {} and request PSN {}, and the file says {} and {}. Reset \
         it (`tiercel conn reset {}` at a Tiercel peer) or restart the peer, or correct the first sequence numbers in the \
         file", .peer_cid.0, .found.0.0, .found.1.0, .expected.0.0, .expected.1.0, .peer_cid.0
    )]
    NotFresh {
        /// The connection at the peer.
        #[serde(serialize_with = "number")]
        peer_cid: Cid,
        /// The PSNs that the peer expects next: data and request.
        #[serde(serialize_with = "psns")]
        found: (Psn, Psn),
        /// Those of the file.
        #[serde(serialize_with = "psns")]
        expected: (Psn, Psn),
    },
    /// What makes the peer submit operations does not.
    #[error(
        "the command of --trigger ended with {how}, and no packet of the {operation} that it was to submit came: run it by \
         hand with FALCON_OPERATION={operation}, FALCON_BYTES={bytes} and FALCON_CID={}, and correct it", .cid.0
    )]
    Trigger {
        /// The operation.
        operation: &'static str,
        /// Its bytes.
        bytes: u32,
        /// The connection at the peer.
        #[serde(serialize_with = "number")]
        cid: Cid,
        /// How the command ended.
        how: String,
    },
    /// The peer refuses an operation on the region.
    #[error(
        "the peer refuses a {operation} in the first {REGION_BYTES} bytes of the region with R_Key {}: name a region of the \
         peer with --rkey that has this size and allows WRITE, READ and atomics, and reset the connection", .rkey.0
    )]
    Region {
        /// The operation: WRITE, READ or fetch-and-add.
        operation: &'static str,
        /// The region.
        #[serde(serialize_with = "key")]
        rkey: RKey,
    },
}

fn number<S: serde::Serializer>(cid: &Cid, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(cid.0)
}

fn key<S: serde::Serializer>(key: &RKey, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(key.0)
}

fn psns<S: serde::Serializer>((data, request): &(Psn, Psn), to: S) -> Result<S::Ok, S::Error> {
    [data.0, request.0].serialize(to)
}
