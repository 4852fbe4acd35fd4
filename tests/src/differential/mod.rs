//! Compares kernel and host: the same connection and the same frame must give the same result, bit by bit.
//!
//! The simulation supplies realistic contexts, taken in the middle of their work. `mutate` changes contexts
//! and frames further. Each [`Case`] is then played twice, by the XDP programs in the kernel ([`Kernel`]) and by a
//! [`HostNic`](host_nic::HostNic), from the same state and at the same time, and everything is compared:
//! verdict, frame, context, queues, memory, cells, doorbells, counters.

mod case;
mod decisions;
mod frame;
mod harness;
mod kernel;
mod mapping;
mod mutate;
mod source;
mod time;

pub(crate) use case::bytes;
pub use case::{Case, Stimulus};
pub use decisions::Decider;
pub use harness::Harness;
pub use kernel::{Kernel, Program};
pub use source::{Source, truncations};
