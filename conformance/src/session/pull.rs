//! Requests of the peer that wait for their answer.

use transport_common::ids::Rsn;

/// A Pull Request of the peer that the tester has not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    pub(super) rsn: Rsn,
    pub(super) request_length: u16,
}
