//! Whole networks on virtual time: cards, a fabric between them, applications that post and poll.
//!
//! One seed decides everything: the connections' parameters, what the fabric does to frames, and the operations
//! of the applications with their times. [`Scenario::random`] draws a scenario. [`World::run`] plays it to its
//! end and checks, after every step of every card, the [`invariants`] of the connection involved. At the end an
//! oracle computes the expected result of every operation, byte by byte, and every pool must be full again.

mod application;
mod congestion;
mod corruption;
mod cpus;
mod faults;
mod host;
mod hostile;
pub mod invariants;
mod oracle;
mod scenario;
mod trace;
mod world;

pub use application::{Area, Flow, Kind, Op, ReceiveBuffer};
pub use faults::{Fault, FaultKind, Weather};
pub use hostile::Forgery;
pub use scenario::{End, Link, Profile, Scenario, node_config_of};
pub use trace::Trace;
pub use world::{Observer, World};
