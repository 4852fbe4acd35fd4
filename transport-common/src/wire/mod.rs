//! Wire formats: one module per format. Offsets and widths are written only once.
//!
//! Every decoder reads through a [`Cursor`]. There are two kinds: a slice on the host and, in the BPF crate, a
//! pair of packet pointers for the verifier. Decoders check what the format itself requires, and nothing that
//! needs a connection. Reserved bits are ignored on receipt and sent as 0 (D-09). Encoders write every byte of
//! their array, so a recycled frame leaks nothing. A value that is wider than its field on the wire is cut to the
//! field.

pub mod ack;
pub mod base;
pub mod checksum;
pub mod cursor;
pub mod ethernet;
pub mod falcon;
pub(crate) mod field;
pub mod inner;
pub mod ipv4;
pub mod ipv6;
mod malformed;
pub mod nack;
pub mod packet;
pub mod psp;
pub mod pull_data;
pub mod pull_request;
pub mod push_data;
pub mod resync;
mod types;
pub mod udp;
pub(crate) mod unusual;

pub use cursor::{Cursor, SliceCursor};
pub use falcon::FalconHeader;
pub use malformed::Malformed;
pub use types::{PacketType, ProtocolType};
