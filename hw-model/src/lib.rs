//! The network card in cycles, and the fabric around it.

pub mod clocked;
pub mod context_cache;
pub mod datacentre;
pub mod experiments;
pub mod falcon_nic;
pub mod host_nic;
pub mod network;
pub mod p4;
pub mod reference_senders;
pub mod replay;
pub mod tonic;
pub mod tonic_network;
