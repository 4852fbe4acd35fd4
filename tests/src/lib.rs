//! Hosts in network namespaces, the live fabric, conformance and differential tests.
//!
//! ```no_run
//! use tiercel_tests::Pair;
//!
//! // Two hosts and, between them, a switch that loses one frame in a hundred.
//! let pair = Pair::through("seed=7,loss=1%".parse()?)?;
//! let listener = pair.b.run(|| std::net::TcpListener::bind("10.7.0.2:7000"))?;
//! let stream = pair.a.run(|| std::net::TcpStream::connect(listener.local_addr()?))?;
//! println!("{:?}", pair.fabric().map(|fabric| fabric.stats()));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! All of it needs root. Nothing remains after the process, however it ends, because namespaces have no name
//! and programs have no pin.

pub mod account;
pub mod checks;
pub mod cli;
#[cfg(feature = "model")]
pub mod differential;
pub mod live_fabric;
pub mod namespace;
pub mod nodes;
pub mod operations;
#[cfg(feature = "model")]
pub mod path_cost;
pub mod ratchet;
pub mod raw_peer;
pub mod routed;
#[cfg(feature = "model")]
pub mod simulation;
pub mod stopwatch;
pub mod verifier;
pub mod veth;
pub mod volume;

pub use live_fabric::{Bridge, Capture, Host, LiveFabric, LiveStats, Network, Pair, PassProgram};
pub use namespace::Namespace;

/// Fails a test that needs root and does not have it.
///
/// # Panics
/// If the process does not run as root.
pub fn need_root() {
    // SAFETY: a system call without arguments.
    assert_eq!(unsafe { libc::geteuid() }, 0, "this test needs root: run `cargo xtask test` as root");
}
