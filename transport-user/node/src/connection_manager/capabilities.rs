//! What two ends are able to do: the versions of the protocol that they speak, and their capabilities by name.
//!
//! Each end introduces itself with its first message. The ends speak the highest version that both have, and use the
//! capabilities that both name. What one end lacks, the connection does without; what an end cannot do without, it requires.
//!
//! So releases can differ. An end ignores capabilities, parameters and fields that it does not know: a later release may add
//! a field that may be ignored. What has to be understood gets a capability, and a message of its own is sent only to a peer
//! that has it. A capability whose parameters change their form gets another name. A new version is for changes that none of
//! this allows.

use std::fmt;

use serde::{Deserialize, Serialize};
use tiercel::PLAINTEXT_VERSION;

use super::path_reports::ProbeOffer;

/// The versions of the protocol that this release speaks.
pub const VERSIONS: Versions = Versions { lowest: 1, highest: 1 };
/// Version of the mapping of RDMA, and of the block protocol, to Falcon.
const MAPPING: u32 = 1;
/// Most names that a peer may require, and most choices for one capability.
const MOST: usize = 64;
/// Longest name of a capability, bytes.
const LONGEST_NAME: usize = 64;

/// Versions of the protocol that an end speaks, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The lowest.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
}

impl Versions {
    /// Returns the highest version that is in both, if there is one.
    pub fn in_common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (self.lowest.max(other.lowest) <= highest).then_some(highest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lowest, highest } = self;
        if lowest == highest {
            write!(f, "version {lowest}")
        } else {
            write!(f, "versions {lowest} to {highest}")
        }
    }
}

/// The end of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that sends the first message.
    Connecting,
    /// The end that answers.
    Accepting,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Connecting => Self::Accepting,
            Self::Accepting => Self::Connecting,
        }
    }
}

/// The parameters of a capability.
trait Parameters: Sized {
    /// Returns what `own` and `peers` have in common, with what this end has to know of the peer's. `None`: nothing.
    fn in_common(own: &Self, peers: &Self, side: Side) -> Option<Self>;
}

/// A capability without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {}

impl Parameters for Present {
    fn in_common(_: &Self, _: &Self, _: Side) -> Option<Self> {
        Some(Self {})
    }
}

/// A capability in several variants, such as versions. The connecting end decides: the first of its choices that the
/// accepting end has as well is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The variants that an end has, the best first.
    pub choices: Vec<u32>,
}

impl Choice {
    /// The only variant of an end.
    pub fn only(choice: u32) -> Self {
        Self { choices: vec![choice] }
    }
}

impl Parameters for Choice {
    fn in_common(own: &Self, peers: &Self, side: Side) -> Option<Self> {
        let (first, second) = match side {
            Side::Connecting => (own, peers),
            Side::Accepting => (peers, own),
        };
        first.choices.iter().find(|choice| second.choices.contains(choice)).copied().map(Self::only)
    }
}

/// Each end takes probes at a place of its own.
impl Parameters for ProbeOffer {
    fn in_common(_: &Self, peers: &Self, _: Side) -> Option<Self> {
        Some(*peers)
    }
}

/// Where an end takes the packets by which the peer proves its direction of the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofRegion {
    /// R_Key of a region as long as the largest segment of the end.
    pub rkey: u32,
}

impl Parameters for ProofRegion {
    fn in_common(_: &Self, peers: &Self, _: Side) -> Option<Self> {
        Some(*peers)
    }
}

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident: $parameters:ty),+ $(,)?) => {
        /// The capabilities of an end for one connection, by name.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Capabilities {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$parameters>),+
        }

        impl Capabilities {
            const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Returns whether the capability with this name is among them.
            pub fn has(&self, name: &str) -> bool {
                match name {
                    $(stringify!($name) => self.$name.is_some(),)+
                    _ => false,
                }
            }

            /// Returns what both ends have. Where each end has parameters of its own, they are the peer's.
            fn in_common(&self, peer: &Self, side: Side) -> Self {
                Self {
                    $($name: match (&self.$name, &peer.$name) {
                        (Some(own), Some(peers)) => Parameters::in_common(own, peers, side),
                        _ => None,
                    }),+
                }
            }
        }
    };
}

