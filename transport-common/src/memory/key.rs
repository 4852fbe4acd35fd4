//! Keys: how a peer and an application name memory, and which rights each of them can ask for.

use super::AccessFlags;
use crate::ids::RKey;
use bytemuck::{Pod, Zeroable};

/// Key with which an application names its own memory in a work request or a receive. A region has one key: an application
/// uses it as L_Key, and peers use it as R_Key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct LKey(pub u32);

impl LKey {
    /// The memory of the application's domain, without a region: the reserved L_Key of InfiniBand. An address is then an
    /// offset in the node's memory.
    pub const OWN: Self = Self(0);
}

/// What an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRight {
    /// To read. It may read every region of its domain.
    Read,
    /// To write.
    Write,
}

/// What a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteRight {
    /// To READ.
    Read,
    /// To WRITE.
    Write,
    /// To use atomics.
    Atomic,
}

impl From<LocalRight> for AccessFlags {
    #[inline(always)]
    fn from(right: LocalRight) -> Self {
        match right {
            LocalRight::Read => Self::empty(),
            LocalRight::Write => Self::LOCAL_WRITE,
        }
    }
}

impl From<RemoteRight> for AccessFlags {
    #[inline(always)]
    fn from(right: RemoteRight) -> Self {
        match right {
            RemoteRight::Read => Self::REMOTE_READ,
            RemoteRight::Write => Self::REMOTE_WRITE,
            RemoteRight::Atomic => Self::REMOTE_ATOMIC,
        }
    }
}

/// A key with the rights that its holder can ask for.
pub trait Key: Copy {
    /// The rights.
    type Right: Into<AccessFlags>;
    /// Whether 0 stands for the memory of the domain. Otherwise 0 is no key.
    const HAS_OWN: bool;
    /// Returns the number that the table of regions has.
    fn number(self) -> u32;
}

impl Key for LKey {
    type Right = LocalRight;
    const HAS_OWN: bool = true;

    #[inline(always)]
    fn number(self) -> u32 {
        self.0
    }
}

impl Key for RKey {
    type Right = RemoteRight;
    const HAS_OWN: bool = false;

    #[inline(always)]
    fn number(self) -> u32 {
        self.0
    }
}
