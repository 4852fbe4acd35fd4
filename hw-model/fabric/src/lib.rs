//! A network fabric on virtual time: links, switches, queues and impairments. A seed decides everything random.
//!
//! The same model has two uses. Simulations drive it with their own clock. The live fabric of the tests drives it
//! with the monotonic clock and sends real frames through it. The model itself has no clock and no threads, and
//! its seed is the only source of randomness.
//!
//! # Sources
//!
//! The model follows published descriptions: dynamic thresholds of shared-memory switches ([`SharedBuffer`];
//! Choudhury and Hahne 1998), trimming ([`Impairments::trim`]; Handley et al. 2017), priority flow control
//! ([`FlowControl`]; IEEE 802.1Q clause 36 and Zhu et al. 2015), and ECN marking ([`EcnMark`]; RFC 3168). The
//! items name the sections.
//!
//! # Where to start
//!
//! - [`Fabric`] is the model. [`Fabric::offer`] takes a frame, [`Fabric::poll`] returns a [`Delivery`], and
//!   [`Fabric::next_event`] returns the time of the next poll.
//! - [`FabricConfig`] is its configuration, usually parsed from text such as `seed=7,loss=1%,rate=1Gbps`.
//!   [`Impairments`] documents every key.
//! - [`Topology`] describes the switches and cables. [`Port`] is a place for a host.
//! - [`FabricStats`] and [`LinkStats`] are the counters.
//!
//! # Units
//!
//! [`Time`] and [`Span`] are in picoseconds. [`Rate`] is in bits per second, [`ByteCount`] in bytes. A frame's
//! length is counted from its destination address to the end of its payload.
//!
//! # Experiments
//!
//! The crate has no experiments in `tiercel model`. `cargo xtask experiment` runs data centres on this fabric;
//! `docs/experiments.md` describes their results. `docs/model/tonic-network.md` describes those of Tonic on this
//! fabric.
//!
//! # Example
//!
//! ```
//! use fabric_model::{Fabric, Port, Span, Time};
//!
//! let mut fabric = Fabric::new(2, "seed=7,delay=50us,loss=1%".parse()?)?;
//! let mut frame = vec![0; 64];
//! frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
//! fabric.learn([2, 0, 0, 0, 0, 2], Port(1));
//! fabric.offer(Time::ZERO, Port(0), frame);
//! assert_eq!(fabric.next_event(), Some(Time::ZERO + Span::from_micros(50)));
//! # Ok::<(), fabric_model::ConfigError>(())
//! ```
//!
//! # The path of a frame
//!
//! A frame enters at a host's port. The switch looks up its destination address. Frames to unknown and group
//! addresses are flooded. The frame leaves on the link towards the host, or towards the next switch on a shortest
//! path ([`Topology`]). If there are several shortest paths, the hash of the flow decides ([`FlowHash`]). All
//! impairments happen on these links. Each link applies these steps in this order:
//!
//! 1. *Link down* at either end: the frame is dropped.
//! 2. *Loss*, independent or in bursts.
//! 3. *Hop limit*: it is lowered, and the frame is dropped if it reaches zero.
//! 4. *Duplication*: the copy goes through the remaining steps on its own.
//! 5. *Queue*: the frame is dropped when the queue is full, or when the shared memory of the switch
//!    ([`SharedBuffer`]) has no more space for this queue. It is marked congestion experienced (CE) when the queue
//!    is above the threshold. Then its bits take their time at the link's rate. A link that trims does not drop
//!    the frame. It cuts this frame, or the last one that waits, to its headers. Headers overtake data.
//! 6. *Corruption*. It happens after the switch has rewritten the header, so no switch ever repairs it.
//! 7. *Delay* and *jitter*, which keep the order of frames.
//! 8. *Reordering*: the frame is held back until other frames have overtaken it.
//!
//! With [`FlowControl`] a switch whose memory fills also tells hosts to pause. The frames that do so overtake all
//! others.
//!
//! # Repeatability
//!
//! Steps 2, 4, 6, 7 and 8, and the choice between two frames to trim, depend only on: the seed, the port of entry,
//! the link, the ordinal of the frame between these two, and the copy. They do not depend on time, on traffic
//! between other ports, or on one another. So enabling one impairment does not change the decisions of the others.
//! The choice of a path depends on seed, switch and flow.
//!
//! Housekeeping frames of the hosts' network stacks (ARP, IPv6 neighbour discovery, group membership, and
//! everything that is not IP) are exempt. They take no ordinal, they are not impaired or marked, and their hop
//! limit does not change. The reason is that they come at unpredictable times and would shift every later
//! decision. They do wait in the queue, and a link that is down drops them. A frame that can be
//! impaired takes its ordinal even if a link that is down drops it.

mod buffer;
mod config;
mod fabric;
mod flow;
mod flow_control;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod impairments;
mod link;
mod outgoing;
mod port;
mod priority;
mod quantity;
mod random;
mod stats;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod topology;

pub use buffer::{Alpha, SharedBuffer};
pub use config::FabricConfig;
pub use fabric::{Delivery, Fabric};
pub use flow::FlowHash;
pub use flow_control::{FlowControl, PauseThreshold, pauses};
pub use header::{EcnMark, is_trimmed};
pub use impairments::{Burst, Impairments, Outage, Scope};
pub use port::Port;
pub use quantity::{ByteCount, Probability, QuantityError, Rate};
pub use stats::{BitFlip, Corruption, FabricStats, LinkStats};
pub use text::ConfigError;
pub use time::{Span, Time};
pub use topology::{Egress, Topology, Trunk};