capabilities! {
    /// RDMA. The choices are versions of its mapping to Falcon: 1 is that of D-84.
    rdma: Choice,
    /// The block protocol. The choices are its versions.
    block: Choice,
    /// PSP. The choices are PSP versions: 15 is plaintext (D-83).
    psp: Choice,
    /// Tunnel mode (F-7.1.2-1).
    tunnel: Present,
    /// The RACK-TLP extension is on (F-9.1.6-9).
    rack_tlp: Present,
    /// The search for the MTU of the path: where an end takes probes. The accepting end says so by `Probe` before.
    path_search: ProbeOffer,
    /// The proof of the data path: the region for it.
    path_proof: ProofRegion,
}

/// How an end introduces itself with its first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The versions of the protocol that it speaks.
    pub versions: Versions,
    /// Its capabilities.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Names of the capabilities without which it opens no connection. A peer that does not know one says so, whatever else
    /// the message contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

impl Default for Introduction {
    /// What this release is able to do with every connection.
    fn default() -> Self {
        let capabilities = Capabilities {
            rdma: Some(Choice::only(MAPPING)),
            block: Some(Choice::only(MAPPING)),
            psp: Some(Choice::only(PLAINTEXT_VERSION.into())),
            tunnel: Some(Present {}),
            ..Capabilities::default()
        };
        Self { versions: VERSIONS, capabilities, required: vec!["psp".to_owned()] }
    }
}

impl Introduction {
    /// Requires another capability of the peer.
    pub(super) fn require(&mut self, name: impl fmt::Display) {
        self.required.push(name.to_string());
    }

    /// Says whether RACK-TLP is on at this end.
    pub(super) fn set_rack_tlp(&mut self, on: bool) {
        self.capabilities.rack_tlp = on.then_some(Present {});
    }

    /// Returns what both ends have. `side` is that of this end.
    ///
    /// # Errors
    /// One end requires a capability that is not common to both.
    pub(super) fn in_common(&self, peer: &Self, side: Side) -> Result<Capabilities, Missing> {
        let common = self.capabilities.in_common(&peer.capabilities, side);
        for (required, other, lacks) in
            [(&self.required, &peer.capabilities, side.other()), (&peer.required, &self.capabilities, side)]
        {
            if let Some(name) = required.iter().find(|name| !common.has(name)) {
                let lacks = (!other.has(name)).then_some(lacks);
                return Err(Missing { name: name.clone(), lacks });
            }
        }
        Ok(common)
    }

    /// Checks the limits that the types do not enforce.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_name = |name: &String| {
            (1..=LONGEST_NAME).contains(&name.len())
                && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        };
        if self.required.len() > MOST || !self.required.iter().all(is_name) {
            return Err("the names of required capabilities exceed their limits");
        }
        let Capabilities { rdma, block, psp, .. } = &self.capabilities;
        if [rdma, block, psp].into_iter().flatten().any(|choice| choice.choices.len() > MOST) {
            return Err("a capability has too many choices");
        }
        Ok(())
    }

    /// Returns a required capability that this release does not know, if there is one.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.required.iter().map(String::as_str).find(|name| !Capabilities::NAMES.contains(name))
    }
}

