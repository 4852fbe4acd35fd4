//! The application's queues, as the transaction sublayer and the ULP see them.

use crate::ids::{Rsn, WorkPosition};
use crate::queues::Queues;
use crate::transaction::{Kind, Label, Submissions, Transaction};
use crate::ulp::{Completion, Readiness, ReceiveRequest, Receives, Verb, WorkFlags, WorkRequest};

/// The queues that connect the connection to its application.
#[repr(transparent)]
pub(super) struct Application<'q, Q>(pub(super) &'q Q);

impl<Q> Clone for Application<'_, Q> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Application<'_, Q> {}

impl<Q: Queues> Submissions for Application<'_, Q> {
    #[inline(always)]
    fn submitted(&self) -> WorkPosition {
        self.0.send_producer()
    }

    #[inline(always)]
    fn touch(&self, work: WorkPosition) {
        self.0.touch(work);
    }

    #[inline(always)]
    fn kind(&self, work: WorkPosition) -> Kind {
        if self.0.opcode(work).is_pull() { Kind::Pull } else { Kind::Push }
    }

    #[inline(always)]
    fn label(&self, work: WorkPosition) -> Label {
        let opcode = self.0.opcode(work);
        WorkRequest { opcode, ..WorkRequest::default() }.label()
    }

    #[inline(always)]
    fn report(&self, rsn: Rsn, t: &Transaction) -> bool {
        let flags = WorkFlags::from_bits_retain(t.flags);
        let silent = !flags.contains(WorkFlags::SIGNALED) && t.code == 0 && t.ulp_code == 0;
        silent
            || self.0.complete(Completion {
                wr_id: self.0.wr_id(t.work),
                length: t.length,
                rsn: rsn.0,
                status: t.code,
                ulp_code: t.ulp_code,
                opcode: Verb(t.opcode),
                ..Completion::default()
            })
    }

    #[inline(always)]
    fn release(&self, work: WorkPosition) {
        self.0.set_send_consumer(work);
    }
}

impl<Q: Queues> Receives for Application<'_, Q> {
    #[inline(always)]
    fn readiness(&self, used: u32) -> Readiness {
        self.0.readiness(used)
    }

    #[inline(always)]
    fn receive(&self, index: u32) -> ReceiveRequest {
        self.0.receive_request(index)
    }

    #[inline(always)]
    fn consumed(&self, count: u32) {
        self.0.set_receive_consumer(count);
    }

    #[inline(always)]
    fn received(&self, completion: Completion) {
        self.0.complete(completion);
    }
}
