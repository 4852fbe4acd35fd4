//! The fabric model with real packets: cables connect hosts to switches in user space.
//!
//! Every host's cable ends in a separate namespace of the switches. There a thread takes the frames from it,
//! offers them to [`fabric_model::Fabric`] on the monotonic clock, and puts them on the cable on which they
//! leave. The seed determines all decisions of the model. Only the kernel can still drop frames, and counts
//! them in [`LiveStats`].

mod bridge;
mod hosts;
mod pass_program;
mod socket;
mod switch;

pub use bridge::{Bridge, Capture};
pub use hosts::{Host, Network, Pair};
pub use pass_program::PassProgram;
pub use switch::{LiveFabric, LiveStats};
