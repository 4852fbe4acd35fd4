//! The fabric model around real packets: hosts joined by cables to switches in user space.
//!
//! Every host's cable ends in a namespace of the switches' own, where a thread takes the frames off it, offers
//! them to [`fabric_model::Fabric`] on the monotonic clock, and puts them on the cable they come out of.
//! What the model decides is decided by the seed; only the kernel can still drop frames, and says so in
//! [`LiveStats`].

mod bridge;
mod hosts;
mod pass_program;
mod socket;
mod switch;

pub use bridge::{Bridge, Capture};
pub use hosts::{Host, Network, Pair};
pub use pass_program::PassProgram;
pub use switch::{LiveFabric, LiveStats};
