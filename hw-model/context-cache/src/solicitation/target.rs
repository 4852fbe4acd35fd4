//! The end that answers.

use std::collections::VecDeque;

use transport_common::ids::{Psn, Rsn};

use super::message::{Ack, Body, Message, Numbers, Packet, SolicitationError, Ssn};
use super::reorder::Reorder;

/// Room for solicited data, shared by the connections of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantPool {
    limit: u64,
    granted: u64,
}

impl GrantPool {
    /// Room for `limit` bytes.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { limit, granted: 0 }
    }

    /// Bytes granted and not placed.
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

/// What the target's ULP is asked, in RSN order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UlpRequest {
    /// `pushReq`: place the data.
    Place {
        /// The request.
        rsn: Rsn,
        /// Bytes.
        bytes: u32,
    },
    /// Give the data.
    Give {
        /// The request.
        rsn: Rsn,
        /// Bytes.
        bytes: u32,
    },
}

/// A request whose data is here, or that needs none.
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
    /// Solicited pushes that are not granted, by SSN.
    asking: Reorder<(Rsn, u32)>,
    ready: Reorder<Ready>,
    /// Given to the ULP and not acknowledged by it.
    at_ulp: VecDeque<(Rsn, Ready)>,
    /// Packets received; true if they may be acknowledged.
    requests: Reorder<bool>,
    data: Reorder<bool>,
    out: VecDeque<Message>,
}

impl Target {
    /// `own` and `peer` are the first packet numbers of both ends.
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

    /// The next message to send.
    pub fn poll(&mut self) -> Option<Message> {
        self.out.pop_front()
    }

    /// The next request for the ULP.
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

    /// Grants as many pushes as there is room for, in SSN order. To be called when others have given room back.
    pub fn grant(&mut self, pool: &mut GrantPool) {
        loop {
            let ssn = Ssn(self.asking.base());
            let Some((rsn, _)) = self.asking.take_if(|(_, bytes)| pool.grant(*bytes)) else { return };
            self.send(rsn, Body::PushGrant { ssn });
        }
    }

    /// A message of the initiator.
    ///
    /// # Errors
    /// What does not belong to the connection, or asks for more than there ever is room for.
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

    /// `ULP-ACK`: the data is placed, or may be pulled.
    ///
    /// # Errors
    /// [`SolicitationError::OutOfTurn`]: this is not the oldest request given to the ULP.
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
