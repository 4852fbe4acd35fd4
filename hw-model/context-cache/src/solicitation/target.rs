//! The target: the end that answers requests.

use std::collections::VecDeque;

use transport_common::ids::{Psn, Rsn};

use super::message::{Ack, Body, Message, Numbers, Packet, SolicitationError, Ssn};
use super::reorder::Reorder;

/// The space for solicited data. All connections of a target share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantPool {
    limit: u64,
    granted: u64,
}

impl GrantPool {
    /// Creates a pool for `limit` bytes.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { limit, granted: 0 }
    }

    /// Returns the bytes that are granted and not placed yet.
    #[must_use]
    pub const fn granted(&self) -> u64 {
        self.granted
    }

    const fn grant(&mut self, bytes: u32) -> bool {
        let fits = self.granted + bytes as u64 <= self.limit;
        if fits {
            self.granted += bytes as u64;
        }
        fits
    }
}

/// A request for the target's ULP. The ULP receives requests in RSN order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UlpRequest {
    /// `pushReq`: the ULP has to place the data.
    Place {
        /// The request.
        rsn: Rsn,
        /// Number of bytes.
        bytes: u32,
    },
    /// The ULP has to supply the data.
    Give {
        /// The request.
        rsn: Rsn,
        /// Number of bytes.
        bytes: u32,
    },
}

/// A request whose data has arrived, or that needs no data.
#[derive(Clone, Copy, Debug)]
struct Ready {
    bytes: u32,
    pull: bool,
    solicited: bool,
    psn: Psn,
}

/// The target's side of a connection.
#[derive(Clone, Debug)]
pub struct Target {
    next_data: Psn,
    /// Solicited pushes that are not granted yet, by SSN.
    asking: Reorder<(Rsn, u32)>,
    ready: Reorder<Ready>,
    /// Requests that the ULP was given and has not acknowledged.
    at_ulp: VecDeque<(Rsn, Ready)>,
    /// Received packets of the request window. True if the packet may be acknowledged.
    requests: Reorder<bool>,
    data: Reorder<bool>,
    out: VecDeque<Message>,
}

impl Target {
    /// Creates a target. `own` and `peer` are the first packet numbers of both ends.
    #[must_use]
    pub const fn new(own: Numbers, peer: Numbers) -> Self {
        Self {
            next_data: own.data,
            asking: Reorder::new(0),
            ready: Reorder::new(0),
            at_ulp: VecDeque::new(),
            requests: Reorder::new(peer.request.0),
            data: Reorder::new(peer.data.0),
            out: VecDeque::new(),
        }
    }

    /// Returns the next message to send.
    pub fn poll(&mut self) -> Option<Message> {
        self.out.pop_front()
    }

    /// Returns the next request for the ULP.
    pub fn poll_ulp(&mut self) -> Option<UlpRequest> {
        let rsn = Rsn(self.ready.base());
        let ready = self.ready.take_if(|_| true)?;
        self.at_ulp.push_back((rsn, ready));
        let bytes = ready.bytes;
        Some(if ready.pull { UlpRequest::Give { rsn, bytes } } else { UlpRequest::Place { rsn, bytes } })
    }

    fn send(&mut self, rsn: Rsn, body: Body) {
        let psn = self.next_data;
        self.next_data = psn.add(1);
        self.out.push_back(Message::Packet(Packet { psn, rsn, body }));
    }

    /// Grants as many pushes as the pool has space for, in SSN order. The caller calls this when another
    /// connection has returned space to the pool.
    pub fn grant(&mut self, pool: &mut GrantPool) {
        loop {
            let ssn = Ssn(self.asking.base());
            let Some((rsn, _)) = self.asking.take_if(|(_, bytes)| pool.grant(*bytes)) else { return };
            self.send(rsn, Body::PushGrant { ssn });
        }
    }

    /// Processes a message of the initiator.
    ///
    /// # Errors
    /// Returns an error for a message that does not belong to the connection, or that asks for more than the whole
    /// pool.
    pub fn receive(&mut self, message: Message, pool: &mut GrantPool) -> Result<(), SolicitationError> {
        let Message::Packet(Packet { psn, rsn, body }) = message else { return Ok(()) };
        let ready = |bytes, pull, solicited| Ready { bytes, pull, solicited, psn };
        match body {
            Body::PushSolicitedRequest { ssn, bytes } => {
                if u64::from(bytes) > pool.limit {
                    return Err(SolicitationError::TooLarge { bytes, limit: pool.limit });
                }
                self.requests.insert(psn.0, true)?;
                self.asking.insert(ssn.0, (rsn, bytes))?;
                self.grant(pool);
                self.acknowledge();
            }
            Body::PullRequest { bytes } => {
                self.requests.insert(psn.0, false)?;
                self.ready.insert(rsn.0, ready(bytes, true, false))?;
            }
            Body::PushSolicitedData { bytes } => {
                self.data.insert(psn.0, false)?;
                self.ready.insert(rsn.0, ready(bytes, false, true))?;
            }
            Body::PushUnsolicitedData { bytes } => {
                self.data.insert(psn.0, false)?;
                self.ready.insert(rsn.0, ready(bytes, false, false))?;
            }
            other => return Err(SolicitationError::WrongSide(other)),
        }
        Ok(())
    }

    /// Processes a `ULP-ACK`: the ULP has placed the data, or the data may be pulled.
    ///
    /// # Errors
    /// Returns [`SolicitationError::OutOfTurn`] if this is not the oldest request that the ULP was given.
    pub fn ulp_ack(&mut self, rsn: Rsn, pool: &mut GrantPool) -> Result<(), SolicitationError> {
        let oldest = self.at_ulp.pop_front_if(|(of, _)| *of == rsn);
        let (_, ready) = oldest.ok_or(SolicitationError::OutOfTurn(rsn))?;
        let window = if ready.pull { &mut self.requests } else { &mut self.data };
        if let Some(received) = window.get_mut(ready.psn.0) {
            *received = true;
        }
        if ready.pull {
            self.send(rsn, Body::PullData { bytes: ready.bytes });
        }
        self.acknowledge();
        if ready.solicited {
            pool.granted -= u64::from(ready.bytes);
            self.grant(pool);
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        let before = (self.requests.base(), self.data.base());
        while self.requests.take_if(|done| *done).is_some() {}
        while self.data.take_if(|done| *done).is_some() {}
        let now = (self.requests.base(), self.data.base());
        if now != before {
            self.out.push_back(Message::Ack(Ack { request: Psn(now.0), data: Psn(now.1) }));
        }
    }
}
