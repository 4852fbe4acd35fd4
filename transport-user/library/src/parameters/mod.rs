//! With what a connection is opened, and what follows from it and from the interface of its node.

pub(crate) mod cid;
pub(crate) mod device;
pub(crate) mod open;
pub(crate) mod round_trip;
pub(crate) mod segmentation;
pub(crate) mod tunnel;
pub(crate) mod ulp;
