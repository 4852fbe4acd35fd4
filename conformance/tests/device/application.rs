//! The application of the device: submits the operations that the tester wants, and tells how they end.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

use falcon_conformance::{Completion, Operation, Ticket, Trigger, Wanted};
use host_nic::HostNic;
use transport_common::queues::{Verb, WorkFlags, WorkRequest};

use super::{MEMORY, ORDERED, UNORDERED};

/// What the device tells about the ends of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// What happened.
    Truth,
    /// Success, as soon as an operation is submitted.
    SuccessAtOnce,
    /// Success at the end, whatever happened.
    Success,
    /// An error at the end, whatever happened.
    Error,
    /// Nothing.
    Nothing,
}

#[derive(Debug, Default)]
struct State {
    tickets: usize,
    wanted: VecDeque<(Ticket, Wanted)>,
    ended: HashMap<Ticket, Completion>,
}

/// Where the tester submits operations.
#[derive(Clone, Debug)]
pub(crate) struct Desk(Rc<RefCell<State>>);

impl Trigger for Desk {
    fn submit(&mut self, wanted: &Wanted) -> io::Result<Ticket> {
        let mut state = self.0.borrow_mut();
        let ticket = Ticket(state.tickets);
        state.tickets += 1;
        state.wanted.push_back((ticket, *wanted));
        Ok(ticket)
    }

    fn completion(&mut self, ticket: Ticket) -> io::Result<Option<Completion>> {
        Ok(self.0.borrow().ended.get(&ticket).copied())
    }

    fn sees_completions(&self) -> bool {
        true
    }
}

/// The application.
pub(crate) struct Application {
    desk: Desk,
    reports: Reports,
}

impl Application {
    pub(crate) fn new(reports: Reports) -> Self {
        Self { desk: Desk(Rc::default()), reports }
    }

    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Posts what is wanted.
    pub(crate) fn submit(&mut self, nic: &mut HostNic) {
        let mut state = self.desk.0.borrow_mut();
        while let Some((ticket, wanted)) = state.wanted.pop_front() {
            let (opcode, local_offset) = match wanted.operation {
                Operation::Write => (Verb::WRITE, 0),
                Operation::Read => (Verb::READ, MEMORY as u64 / 2),
            };
            let work = WorkRequest {
                opcode,
                flags: WorkFlags::SIGNALED,
                length: wanted.bytes,
                local_offset,
                rkey: 1,
                wr_id: ticket.0 as u64,
                ..WorkRequest::default()
            };
            nic.post(wanted.cid.0 as usize, work).expect("the queue is long enough");
            if self.reports == Reports::SuccessAtOnce {
                state.ended.insert(ticket, Completion::Success);
            }
        }
    }

    /// Takes the completions.
    pub(crate) fn collect(&mut self, nic: &mut HostNic) {
        let mut state = self.desk.0.borrow_mut();
        for slot in [ORDERED, UNORDERED] {
            while let Some(completion) = nic.poll_completion(slot as usize) {
                let truth = if completion.status == 0 && completion.ulp_code == 0 {
                    Completion::Success
                } else {
                    Completion::Error
                };
                let told = match self.reports {
                    Reports::Truth => truth,
                    Reports::SuccessAtOnce | Reports::Success => Completion::Success,
                    Reports::Error => Completion::Error,
                    Reports::Nothing => continue,
                };
                state.ended.insert(Ticket(completion.wr_id as usize), told);
            }
        }
    }
}
