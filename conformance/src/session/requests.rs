//! The tester as the target of the peer's requests.

use std::io;

use transport_common::ids::{Psn, Rsn};
use transport_common::ulp::rdma::{Aeth, Bth};
use transport_common::units::PicosecondSpan;
use transport_common::wire::FalconHeader;
use transport_common::wire::resync::Resync;

use super::Session;
use super::pull::Pull;
use crate::draft::Draft;
use crate::misfit::Misfit;
use crate::received::Received;
use crate::trigger::{Completion, Operation, Ticket, Wanted};
use crate::verdict::{Outcome, Stop};

/// Bytes of user data of the operations that the peer is asked for.
pub const OPERATION_BYTES: u32 = 64;

/// How often the tester looks whether an operation has completed.
const LOOK: PicosecondSpan = PicosecondSpan::from_nanos(1_000_000);

impl Session<'_> {
    /// Makes the peer submit an operation of [`OPERATION_BYTES`].
    ///
    /// # Errors
    /// If there is no trigger, or if it fails.
    pub fn submit(&mut self, operation: Operation) -> Outcome<Ticket> {
        let wanted = Wanted { operation, bytes: OPERATION_BYTES, cid: self.subject.peer_cid };
        let trigger =
            self.trigger.as_mut().ok_or_else(|| Stop::Skip("the peer has no trigger".to_owned()))?;
        let ticket = trigger.submit(&wanted).map_err(of_trigger)?;
        self.tickets.push(ticket);
        Ok(ticket)
    }

    /// Returns whether the tester sees how operations of the peer end.
    pub fn sees_completions(&self) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.sees_completions())
    }

    /// Returns how an operation ended, or `None` if it has not ended yet.
    ///
    /// # Errors
    /// If the trigger fails.
    pub fn completed(&mut self, ticket: Ticket) -> Outcome<Option<Completion>> {
        let Some(trigger) = self.trigger.as_mut() else { return Ok(None) };
        let completion = trigger.completion(ticket).map_err(of_trigger)?;
        if completion.is_some() {
            self.tickets.retain(|open| *open != ticket);
        }
        Ok(completion)
    }

    /// Waits for a given time until an operation ends. Packets that arrive stay available.
    ///
    /// # Errors
    /// If the interface or the trigger fails.
    pub fn completion(&mut self, ticket: Ticket, patience: PicosecondSpan) -> Outcome<Option<Completion>> {
        let until = self.now().after(patience);
        loop {
            let completion = self.completed(ticket)?;
            if completion.is_some() || self.now().0 >= until.0 {
                return Ok(completion);
            }
            self.find(LOOK, |_| false)?;
        }
    }

    /// Returns whether an operation of the peer has not ended, as far as the tester sees.
    pub(super) fn has_open_operations(&mut self) -> Outcome<bool> {
        if !self.sees_completions() {
            return Ok(false);
        }
        for ticket in self.tickets.clone() {
            self.completed(ticket)?;
        }
        Ok(!self.tickets.is_empty())
    }

    /// Forgets the operations that have not ended.
    pub(super) fn abandon_operations(&mut self) {
        self.tickets.clear();
    }

    /// Returns what is wrong with the trigger, if an operation that it was to submit ended in error before the peer has
    /// sent any request of its own.
    pub fn misfit_of_trigger(&self, operation: Operation, ticket: Ticket) -> Option<Misfit> {
        let how = self.trigger.as_ref().filter(|_| !self.has_requested)?.failure(ticket)?;
        let (bytes, cid) = (OPERATION_BYTES, self.subject.peer_cid);
        Some(Misfit::Trigger { operation: operation.name(), bytes, cid, how })
    }

    /// Returns the RSN that the peer's next request has to have.
    pub const fn seen_rsn(&self) -> Rsn {
        self.seen_rsn
    }

    /// Returns the PSN that the peer's next Pull Request has to have.
    pub const fn seen_requests(&self) -> Psn {
        self.seen_requests
    }

    /// Prepares the answer to a READ of the peer.
    pub fn pull_data(&mut self, rsn: Rsn, data: &[u8]) -> Draft {
        self.pulls.retain(|pull| pull.rsn != rsn);
        let draft = Draft::read_answer(rsn, data, self.subject.peer_cid.0);
        self.number(draft)
    }

    /// Answers every request of the peer that has no answer, oldest first.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn answer_requests(&mut self) -> Outcome {
        while let Some(pull) = self.pulls.first().copied() {
            let data = usize::from(pull.request_length).saturating_sub(Bth::LEN + Aeth::LEN);
            let draft = self.pull_data(pull.rsn, &vec![0; data]);
            self.send(&draft)?;
        }
        Ok(())
    }

    /// Acknowledges the peer's packets below these PSNs, and nothing else.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn acknowledge_below(&mut self, data: Psn, request: Psn) -> Outcome {
        self.bases = (data, request);
        let back = self.ack_of(data);
        self.send_back(&back, None)
    }

    /// Lets the tester's next packets acknowledge everything that the peer has sent. Sends nothing.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn take_bases(&mut self) -> Outcome {
        self.poll()?;
        self.bases = (self.seen_data, self.seen_requests);
        Ok(())
    }

    /// Returns the bases in the tester's packets: data and request.
    pub const fn bases(&self) -> (Psn, Psn) {
        self.bases
    }

    /// Notes a request of the peer that arrives for the first time, or its replacement.
    pub(super) fn note_request(&mut self, received: &Received, is_new: bool) {
        self.has_requested |= is_new;
        match received.header() {
            Some(FalconHeader::PullRequest(request)) if is_new => {
                self.pulls.push(Pull { rsn: request.base.rsn, request_length: request.request_length });
                self.seen_rsn = newer(self.seen_rsn, request.base.rsn);
            }
            Some(FalconHeader::PushData(push)) if is_new => {
                self.seen_rsn = newer(self.seen_rsn, push.base.rsn);
            }
            Some(FalconHeader::Resync(resync)) if Resync::in_request_window(resync) => {
                self.pulls.retain(|pull| pull.rsn != resync.base.rsn);
            }
            _ => {}
        }
    }
}

/// Says that an error is that of the trigger.
fn of_trigger(error: io::Error) -> Stop {
    Stop::Io(io::Error::new(error.kind(), format!("the trigger: {error}")))
}

/// Returns one past the newer of an RSN and the one before `next`.
fn newer(next: Rsn, rsn: Rsn) -> Rsn {
    // D-53: a serial comparison.
    if (rsn.0.wrapping_sub(next.0) as i32) < 0 { next } else { rsn.add(1) }
}
