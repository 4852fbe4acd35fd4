//! Black-box checks of a Falcon endpoint on the wire, clause by clause.
//!
//! The tester is one end of a static connection. It builds every packet itself, sends it to the peer, and
//! judges what the peer sends. It knows nothing of the peer but its packets, so the peer may be any Falcon
//! device.
//!
//! With Tiercel the tester shares only the encoders and decoders of the wire formats. It does not use the
//! project's windows, transactions or datapath. A test of this crate reads the sources and checks that.
//!
//! # Where to start
//!
//! - [`catalogue`] returns the checks. Each [`Check`] belongs to one clause of `docs/spec`.
//! - [`Subject`] describes the connection, [`Patience`] how long the tester waits.
//! - [`Trigger`] makes the peer submit operations, for the checks of the peer as initiator.
//! - [`Wire`] is the network. [`PacketSocket`] sends and receives on an interface of Linux. Tests implement
//!   `Wire` on virtual time.
//! - [`Session`] is the tester's end of a connection. A test of a Falcon device may drive it by hand, without any
//!   check: it sends what it is told, and retransmits nothing by itself.
//! - [`run`] runs checks and returns a verdict and the packets for each. [`capture`] writes them as pcapng.
//!
//! `docs/conformance-tester.md` describes the command `tiercel conformance`.

mod capture;
mod check;
mod checks;
mod draft;
mod flow;
mod greeting;
mod log;
mod misfit;
mod received;
mod run;
mod session;
mod socket;
mod subject;
mod trigger;
mod verdict;
mod wire;

pub use capture::capture;
pub use check::{Check, Needs, Role};
pub use checks::catalogue;
pub use draft::Draft;
pub use flow::{Flow, Parts, encoded, ip_packet};
pub use log::{Line, Logged, describe};
pub use misfit::Misfit;
pub use received::Received;
pub use run::{Checked, RunError, run};
pub use session::{OPERATION_BYTES, Session};
pub use socket::PacketSocket;
pub use subject::{Patience, REGION_BYTES, Settings, Start, Subject};
pub use trigger::{ByHand, CommandTrigger, Completion, Operation, Ticket, Trigger, Wanted};
pub use verdict::{Outcome, Stop, Verdict, judge};
pub use wire::Wire;
