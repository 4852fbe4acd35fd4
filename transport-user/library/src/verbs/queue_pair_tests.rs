//! Tests of the queues. The test plays the kernel.

use std::sync::atomic::Ordering::SeqCst;
use transport_common::queues::Verb;

use proptest::prelude::*;
use transport_common::queues::{Queues as _, WorkFlags};

use super::*;
use crate::parameters::segmentation::RdmaOperation;
use crate::verbs::grace::tests::ByHand;
use crate::verbs::memory::DEFAULT;

const FIRST: Rsn = Rsn(u32::MAX - 3); // counters wrap soon
const SEGMENT: u32 = 100;
const NUMBER: Cid = Cid(261);

/// The kernel's side of a queue pair, as far as the application can see it.
struct Kernel {
    qp: Box<QueuePair>,
    /// Next receive to use.
    receive: u32,
}

impl Kernel {
    fn new(ordered: bool) -> (Self, Queues) {
        Self::with_grace(ordered, ByHand::over())
    }

    fn with_grace(ordered: bool, grace: Arc<ByHand>) -> (Self, Queues) {
        let qp: Box<QueuePair> = bytemuck::zeroed_box();
        let queues = Queues::open(&qp, (NUMBER, FIRST), (ordered, Ulp::Rdma), (SEGMENT, DEFAULT), grace);
        (Self { qp, receive: 0 }, queues)
    }

    fn posted(&self) -> Vec<(Rsn, WorkRequest)> {
        let (mut rsn, producer) = (self.consumer(), Rsn(self.qp.send_producer.load(SeqCst)));
        let mut posted = Vec::new();
        while rsn != producer {
            posted.push((rsn, self.work(rsn)));
            rsn = rsn.add(1);
        }
        posted
    }

    fn work(&self, rsn: Rsn) -> WorkRequest {
        self.qp.send[rsn.0 as usize % SEND_QUEUE_DEPTH].load()
    }

    fn consumer(&self) -> Rsn {
        Rsn(self.qp.send_consumer.load(SeqCst))
    }

    /// Ends a transaction; a success is reported only if it was signaled.
    fn complete(&self, rsn: Rsn, status: u8) {
        let work = self.work(rsn);
        if status != 0 || work.flags.contains(WorkFlags::SIGNALED) {
            let completion = Completion {
                wr_id: work.wr_id,
                rsn: rsn.0,
                status,
                opcode: work.opcode,
                ..Completion::default()
            };
            assert!(self.qp.complete(completion), "the library overran the completion queue");
        }
    }

    /// Moves BRSN (F-8.4.1-1).
    fn advance(&self, to: Rsn) {
        self.qp.send_consumer.store(to.0, SeqCst);
    }

    /// Ends the oldest `n` transactions with success.
    fn succeed(&self, n: usize) {
        for (rsn, _) in self.posted().into_iter().take(n) {
            self.complete(rsn, 0);
            self.advance(rsn.add(1));
        }
    }

    fn deliver(&mut self, length: u32) {
        let request = self.qp.receive[self.receive as usize % RECEIVE_QUEUE_DEPTH].load();
        let completion =
            Completion { wr_id: request.wr_id, length, opcode: Verb::RECEIVE, ..Completion::default() };
        assert!(self.qp.complete(completion), "the library overran the completion queue");
        self.receive += 1;
        self.qp.receive_consumer.store(self.receive, SeqCst);
    }
}

fn keep() -> Keep {
    Arc::new(())
}

fn submit(
    queues: &mut Queues,
    qp: &QueuePair,
    operation: RdmaOperation,
    length: u64,
    keep: Keep,
) -> oneshot::Receiver<Outcome> {
    let (done, outcome) = oneshot::channel();
    let id = queues.operation_id();
    let segments = Segments::new(operation, (0, length), None, queues.ordered, id);
    queues.submit(id, Operation::new(segments, keep, done));
    queues.pump(qp);
    outcome
}

const WRITE: RdmaOperation = RdmaOperation::Write { rkey: 1, address: 0 };

