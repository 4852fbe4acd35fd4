//! Transport protocols as user logic (section 6.1.1), each as its specification says.

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
