//! The queues of a connection, with a record on the tape of everything that its steps read and write.

use super::{Tag, Tape, digest_of_completion};
use crate::congestion::settings::Settings;
use crate::ids::Rsn;
use crate::queues::{Command, Completion, Queues, Readiness, ReceiveRequest, Verb, WorkRequest};

/// [`Queues`] that record. It lives within one step.
pub struct Recorder<Q> {
    queues: *const Q,
    tape: *const Tape,
}

impl<Q: Queues> Recorder<Q> {
    /// Records on `tape` what is done to `queues`.
    ///
    /// # Safety
    /// Both must outlive the recorder.
    #[inline(always)]
    pub(super) const unsafe fn new(queues: &Q, tape: &Tape) -> Self {
        Self { queues, tape }
    }

    /// Reads `queues` from now on. They must outlive every use of the recorder until the next call of this
    /// function.
    #[inline(always)]
    pub(super) const fn reads(&mut self, queues: &Q) {
        self.queues = queues;
    }

    #[inline(always)]
    fn queues(&self) -> &Q {
        // SAFETY: by the contract of `new`.
        unsafe { &*self.queues }
    }

    #[inline(always)]
    fn tape(&self) -> &Tape {
        // SAFETY: by the contract of `new`.
        unsafe { &*self.tape }
    }
}

impl<Q: Queues> Queues for Recorder<Q> {
    /// A function of its own, because the note needs space on the stack.
    #[inline(never)]
    fn in_place<R>(part: impl FnOnce() -> R) -> R {
        part()
    }

    #[inline(always)]
    fn send_producer(&self) -> u32 {
        let producer = self.queues().send_producer();
        self.tape().long(Tag::SendProducer, 0, [producer]);
        producer
    }

    #[inline(always)]
    fn touch(&self, rsn: Rsn) {
        self.queues().touch(rsn);
    }

    #[inline(always)]
    fn opcode(&self, rsn: Rsn) -> Verb {
        let opcode = self.queues().opcode(rsn);
        self.tape().short(Tag::Opcode, opcode.0.into());
        opcode
    }

    #[inline(always)]
    fn wr_id(&self, rsn: Rsn) -> u64 {
        let wr_id = self.queues().wr_id(rsn);
        self.tape().wide(Tag::WrId, rsn.0 as u16, wr_id);
        wr_id
    }

    #[inline(always)]
    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest) {
        self.queues().load_work_request(rsn, out);
        self.tape().value(Tag::WorkRequest, rsn.0 as u16, out);
    }

    #[inline(always)]
    fn readiness(&self, used: u32) -> Readiness {
        let readiness = self.queues().readiness(used);
        self.tape().short(Tag::Readiness, readiness as u16);
        readiness
    }

    #[inline(always)]
    fn receive_request(&self, index: u32) -> ReceiveRequest {
        let request = self.queues().receive_request(index);
        self.tape().value(Tag::ReceiveRequest, index as u16, &request);
        request
    }

    #[inline(always)]
    fn command(&self) -> Command {
        let command = self.queues().command();
        self.tape().long(Tag::Command, 0, [command.0]);
        command
    }

    #[inline(always)]
    fn has_new_settings(&self) -> bool {
        let new = self.queues().has_new_settings();
        self.tape().short(Tag::HasNewSettings, new.into());
        new
    }

    #[inline(always)]
    fn take_settings(&self) {
        self.queues().take_settings();
        self.tape().value(Tag::TakeSettings, 0, self.queues().settings());
    }

    #[inline(always)]
    fn settings(&self) -> &Settings {
        self.queues().settings()
    }

    #[inline(always)]
    fn set_state(&self, state: u32) {
        self.tape().short(Tag::SetState, state as u16);
        self.queues().set_state(state);
    }

    #[inline(always)]
    fn set_send_consumer(&self, rsn: Rsn) {
        self.tape().long(Tag::SetSendConsumer, 0, [rsn.0]);
        self.queues().set_send_consumer(rsn);
    }

    #[inline(always)]
    fn set_receive_consumer(&self, count: u32) {
        self.tape().long(Tag::SetReceiveConsumer, 0, [count]);
        self.queues().set_receive_consumer(count);
    }

    #[inline(always)]
    fn set_receive_wanted(&self, wanted: u32) {
        self.tape().short(Tag::SetReceiveWanted, wanted as u16);
        self.queues().set_receive_wanted(wanted);
    }

    #[inline(always)]
    fn complete(&self, completion: Completion) -> bool {
        let number = digest_of_completion(&completion);
        let taken = self.queues().complete(completion);
        self.tape().wide(Tag::Complete, taken.into(), number);
        taken
    }
}
