//! Whole networks on virtual time: cards, a fabric between them, applications that post and poll.
//!
//! One seed decides everything: the connections' parameters, what the fabric does to frames, and the operations
//! of the applications with their times. [`Scenario::random`] draws a scenario. [`World::run`] plays it to its
//! end and checks, after every step of every card, the [`invariants`] of the connection involved. At the end an
//! oracle computes the expected result of every operation, byte by byte, and every pool must be full again.

mod application;
mod attention;
mod causes;
mod congestion;
mod corruption;
mod cpus;
mod crowd;
mod draw;
mod draw_faults;
mod exhaustive;
mod faults;
mod hoard;
mod host;
mod hostile;
pub mod invariants;
mod late;
mod ledger;
mod oracle;
mod pressure;
mod scenario;
pub mod scribbler;
mod stops;
mod trace;
mod world;
mod wraps;

pub use application::{Area, Flow, Kind, Op, ReceiveBuffer};
pub use crowd::{Hosts, MOST_HOSTS};
pub use exhaustive::{SmallOp, SmallWorld, Walk};
pub use faults::{Fault, FaultKind, Lateness, Thread, Weather};
pub use hostile::Forgery;
pub use scenario::{End, Link, Profile, Scenario, node_config_of};
pub use trace::Trace;
pub use world::{Observer, Reached, World};

/// Lets the allocator map large memory freshly, always. The kernel gives zeroed pages only where they are touched, and most
/// of a card never is. By default the C library keeps freed memory of that size, and clears all of it for the next card.
pub fn map_large_allocations() {
    const THRESHOLD: libc::c_int = 128 << 10;
    // SAFETY: it sets a parameter of the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD) };
}