fn own(wr_id: u64) -> WorkRequest {
    WorkRequest {
        opcode: Verb::WRITE,
        flags: WorkFlags::SIGNALED,
        length: 8,
        wr_id,
        ..WorkRequest::default()
    }
}

#[test]
fn a_long_operation_goes_through_a_short_queue() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, 1000 * u64::from(SEGMENT), keep());
    assert_eq!(kernel.posted().len(), SEND_QUEUE_DEPTH);
    let mut rounds = 0;
    while outcome.try_recv().is_err() {
        kernel.succeed(200);
        queues.collect(&kernel.qp);
        queues.pump(&kernel.qp);
        rounds += 1;
        assert!(rounds < 10, "1000 segments are 5 rounds of 200");
    }
    assert_eq!((kernel.posted().len(), queues.has_operations()), (0, false));
    assert_eq!(kernel.consumer(), FIRST.add(1000));
}

#[test]
fn ordered_operations_end_with_their_last_segment() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut first = submit(&mut queues, &kernel.qp, WRITE, 3 * u64::from(SEGMENT), keep());
    let mut second = submit(&mut queues, &kernel.qp, RdmaOperation::Send, 8, keep());
    kernel.succeed(2);
    queues.collect(&kernel.qp);
    assert!(first.try_recv().is_err());
    kernel.succeed(1);
    queues.collect(&kernel.qp);
    assert_eq!((first.try_recv(), second.try_recv().is_err()), (Ok(Ok(())), true));
}

#[test]
fn unordered_operations_end_when_every_segment_has() {
    let (kernel, mut queues) = Kernel::new(false);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, 3 * u64::from(SEGMENT), keep());
    for n in [2, 0] {
        kernel.complete(FIRST.add(n), 0);
        queues.collect(&kernel.qp);
        assert!(outcome.try_recv().is_err());
    }
    kernel.complete(FIRST.add(1), 0);
    queues.collect(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Ok(())));
}

/// An error ends an operation only when none of its segments is in flight, because then its buffer may be used
/// again.
#[test]
fn a_failed_operation_keeps_its_buffer_until_everything_posted_has_ended() {
    let (kernel, mut queues) = Kernel::new(true);
    let buffer: Keep = keep();
    let length = 1000 * u64::from(SEGMENT);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, length, Arc::clone(&buffer));
    kernel.complete(FIRST, CompletionCode::TargetNackCie as u8);
    kernel.advance(FIRST.add(1));
    queues.collect(&kernel.qp);
    assert!(!queues.pump(&kernel.qp), "nothing more is posted");
    assert!(outcome.try_recv().is_err() && Arc::strong_count(&buffer) == 2);
    kernel.succeed(SEND_QUEUE_DEPTH - 1);
    queues.collect(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Err(OperationError::Completion { code: 1, ulp_code: 0 })));
    assert_eq!(Arc::strong_count(&buffer), 1);
}

/// F-11-33, F-11-34: whatever value of 4 bits a transaction ends with, both interfaces hand it to the application.
#[test]
fn every_completion_code_reaches_the_application() {
    for code in 1..16u8 {
        let (kernel, mut queues) = Kernel::new(true);
        let mut outcome = submit(&mut queues, &kernel.qp, WRITE, 8, keep());
        queues.post(&kernel.qp, own(7)).expect("room");
        kernel.complete(FIRST, code);
        kernel.complete(FIRST.add(1), code);
        kernel.advance(FIRST.add(2));
        let mut out = [Completion::default(); 4];
        let mut polled = 0;
        // An error of this end comes with the second call, after its grace period.
        for _ in 0..2 {
            queues.collect(&kernel.qp);
            polled += queues.poll(&kernel.qp, &mut out[polled..]);
        }
        assert_eq!(
            outcome.try_recv(),
            Ok(Err(OperationError::Completion { code, ulp_code: 0 })),
            "{code:#x}"
        );
        assert_eq!((polled, out[0].wr_id, out[0].status), (1, 7, code), "{code:#x}");
    }
}