/// A capability that a connection needs and that is not common to both ends. The text is true at both ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The end that does not have it. `None`: both have it, and no variant of it is the same.
    pub lacks: Option<Side>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection needs the capability \"{}\", ", self.name)?;
        match self.lacks {
            Some(Side::Connecting) => {
                write!(f, "which the connecting end does not have: install a newer release there")?
            }
            Some(Side::Accepting) => {
                write!(f, "which the accepting end does not have: install a newer release there")?
            }
            None => {
                write!(f, "of which the ends have no variant in common: install the same release on both")?
            }
        }
        match self.name.as_str() {
            "rdma" | "block" => write!(f, ", or choose another ULP"),
            "tunnel" => write!(f, ", or connect without a tunnel"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(choices: &[u32]) -> Option<Choice> {
        Some(Choice { choices: choices.to_vec() })
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let of = |lowest, highest| Versions { lowest, highest };
        for (own, peers, common) in [
            (of(1, 1), of(1, 1), Some(1)),
            (of(1, 3), of(2, 7), Some(3)),
            (of(2, 7), of(1, 3), Some(3)),
            (of(1, 9), of(4, 5), Some(5)),
            (of(1, 1), of(2, 3), None),
            (of(4, 4), of(2, 3), None),
            (of(1, 1), of(1, 0), None),
        ] {
            assert_eq!(own.in_common(peers), common, "{own}, {peers}");
        }
    }

    /// Both ends compute the same, whichever list is longer. The connecting end prefers.
    #[test]
    fn both_ends_choose_the_same_variant() {
        for (connecting, accepting, chosen) in [
            (&[3, 2, 1][..], &[1, 2][..], Some(2)),
            (&[0, 1, 15], &[15, 1], Some(1)),
            (&[1], &[1, 2, 3], Some(1)),
            (&[1], &[2], None),
            (&[], &[1], None),
        ] {
            let [c, a] = [connecting, accepting]
                .map(|list| Capabilities { psp: choices(list), ..Capabilities::default() });
            let at = [c.in_common(&a, Side::Connecting), a.in_common(&c, Side::Accepting)];
            let expected = chosen.map(Choice::only);
            assert_eq!(at.map(|common| common.psp), [expected.clone(), expected]);
        }
    }

    /// Where each end has parameters of its own, it learns those of the peer.
    #[test]
    fn each_end_learns_the_parameters_of_the_other() {
        let of = |rkey| Capabilities { path_proof: Some(ProofRegion { rkey }), ..Capabilities::default() };
        assert_eq!(of(1).in_common(&of(2), Side::Connecting), of(2));
        assert_eq!(of(2).in_common(&of(1), Side::Accepting), of(1));
        assert_eq!(of(1).in_common(&Capabilities::default(), Side::Connecting), Capabilities::default());
    }

    /// Both ends find the same cause, whichever of them requires what the other lacks.
    #[test]
    fn what_is_missing_is_named_at_both_ends() {
        let whole = Introduction::default();
        let mut needs_block = whole.clone();
        needs_block.require("block");
        let mut without_block = whole.clone();
        without_block.capabilities.block = None;
        let mut later = whole.clone();
        later.capabilities.psp = choices(&[0, 1]);
        let newer = "install a newer release there, or choose another ULP";
        for (connecting, accepting, lacks, name, says) in [
            (&needs_block, &without_block, Some(Side::Accepting), "block", newer),
            (&without_block, &needs_block, Some(Side::Connecting), "block", newer),
            (&whole, &later, None, "psp", "install the same release on both"),
        ] {
            let missing = connecting.in_common(accepting, Side::Connecting).expect_err("it is missing");
            assert_eq!(accepting.in_common(connecting, Side::Accepting), Err(missing.clone()));
            assert_eq!((missing.name.as_str(), missing.lacks), (name, lacks));
            let text = missing.to_string();
            assert!(text.contains(&format!("the capability \"{name}\"")) && text.ends_with(says), "{text}");
        }
        assert!(needs_block.in_common(&whole, Side::Connecting).is_ok());
    }

    #[test]
    fn every_name_is_known() {
        let mut introduction = Introduction::default();
        Capabilities::NAMES.iter().for_each(|name| introduction.require(name));
        assert_eq!((introduction.unknown(), introduction.check()), (None, Ok(())));
        introduction.require("nvme_2");
        assert_eq!(introduction.unknown(), Some("nvme_2"));
        for name in ["", "\u{1b}[2J", "Upper", &"n".repeat(65)] {
            let introduction = Introduction { required: vec![name.to_owned()], ..Introduction::default() };
            assert!(introduction.check().is_err(), "{name:?}");
        }
    }
}
