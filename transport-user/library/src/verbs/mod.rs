//! The verbs: connections, queues, completions and memory. It needs nothing of a node but the maps and descriptors of its
//! [datapath](datapath::Datapath), and what a node lends by the traits [`Quiescence`](grace::Quiescence) and
//! [`UserPlacement`](user_placement::UserPlacement).

pub(crate) mod closing;
pub(crate) mod completion;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod datapath;
pub(crate) mod grace;
pub(crate) mod info;
pub(crate) mod maps;
pub mod memory;
pub(crate) mod nic_time;
pub(crate) mod operation_error;
pub(crate) mod poller;
pub(crate) mod queue_pair;
pub(crate) mod region;
pub(crate) mod scratch;
pub(crate) mod shared;
pub(crate) mod statistics;
pub(crate) mod transactions;
pub(crate) mod user_placement;
pub(crate) mod watcher;
