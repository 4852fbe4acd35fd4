//! Eight transport protocols as user logic (section 6.1.1), each written from its specification: TCP [`Reno`],
//! [`NewReno`] and [`Sack`], [`Ndp`], RoCEv2 with DCQCN ([`RoceDcqcn`]), [`Irn`], [`Swift`] and [`Falcon`].
//!
//! The value of a protocol is its configuration. Its file names the specification. [`Tcp`] and [`SwiftWindow`] are
//! the parts that several protocols share. [`Tonic::new`](crate::Tonic::new) takes a protocol. The costs of the
//! protocols are in [`report`](crate::report) and in `docs/model/tonic.md`.

mod fabric_window;
mod falcon;
mod irn;
mod ndp;
mod new_reno;
mod reno;
mod roce_dcqcn;
mod sack;
mod swift;
mod tcp;

pub use fabric_window::SwiftWindow;
pub use falcon::{Falcon, FalconState};
pub use irn::{Irn, IrnState};
pub use ndp::{Ndp, NdpState};
pub use new_reno::{NewReno, NewRenoState};
pub use reno::{Reno, RenoState};
pub use roce_dcqcn::{DcqcnState, RoceDcqcn};
pub use sack::{Sack, SackState};
pub use swift::{Swift, SwiftState};
pub use tcp::Tcp;
