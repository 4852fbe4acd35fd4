//! The interface of a node: what the kernel says of it, and what a node changes of it.

pub(crate) mod ethtool;
pub(crate) mod gro;
pub(crate) mod link;
pub(crate) mod netdev;
pub(crate) mod netlink;
pub(crate) mod own_address;
pub(crate) mod receive_queues;
