//! What the ends tell each other about the path between them: where they take probes, what came of a proof, and that it
//! carries less than before.

use serde::{Deserialize, Serialize};
use transport_common::wire::udp::FALCON_UDP_PORT;

/// Smallest MTU of an offer, bytes: the minimum of IPv6.
pub(super) const LEAST_MTU: u32 = 1280;

/// Where an end takes probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOffer {
    /// UDP port of the socket that takes probes.
    pub port: u16,
    /// The token that probes to this end must have.
    pub token: u64,
}

impl ProbeOffer {
    /// Checks that the peer does not lead probes to a port where they do harm.
    pub(super) fn check(self) -> Result<(), String> {
        match self.port {
            0 => Err("the port for probes is 0".to_owned()),
            FALCON_UDP_PORT => Err("the port for probes is that of Falcon packets".to_owned()),
            _ => Ok(()),
        }
    }
}

/// What came of the packets that one end sent as its part of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// An MTU that is smaller than that of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmallerMtu {
    /// IP MTU, bytes.
    pub mtu: u32,
    /// What it is the MTU of.
    pub of: MtuOf,
}

/// What a smaller MTU is the MTU of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MtuOf {
    /// The path, as probes have found.
    Path,
    /// The interface of the end that has said so.
    Node,
}

impl SmallerMtu {
    /// Checks what a peer has sent.
    pub(super) fn check(self) -> Result<(), String> {
        if self.mtu < LEAST_MTU { Err(format!("an MTU below {LEAST_MTU}")) } else { Ok(()) }
    }
}
