//! The node's side of the control socket ([`tiercel::control`]): the server, and the service that answers the requests.

mod descriptors;
pub(crate) mod server;
pub mod service;
mod socket;
#[cfg(test)]
mod tests;

pub use server::{Handler, ProgressSender, Server};
pub use socket::bind;
