//! Whole networks on virtual time: cards, a fabric between them, applications that post and poll.
//!
//! One seed decides everything: the connections' parameters, what the fabric does to frames, what the applications
//! ask for and when. [`Scenario::random`] draws it, [`World::run`] plays it to its end and checks on the way, after every
//! step of every card, the [`invariants`] of the connection it touched; at the end an oracle says what should have come
//! of every operation, byte by byte, and every pool has to be full again.

mod application;
mod congestion;
mod corruption;
pub mod invariants;
mod oracle;
mod scenario;
mod world;

pub use application::{Area, Flow, Kind, Op, ReceiveBuffer};
pub use scenario::{End, Link, Profile, Scenario, node_config_of};
pub use world::{Observer, World};
