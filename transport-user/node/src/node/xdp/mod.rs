//! The XDP programs of a node: how they are loaded, attached and exchanged.

pub(crate) mod attach_mode;
pub(crate) mod attached;
pub(crate) mod bound_program;
pub(crate) mod bpf_log;
pub(crate) mod kernel;
pub(crate) mod loader;
pub(crate) mod object;
pub mod programs;
pub(crate) mod refusal;
pub(crate) mod transmit;
