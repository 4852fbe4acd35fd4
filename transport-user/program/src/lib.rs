//! What the program `tiercel` has in common with other programs: [`decode`] shows the fields of packets.
//!
//! The program itself is in `src/bin/tiercel`. It brings a node up (the crate `tiercel-node`), and sends commands to running
//! nodes over their control sockets ([`tiercel::control`]).

pub mod decode;
#[doc(hidden)]
pub mod fuzz;
