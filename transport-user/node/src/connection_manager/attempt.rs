//! How the connecting end tries to connect: what it takes the peer to know, and the path to carry.
//!
//! The first attempt offers everything. Each further one leaves out what the one before has shown not to work: a field of
//! the offer that a peer of an older release does not know, or a size of packets that the data path does not carry.

use std::time::Duration;

use transport_common::ids::Cid;

use super::agreement::{LEAST_MTU, Terms, make_offer};
use super::connect_error::ConnectError;
use super::host::LocalEnd;
use super::message::{Offer, RegionAdvertisement, Rejection};
use super::proof::Blocked;

/// Shortest patience with a peer that knows only that of 5 seconds. It sends a heartbeat each second.
const SHORTEST_UNTOLD: Duration = Duration::from_secs(3);

/// A field of the offer that not every release knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// The search for the MTU of the path.
    Probe,
    /// The proof of the data path.
    Proof,
    /// Another patience than that of every release.
    Patience,
    RackTlp,
}

impl Field {
    const ALL: [Self; 4] = [Self::Probe, Self::Proof, Self::Patience, Self::RackTlp];

    /// Returns what a peer says that does not know the field.
    fn refusal(self) -> &'static str {
        match self {
            Self::Probe => "unknown field `probe`",
            Self::Proof => "unknown field `proof`",
            Self::Patience => "unknown field `patience_ms`",
            Self::RackTlp => "unknown field `rack_tlp`",
        }
    }
}

/// One way to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    terms: Terms,
    /// Whether to search for the MTU of the path.
    search: bool,
    /// Whether to prove the data path.
    prove: bool,
    /// Whether to tell the patience.
    tell_patience: bool,
    /// What the data path did not carry with a larger MTU than the smallest.
    too_long: Option<Blocked>,
}

impl Attempt {
    /// Returns the first attempt. The terms leave neither RACK-TLP nor the patience open.
    pub(super) fn first(terms: Terms) -> Self {
        Self { terms, search: true, prove: true, tell_patience: true, too_long: None }
    }

    /// Returns the terms, which may be less than those of the first attempt.
    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    pub(super) fn searches(&self) -> bool {
        self.search
    }

    pub(super) fn proves(&self) -> bool {
        self.prove
    }

    /// Returns what the data path did not carry, if this attempt therefore has the smallest MTU.
    pub(super) fn too_long(&self) -> Option<Blocked> {
        self.too_long
    }

    /// Returns the offer, without what needs resources of the node: a socket for probes, and a region for the proof.
    pub(super) fn offer(&self, local: &LocalEnd, cid: Cid, regions: Vec<RegionAdvertisement>) -> Offer {
        let mut offer = make_offer(local, cid, self.terms.told(self.tell_patience), regions);
        offer.limit(self.too_long.map(|_| LEAST_MTU), local.address.is_ipv6());
        offer
    }

    /// Returns what to try after this attempt has failed, if there is something else.
    pub(super) fn after(self, error: &ConnectError) -> Option<Self> {
        match error {
            ConnectError::Rejected { reason: Rejection::Offer, text, .. } => {
                // Such a peer names the first field that it does not know.
                Field::ALL
                    .into_iter()
                    .find(|field| text.contains(field.refusal()))
                    .and_then(|field| self.without(field))
            }
            // The search may have found nothing, because a firewall drops its probes.
            ConnectError::DataPath { blocked, .. } if blocked.begins_above(LEAST_MTU) => {
                Some(Self { too_long: Some(*blocked), ..self })
            }
            _ => None,
        }
    }

    /// Returns the attempt that leaves a field out, unless this one has left it out.
    fn without(self, field: Field) -> Option<Self> {
        let patience = self.terms.patience.map(|patience| patience.max(SHORTEST_UNTOLD));
        let next = match field {
            Field::Probe => Self { search: false, ..self },
            Field::Proof => Self { prove: false, ..self },
            Field::Patience => Self { tell_patience: false, terms: Terms { patience, ..self.terms }, ..self },
            Field::RackTlp => Self { terms: Terms { rack_tlp: Some(false), ..self.terms }, ..self },
        };
        (next != self).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> ConnectError {
        let peer = ([10, 7, 0, 2], 4792).into();
        let text = format!("not a message of the protocol: {text}, expected one of `cid`");
        ConnectError::Rejected { peer, reason: Rejection::Offer, text }
    }

    /// A peer of the first release knows none of the fields, and names one after the other, in any order.
    #[test]
    fn each_field_is_left_out_once() {
        let terms =
            Terms { rack_tlp: Some(true), patience: Some(Duration::from_secs(1)), ..Terms::default() };
        for first in 0..Field::ALL.len() {
            let mut attempt = Attempt::first(terms);
            for field in Field::ALL.into_iter().cycle().skip(first).take(Field::ALL.len()) {
                let error = refusal(field.refusal());
                attempt = attempt.after(&error).expect("it can do without");
                assert_eq!(attempt.after(&error), None, "{field:?} is left out already");
            }
            assert!(!attempt.searches() && !attempt.proves());
            let told = attempt.terms().told(attempt.tell_patience);
            assert_eq!((told.patience, told.rack_tlp), (None, Some(false)));
            assert_eq!(attempt.terms().patience, Some(SHORTEST_UNTOLD));
        }
    }

    #[test]
    fn other_reasons_end_it() {
        let attempt = Attempt::first(Terms { rack_tlp: Some(true), ..Terms::default() });
        let peer = ([10, 7, 0, 2], 4792).into();
        let busy =
            ConnectError::Rejected { peer, reason: Rejection::Busy, text: Field::Probe.refusal().to_owned() };
        for error in [refusal("mtu is below 1280"), busy, ConnectError::Timeout { peer }] {
            assert_eq!(attempt.after(&error), None, "{error}");
        }
    }
}