/// The engine completes the outstanding transactions of a dead connection. The wire program may still copy into
/// their memory.
#[test]
fn what_this_end_has_ended_is_told_after_a_grace_period() {
    let grace = Arc::new(ByHand::default());
    let (kernel, mut queues) = Kernel::with_grace(true, Arc::clone(&grace));
    let buffer: Keep = keep();
    let (dead, late) = (CompletionCode::DeadConnection as u8, CompletionCode::LocalTimeout as u8);
    let mut done = submit(&mut queues, &kernel.qp, WRITE, 8, keep());
    let mut ended = submit(&mut queues, &kernel.qp, WRITE, 8, Arc::clone(&buffer));
    queues.post(&kernel.qp, own(7)).expect("room");
    kernel.complete(FIRST, 0);
    kernel.complete(FIRST.add(1), dead);
    kernel.complete(FIRST.add(2), dead);
    kernel.advance(FIRST.add(3));
    queues.collect(&kernel.qp);
    assert_eq!(done.try_recv(), Ok(Ok(())), "what the peer acknowledged needs none");
    assert!(ended.try_recv().is_err() && Arc::strong_count(&buffer) == 2);
    let mut out = [Completion::default(); 4];
    assert_eq!(queues.poll(&kernel.qp, &mut out), 0);
    grace.pass();
    assert_eq!(queues.poll(&kernel.qp, &mut out), 1);
    assert_eq!((out[0].wr_id, out[0].status), (7, dead));
    queues.collect(&kernel.qp);
    assert_eq!(ended.try_recv(), Ok(Err(OperationError::Completion { code: dead, ulp_code: 0 })));
    assert_eq!(Arc::strong_count(&buffer), 1);

    // A transaction that ends later needs another grace period.
    queues.post(&kernel.qp, own(8)).expect("room");
    kernel.complete(FIRST.add(3), late);
    kernel.advance(FIRST.add(4));
    assert_eq!(queues.poll(&kernel.qp, &mut out), 0);
    grace.pass();
    assert_eq!(queues.poll(&kernel.qp, &mut out), 1);
    assert_eq!((out[0].wr_id, out[0].status), (8, late));
}

/// Drained segments of a failed operation still count as in flight.
#[test]
fn a_failed_operation_waits_for_the_grace_period_of_what_was_drained() {
    let grace = Arc::new(ByHand::default());
    let (kernel, mut queues) = Kernel::with_grace(true, Arc::clone(&grace));
    let buffer: Keep = keep();
    let length = 2 * u64::from(SEGMENT);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, length, Arc::clone(&buffer));
    kernel.complete(FIRST, CompletionCode::TargetNackCie as u8);
    kernel.complete(FIRST.add(1), CompletionCode::DeadConnection as u8);
    kernel.advance(FIRST.add(2));
    for _ in 0..2 {
        queues.collect(&kernel.qp);
        assert!(outcome.try_recv().is_err() && Arc::strong_count(&buffer) == 2);
    }
    grace.pass();
    queues.collect(&kernel.qp);
    queues.collect(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Err(OperationError::Completion { code: 1, ulp_code: 0 })));
    assert_eq!(Arc::strong_count(&buffer), 1);
}

#[test]
fn a_dropped_future_takes_nothing_back() {
    let (kernel, mut queues) = Kernel::new(true);
    let buffer: Keep = keep();
    drop(submit(
        &mut queues,
        &kernel.qp,
        RdmaOperation::Send,
        1000 * u64::from(SEGMENT),
        Arc::clone(&buffer),
    ));
    for _ in 0..4 {
        kernel.succeed(SEND_QUEUE_DEPTH);
        queues.collect(&kernel.qp);
        queues.pump(&kernel.qp);
    }
    assert_eq!((Arc::strong_count(&buffer), queues.has_operations()), (1, false));
    assert_eq!(kernel.consumer(), FIRST.add(1000));
}

