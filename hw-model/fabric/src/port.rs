//! The ports of hosts.

/// The number of a port for a host, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}
