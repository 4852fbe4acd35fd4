//! The initiator: the end that sends requests.

use std::collections::VecDeque;

use transport_common::ids::{Psn, Rsn};

use super::message::{Ack, Body, Message, Numbers, Packet, SolicitationError, Ssn, Window};
use super::reorder::Reorder;

/// A request of the ULP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Writes bytes at the target.
    Push {
        /// Number of bytes.
        bytes: u32,
    },
    /// Reads bytes from the target.
    Pull {
        /// Number of bytes.
        bytes: u32,
    },
}

/// The completion of a request. The ULP receives completions in the order of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub rsn: Rsn,
    /// True for `pullResp`, false for `pushCmpl`.
    pub pull: bool,
}

#[derive(Clone, Copy, Debug)]
struct Transaction {
    pull: bool,
    complete: bool,
}

/// A push whose data is not sent yet.
#[derive(Clone, Copy, Debug)]
struct Push {
    bytes: u32,
    /// True if the push is unsolicited or has its grant.
    may_leave: bool,
    solicited: Option<Ssn>,
}

/// The initiator's side of a connection.
#[derive(Clone, Debug)]
pub struct Initiator {
    solicit_from: Option<u32>,
    next_rsn: Rsn,
    next_ssn: Ssn,
    next: Numbers,
    transactions: Reorder<Transaction>,
    /// Pushes whose data is not sent yet, in RSN order.
    pushes: VecDeque<(Rsn, Push)>,
    /// Requests of the data packets that are sent and not acknowledged, in PSN order.
    in_flight: VecDeque<Rsn>,
    acknowledged: Psn,
    /// The target's data window.
    received: Reorder<()>,
    out: VecDeque<Message>,
}

impl Initiator {
    /// Creates an initiator. Pushes of at least `solicit_from` bytes are solicited. With `None` no push is
    /// solicited. `own` and `peer` are the first packet numbers of both ends. RSN and SSN count from 0.
    #[must_use]
    pub fn new(solicit_from: Option<u32>, own: Numbers, peer: Numbers) -> Self {
        Self {
            solicit_from,
            next_rsn: Rsn(0),
            next_ssn: Ssn(0),
            next: own,
            transactions: Reorder::new(0),
            pushes: VecDeque::new(),
            in_flight: VecDeque::new(),
            acknowledged: own.data,
            received: Reorder::new(peer.data.0),
            out: VecDeque::new(),
        }
    }

    /// Returns the next message to send.
    pub fn poll(&mut self) -> Option<Message> {
        self.out.pop_front()
    }

    /// Returns the next completion, in RSN order.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        let rsn = Rsn(self.transactions.base());
        let transaction = self.transactions.take_if(|of| of.complete)?;
        Some(Completion { rsn, pull: transaction.pull })
    }

    fn send(&mut self, rsn: Rsn, body: Body) {
        let next = match body.window() {
            Window::Request => &mut self.next.request,
            Window::Data => &mut self.next.data,
        };
        let psn = *next;
        *next = psn.add(1);
        if body.window() == Window::Data {
            self.in_flight.push_back(rsn);
        }
        self.out.push_back(Message::Packet(Packet { psn, rsn, body }));
    }

    /// Accepts a request of the ULP and returns its RSN.
    ///
    /// # Errors
    /// Returns [`SolicitationError::OutOfWindow`] if too many requests are open.
    pub fn submit(&mut self, request: Request) -> Result<Rsn, SolicitationError> {
        let rsn = self.next_rsn;
        let pull = matches!(request, Request::Pull { .. });
        self.transactions.insert(rsn.0, Transaction { pull, complete: false })?;
        self.next_rsn = rsn.add(1);
        match request {
            Request::Pull { bytes } => self.send(rsn, Body::PullRequest { bytes }),
            Request::Push { bytes } => {
                let solicited = self.solicit_from.is_some_and(|from| bytes >= from).then_some(self.next_ssn);
                if let Some(ssn) = solicited {
                    self.next_ssn = Ssn(ssn.0.wrapping_add(1));
                    self.send(rsn, Body::PushSolicitedRequest { ssn, bytes });
                }
                self.pushes.push_back((rsn, Push { bytes, may_leave: solicited.is_none(), solicited }));
                self.send_data();
            }
        }
        Ok(rsn)
    }

    /// Sends data in RSN order, whatever the order of the grants.
    fn send_data(&mut self) {
        while let Some((rsn, push)) = self.pushes.pop_front_if(|(_, push)| push.may_leave) {
            let bytes = push.bytes;
            let solicited = push.solicited.is_some();
            let body = if solicited {
                Body::PushSolicitedData { bytes }
            } else {
                Body::PushUnsolicitedData { bytes }
            };
            self.send(rsn, body);
        }
    }

    /// Processes a message of the target.
    ///
    /// # Errors
    /// Returns an error for a message that does not belong to the connection. The state does not change then.
    pub fn receive(&mut self, message: Message) -> Result<(), SolicitationError> {
        let packet = match message {
            Message::Ack(ack) => {
                self.acknowledge(ack);
                return Ok(());
            }
            Message::Packet(packet) => packet,
        };
        let Packet { psn, rsn, body } = packet;
        match body {
            Body::PushGrant { ssn } => {
                let wanted = |(of, push): &&mut (Rsn, Push)| {
                    *of == rsn && push.solicited == Some(ssn) && !push.may_leave
                };
                let push = self.pushes.iter_mut().find(wanted).ok_or(SolicitationError::NotSolicited(rsn))?;
                self.received.insert(psn.0, ())?;
                push.1.may_leave = true;
                self.send_data();
            }
            Body::PullData { .. } => {
                let open = self.transactions.get_mut(rsn.0).filter(|of| of.pull && !of.complete);
                let transaction = open.ok_or(SolicitationError::OutOfTurn(rsn))?;
                self.received.insert(psn.0, ())?;
                transaction.complete = true;
            }
            other => return Err(SolicitationError::WrongSide(other)),
        }
        while self.received.take_if(|()| true).is_some() {}
        let ack = Ack { request: Psn(0), data: Psn(self.received.base()) };
        self.out.push_back(Message::Ack(ack));
        Ok(())
    }

    fn acknowledge(&mut self, ack: Ack) {
        while self.acknowledged.is_before(ack.data)
            && let Some(rsn) = self.in_flight.pop_front()
        {
            self.acknowledged = self.acknowledged.add(1);
            if let Some(transaction) = self.transactions.get_mut(rsn.0) {
                transaction.complete = true;
            }
        }
    }
}
