//! The application's queues, as the transaction sublayer and the ULP see them.

use crate::ids::Rsn;
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
    fn submitted(&self) -> Rsn {
        Rsn(self.0.send_producer())
    }

    #[inline(always)]
    fn touch(&self, rsn: Rsn) {
        self.0.touch(rsn);
    }

    #[inline(always)]
    fn kind(&self, rsn: Rsn) -> Kind {
        if self.0.opcode(rsn).is_pull() { Kind::Pull } else { Kind::Push }
    }

    #[inline(always)]
    fn label(&self, rsn: Rsn) -> Label {
        let opcode = self.0.opcode(rsn);
        WorkRequest { opcode, ..WorkRequest::default() }.label()
    }

    #[inline(always)]
    fn report(&self, rsn: Rsn, t: &Transaction) -> bool {
        let flags = WorkFlags::from_bits_retain(t.flags);
        let silent = !flags.contains(WorkFlags::SIGNALED) && t.code == 0 && t.ulp_code == 0;
        silent
            || self.0.complete(Completion {
                wr_id: self.0.wr_id(rsn),
                length: t.length,
                rsn: rsn.0,
                status: t.code,
                ulp_code: t.ulp_code,
                opcode: Verb(t.opcode),
                ..Completion::default()
            })
    }

    #[inline(always)]
    fn release(&self, rsn: Rsn) {
        self.0.set_send_consumer(rsn);
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