/// The path becomes smaller: what is posted stays as it is, what is not is cut for it, and longer work requests are refused.
#[test]
fn segments_that_are_not_posted_become_shorter() {
    for ordered in [false, true] {
        let (kernel, mut queues) = Kernel::new(ordered);
        let segments = SEND_QUEUE_DEPTH as u64 + 2;
        let mut outcome = submit(&mut queues, &kernel.qp, WRITE, segments * u64::from(SEGMENT), keep());
        assert!(!queues.narrow(&kernel.qp, 40), "256 longer ones are posted");
        assert!(!queues.narrow(&kernel.qp, SEGMENT) && queues.max_segment() == 40, "it does not grow again");
        kernel.succeed(SEND_QUEUE_DEPTH);
        assert!(queues.narrow(&kernel.qp, 40));
        queues.collect(&kernel.qp);
        queues.pump(&kernel.qp);
        let lengths: Vec<u32> = kernel.posted().iter().map(|(_, work)| work.length).collect();
        assert_eq!(lengths, [40; 5], "200 bytes were left");
        kernel.succeed(5);
        queues.collect(&kernel.qp);
        assert_eq!(outcome.try_recv(), Ok(Ok(())));
        let long = WorkRequest { length: 41, ..own(1) };
        assert!(matches!(queues.post(&kernel.qp, long), Err(PostError::Malformed(_))));
        assert!(queues.narrow(&kernel.qp, 8) && queues.post(&kernel.qp, own(1)).is_ok());
        assert!(queues.narrow(&kernel.qp, 8) && !queues.narrow(&kernel.qp, 7));
    }
}

/// The MTU of an interface may become so small that a packet has headers only. No operation is cut into segments of no bytes,
/// which would never end.
#[test]
fn no_operation_is_cut_into_nothing() {
    let (kernel, mut queues) = Kernel::new(true);
    assert!(!queues.narrow(&kernel.qp, 0) && queues.max_segment() == SEGMENT);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, 2 * u64::from(SEGMENT), keep());
    assert_eq!(kernel.posted().len(), 2);
    kernel.succeed(2);
    queues.collect(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Ok(())));
}

/// On an unordered connection a SEND is one segment. One that waits for a place cannot be cut.
#[test]
fn a_send_that_waits_and_is_too_long_is_known() {
    let (kernel, mut queues) = Kernel::new(false);
    for n in 0..SEND_QUEUE_DEPTH {
        assert!(queues.post(&kernel.qp, own(n as u64)).is_ok());
    }
    let mut outcome = submit(&mut queues, &kernel.qp, RdmaOperation::Send, 50, keep());
    assert!(queues.narrow(&kernel.qp, 50) && !queues.narrow(&kernel.qp, 49));
    outcome.try_recv().expect_err("it waits");
}

/// D-84: the segments of a SEND follow one another.
#[test]
fn nothing_comes_between_the_segments_of_a_send() {
    let (kernel, mut queues) = Kernel::new(true);
    let _outcome = submit(&mut queues, &kernel.qp, RdmaOperation::Send, 300 * u64::from(SEGMENT), keep());
    kernel.succeed(100);
    queues.collect(&kernel.qp);
    assert_eq!(queues.post(&kernel.qp, own(1)), Err(PostError::QueueFull));
    assert!(queues.pump(&kernel.qp));
    assert!(queues.post(&kernel.qp, own(1)).is_ok());
    let opcodes: Vec<Verb> = kernel.posted().iter().map(|(_, work)| work.opcode).collect();
    assert_eq!(opcodes[opcodes.len() - 2..], [Verb::SEND_LAST, Verb::WRITE]);
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    let (kernel, mut queues) = Kernel::new(true);
    for n in 0..SEND_QUEUE_DEPTH {
        assert_eq!(queues.post(&kernel.qp, own(n as u64)), Ok(FIRST.add(n as u32)));
    }
    assert_eq!(queues.post(&kernel.qp, own(0)), Err(PostError::QueueFull));
    kernel.succeed(1);
    assert!(queues.post(&kernel.qp, own(256)).is_ok());
    let mut completions = [Completion::default(); 4];
    assert_eq!(queues.poll(&kernel.qp, &mut completions), 1);
    assert_eq!((completions[0].wr_id, completions[0].rsn), (0, FIRST.0));
}

