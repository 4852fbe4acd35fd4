//! Where hosts are attached.

/// A place where a host is attached, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}
