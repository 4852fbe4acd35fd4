//! A fabric: links, switches, queues and impairments, decided by a seed, on virtual time.
//!
//! One model serves two worlds. Simulations drive it with a clock of their own; the live fabric of the tests
//! drives it with the monotonic clock and moves real frames through it. The model itself knows no clock, no
//! thread and no other source of randomness than its seed.
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
//! # A frame's way
//! A frame enters at a host's port, is looked up by destination address (unknown and group addresses are
//! flooded) and leaves on the link towards a host, or towards a switch on a shortest way to it ([`Topology`]); where
//! there are several, the hash of its flow decides ([`FlowHash`]). Everything that can befall it does so on these
//! links, on each in this order:
//! 1. *link down* at either end: dropped;
//! 2. *loss*, independent or in bursts;
//! 3. *hop limit*: lowered, dropped at zero;
//! 4. *duplication*: the copy goes the rest of the way on its own;
//! 5. *queue*: tail drop when full or when the switch's memory, if shared ([`SharedBuffer`]), has no more for this
//!    queue; congestion experienced (CE) when above the threshold; then the time the frame's bits take at the link's
//!    rate. A link that trims cuts the frame, or the last that waits, to its headers instead of dropping it, and headers
//!    overtake data;
//! 6. *corruption*, after the switch has rewritten the header, so that no switch ever repairs it;
//! 7. *delay* and *jitter*, which keep the order of frames;
//! 8. *reordering*: the frame is held back until others have overtaken it.
//!
//! With [`FlowControl`] a switch whose memory fills also tells hosts to pause, in frames that overtake all others.
//!
//! # What can be repeated
//! Steps 2, 4, 6, 7 and 8, and which of two frames is cut, are decided by (seed, port in, link, ordinal of the frame between these two,
//! copy) and by nothing else: not by time, not by traffic between other ports, and not by one another, so
//! that switching one impairment on leaves the choices of the others as they were. Paths are decided by seed,
//! switch and flow.
//! Housekeeping of the hosts' network stacks (ARP, IPv6 neighbour discovery, group membership, anything that
//! is not IP) is spared: it takes no ordinal, is not impaired or marked and keeps its hop limit. It comes when it
//! likes and would otherwise shift every later decision. It does wait in the queue like all others, and a
//! link that is down drops it. A frame dropped by a link that is down takes its ordinal none the less.

mod buffer;
mod config;
mod fabric;
mod flow;
mod flow_control;
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
