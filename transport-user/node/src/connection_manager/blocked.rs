//! What a data path does not carry, from what both ends say of their proofs.

use std::fmt;

use transport_common::wire::udp::FALCON_UDP_PORT;

use super::path_reports::Proof;

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
    /// Returns what is blocked, from the proofs of both ends at an MTU.
    pub(super) fn find(here: Proof, there: Proof, mtu: u32) -> Option<Self> {
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