#[test]
fn an_application_that_does_not_collect_is_stopped() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut posted = 0;
    while queues.post(&kernel.qp, own(posted)).is_ok() {
        kernel.succeed(1);
        posted += 1;
    }
    assert_eq!(posted, COMPLETION_QUEUE_DEPTH as u64);
    let mut completions = [Completion::default(); COMPLETION_QUEUE_DEPTH];
    assert_eq!(queues.poll(&kernel.qp, &mut completions), COMPLETION_QUEUE_DEPTH);
    assert!(completions.iter().enumerate().all(|(n, c)| c.wr_id == n as u64));
    assert!(queues.post(&kernel.qp, own(0)).is_ok());
}

#[test]
fn malformed_requests_are_named() {
    let (kernel, mut queues) = Kernel::new(false);
    let mut refused = |change: fn(&mut WorkRequest)| {
        let mut work = own(1);
        change(&mut work);
        match queues.post(&kernel.qp, work) {
            Err(PostError::Malformed(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(|w| w.wr_id = OPERATION).contains("wr_id"));
    assert!(refused(|w| w.length = SEGMENT + 1).contains("transaction"));
    assert!(refused(|w| w.local_offset = u64::MAX).contains("local buffer"));
    assert!(refused(|w| w.opcode = Verb::SEND_FIRST).contains("unordered"));
    assert!(refused(|w| w.opcode = Verb::RECEIVE).contains("opcode"));
    assert!(refused(|w| (w.opcode, w.remote_address) = (Verb::FETCH_ADD, 4)).contains("multiple of 8"));
    assert_eq!(kernel.posted().len(), 0);
}

#[test]
fn receives_come_back_under_their_own_names() {
    let (mut kernel, mut queues) = Kernel::new(true);
    for n in 0..RECEIVE_QUEUE_DEPTH as u64 {
        assert_eq!(queues.post_receive(&kernel.qp, keep(), (4096 * n, 4096), 1000 + n), Ok(false));
    }
    let full = queues.post_receive(&kernel.qp, keep(), (0, 1), 0);
    assert_eq!(full, Err(OperationError::ReceiveQueueFull(RECEIVE_QUEUE_DEPTH)));
    kernel.deliver(77);
    assert!(queues.collect(&kernel.qp));
    let received = queues.take_received().expect("delivered");
    assert_eq!((received.wr_id, received.length), (1000, 77));
    assert_eq!(queues.post_receive(&kernel.qp, keep(), (0, 1), 5), Ok(false));
    assert_eq!(queues.occupancy(&kernel.qp).receive, RECEIVE_QUEUE_DEPTH as u32);
}

/// What the kernel does not write for this queue pair ends none of its operations.
#[test]
fn a_completion_of_another_queue_pair_is_ignored() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, u64::from(SEGMENT), keep());
    kernel.qp.number.store(NUMBER.0 + 1, SeqCst);
    kernel.complete(FIRST, 9);
    assert!(!queues.collect(&kernel.qp) && outcome.try_recv().is_err());
    kernel.qp.number.store(NUMBER.0, SeqCst);
    kernel.succeed(1);
    queues.collect(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Ok(())));
}

