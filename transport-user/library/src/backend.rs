//! What a node is built from: the maps behind its connections, their slots, its memory and its poller. `tiercel-node` uses it, and
//! may be replaced by a program that gets the descriptors in another way. Applications need none of it.
//!
//! A node makes [`Maps`] of its [`Descriptors`], a [`Datapath`] of them, and [`Shared`], what all handles have in common. It lends
//! two services to it: [`Quiescence`] (grace periods) and [`UserPlacement`] (congestion control in user space). Then it opens
//! each connection as a [`Core`] and registers regions with [`Regions`].
//!
//! This module may change in any release.

pub use crate::common::mac::is_host;
pub use crate::parameters::cid::{Cids, slot_of};
pub use crate::parameters::segmentation::{max_segment, node_mtu, smallest_mtu};
pub use crate::verbs::connections::{Connections, Core};
pub use crate::verbs::datapath::{Datapath, Doorbell};
pub use crate::verbs::grace::{Quiescence, Ticket};
pub use crate::verbs::maps::{Descriptors, Mapping, Maps};
pub use crate::verbs::memory;
pub use crate::verbs::poller::{Look, Notices, Poller};
pub use crate::verbs::queue_pair::Occupancy;
pub use crate::verbs::region::{KeyChoice, Regions};
pub use crate::verbs::shared::Shared;
pub use crate::verbs::user_placement::UserPlacement;