/// D-89: on a dead connection, waiting operations complete with kCmplDeadConn, and operations in flight complete
/// as the kernel reports.
#[test]
fn a_dead_connection_fails_everything() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut begun = submit(&mut queues, &kernel.qp, WRITE, 1000 * u64::from(SEGMENT), keep());
    let mut waiting = submit(&mut queues, &kernel.qp, WRITE, 1, keep());
    kernel.qp.control.state.store(State::Fatal as u32, SeqCst);
    assert!(!queues.pump(&kernel.qp));
    let dead = Err(OperationError::Completion { code: 0xa, ulp_code: 0 });
    assert_eq!((waiting.try_recv(), begun.try_recv().is_err()), (Ok(dead.clone()), true));
    for (rsn, _) in kernel.posted() {
        kernel.complete(rsn, CompletionCode::DeadConnection as u8);
        kernel.advance(rsn.add(1));
    }
    queues.collect(&kernel.qp);
    assert_eq!((begun.try_recv(), queues.has_operations()), (Ok(dead), false));
    assert_eq!(queues.post(&kernel.qp, own(1)), Err(PostError::Closed));
    assert_eq!(queues.post_receive(&kernel.qp, keep(), (0, 1), 0), Err(OperationError::Closed));
}

#[test]
fn a_released_queue_pair_is_left_alone() {
    let (kernel, mut queues) = Kernel::new(true);
    let mut outcome = submit(&mut queues, &kernel.qp, WRITE, 1000 * u64::from(SEGMENT), keep());
    queues.post_receive(&kernel.qp, keep(), (0, 1), 0).expect("there is room");
    queues.release(&kernel.qp);
    assert_eq!(outcome.try_recv(), Ok(Err(OperationError::Closed)));
    let before = kernel.qp.completion_consumer.load(SeqCst);
    kernel.complete(FIRST, 1);
    assert!(!queues.collect(&kernel.qp));
    assert_eq!(kernel.qp.completion_consumer.load(SeqCst), before);
    assert_eq!(queues.occupancy(&kernel.qp), Occupancy::default());
}

#[derive(Clone, Debug)]
enum Step {
    Post,
    Submit(u64),
    Receive,
    Succeed(usize),
    Fail,
    Deliver,
    Poll(usize),
    Collect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Post),
        2 => (0u64..60_000).prop_map(Step::Submit),
        2 => Just(Step::Receive),
        4 => (0usize..300).prop_map(Step::Succeed),
        1 => Just(Step::Fail),
        2 => Just(Step::Deliver),
        2 => (0usize..40).prop_map(Step::Poll),
        1 => Just(Step::Collect),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever the application does, the completion ring never overflows (`Kernel::complete` asserts it), every
    /// operation ends exactly once, and every completion of the application is delivered exactly once.
    #[test]
    fn nothing_overflows_and_nothing_is_lost(steps in steps()) {
        let (mut kernel, mut queues) = Kernel::new(true);
        let (mut posted, mut seen, mut receives, mut operations) = (0u64, 0usize, 0u32, Vec::new());
        let mut out = [Completion::default(); 40];
        for step in steps {
            match step {
                Step::Post => posted += u64::from(queues.post(&kernel.qp, own(posted)).is_ok()),
                Step::Submit(length) => operations.push(submit(&mut queues, &kernel.qp, WRITE, length, keep())),
                Step::Receive => {
                    receives += u32::from(queues.post_receive(&kernel.qp, keep(), (0, 1), 7).is_ok());
                }
                Step::Succeed(n) => kernel.succeed(n),
                Step::Fail => {
                    if let Some((rsn, _)) = kernel.posted().first() {
                        kernel.complete(*rsn, 8);
                        kernel.advance(rsn.add(1));
                    }
                }
                Step::Deliver => if kernel.receive < receives { kernel.deliver(1) },
                Step::Poll(n) => seen += queues.poll(&kernel.qp, &mut out[..n]),
                Step::Collect => { queues.collect(&kernel.qp); }
            }
            queues.pump(&kernel.qp);
        }
        while queues.has_operations() || !kernel.posted().is_empty() {
            kernel.succeed(SEND_QUEUE_DEPTH);
            seen += queues.poll(&kernel.qp, &mut out);
            queues.pump(&kernel.qp);
        }
        loop {
            let n = queues.poll(&kernel.qp, &mut out);
            seen += n;
            if n == 0 { break }
        }
        prop_assert_eq!(seen, posted as usize + kernel.receive as usize);
        prop_assert!(operations.iter_mut().all(|outcome| outcome.try_recv().is_ok()));
    }
}
