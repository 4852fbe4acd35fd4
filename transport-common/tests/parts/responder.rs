//! The responder without a connection: verdict and place of a request, and what the application is told.

use core::cell::{Cell, RefCell};

use transport_common::ids::Rsn;
use transport_common::memory::{AccessFlags, Domain, LKey, PAGE_BYTES, ProtectionDomain, Region};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::rdma::Rdma;
use transport_common::ulp::{
    AnswerKind, Atomic, Completion, Operation, OperationKind, Place, PlaceFlags, PullVerdict, PushVerdict,
    Readiness, ReceiveRequest, Receives, Responder, Ulp, UlpCode, Verb,
};

/// Bytes of the domain's memory.
const MEMORY: u64 = 3 * PAGE_BYTES;
const DOMAIN: Domain = Domain::of_node(MEMORY);

/// An application that has posted some receives of 100 bytes.
#[derive(Default)]
struct Application {
    posted: Cell<u32>,
    /// Its completion queue is full.
    full: Cell<bool>,
    /// Offset of the first receive.
    base: Cell<u64>,
    lkey: Cell<LKey>,
    consumed: Cell<u32>,
    completions: RefCell<Vec<Completion>>,
}

impl Receives for &Application {
    fn readiness(&self, used: u32) -> Readiness {
        match (used < self.posted.get(), self.full.get()) {
            (false, _) => Readiness::NoReceive,
            (true, true) => Readiness::NoPlace,
            (true, false) => Readiness::Ready,
        }
    }

    fn receive(&self, index: u32) -> ReceiveRequest {
        ReceiveRequest {
            local_offset: self.base.get() + 1000 * u64::from(index),
            wr_id: index.into(),
            length: 100,
            lkey: self.lkey.get(),
        }
    }

    fn consumed(&self, count: u32) {
        self.consumed.set(count);
    }

    fn received(&self, completion: Completion) {
        self.completions.borrow_mut().push(completion);
    }
}

fn region(access: AccessFlags) -> Region {
    Region { offset: 4096, length: 512, key: 7, access, ..Region::default() }
}

fn send(first: u8, last: u8, length: u32) -> Operation {
    Operation { kind: OperationKind::Send, first, last, length, ..Operation::default() }
}

fn admit(
    responder: &mut Responder,
    op: &Operation,
    region: &Region,
    application: &Application,
) -> (PushVerdict, Place) {
    let mut place = Place::default();
    let verdict = Rdma::admit_push(responder, op, region, Rsn(9), application, &mut place);
    (verdict, place)
}

#[test]
fn a_write_has_a_place_or_no_access() {
    let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
    let write =
        Operation { kind: OperationKind::Write, rkey: 7, address: 12, length: 500, ..Operation::default() };
    let writable = region(AccessFlags::REMOTE_WRITE);
    let (verdict, place) = admit(&mut responder, &write, &writable, &application);
    assert_eq!((verdict, place.memory_offset, place.message_length), (PushVerdict::Take, 4108, 500));
    assert_eq!(place.flags, PlaceFlags::empty());
    responder.placed(&write, Rsn(9), &place, &application);
    assert!(application.completions.borrow().is_empty(), "nobody is told of a WRITE");
    for (op, region) in [
        (write, region(AccessFlags::REMOTE_READ)),
        (Operation { rkey: 8, ..write }, writable),
        (Operation { length: 501, ..write }, writable),
    ] {
        assert_eq!(admit(&mut responder, &op, &region, &application).0, PushVerdict::Access);
    }
    let other = Operation { kind: OperationKind::Read, ..write };
    assert_eq!(admit(&mut responder, &other, &writable, &application).0, PushVerdict::Invalid);
}

/// F-6.4-1: without a posted receive nothing changes, so the same SEND can be offered again.
#[test]
fn a_send_waits_for_a_receive_and_completes_it() {
    let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
    let none = Region::default();
    let (first, last) = (send(1, 0, 60), send(0, 1, 40));
    let before = responder;
    assert_eq!(admit(&mut responder, &first, &none, &application).0, PushVerdict::NotReady);
    assert_eq!(responder, before);
    application.posted.set(1);
    let (verdict, place) = admit(&mut responder, &first, &none, &application);
    assert_eq!((verdict, place.memory_offset, place.flags), (PushVerdict::Take, 0, PlaceFlags::RECEIVES));
    responder.placed(&first, Rsn(9), &place, &application);
    assert!(application.completions.borrow().is_empty(), "the message is not complete");
    let (verdict, place) = admit(&mut responder, &last, &none, &application);
    assert_eq!((verdict, place.memory_offset, place.message_length), (PushVerdict::Take, 60, 100));
    responder.placed(&last, Rsn(9), &place, &application);
    let told = application.completions.borrow()[0];
    assert_eq!((told.opcode, told.wr_id, told.length, told.status), (Verb::RECEIVE, 0, 100, 0));
    assert_eq!(application.consumed.get(), 1);
    assert_eq!(admit(&mut responder, &first, &none, &application).0, PushVerdict::NotReady);
}

/// F-6.4-1: a receive is not used while its completion has no place, whatever would complete it. Nothing changes, so the
/// same push can be offered again.
#[test]
fn a_receive_waits_for_a_place_of_its_completion() {
    let application = Application::default();
    application.posted.set(1);
    let writable = region(AccessFlags::REMOTE_WRITE);
    let write =
        Operation { kind: OperationKind::Write, rkey: 7, address: 12, length: 4, ..Operation::default() };
    let immediate = Operation { has_immediate: 1, ..write };
    let too_long = send(1, 1, 101);
    for op in [send(1, 1, 4), send(1, 0, 4), too_long, immediate] {
        let mut responder = Responder::new(1000, true, DOMAIN);
        let before = responder;
        application.full.set(true);
        assert_eq!(admit(&mut responder, &op, &writable, &application).0, PushVerdict::NotReady, "{op:?}");
        assert!(responder.lacks_place(&application) && !responder.is_ready(&application));
        assert_eq!(responder, before);
        application.full.set(false);
        assert_ne!(admit(&mut responder, &op, &writable, &application).0, PushVerdict::NotReady, "{op:?}");
    }
    // The last segment of a message waits as well, and fits the receive of the first.
    let mut responder = Responder::new(1000, true, DOMAIN);
    assert_eq!(admit(&mut responder, &send(1, 0, 60), &writable, &application).0, PushVerdict::Take);
    let (before, last) = (responder, send(0, 1, 40));
    application.full.set(true);
    assert_eq!(admit(&mut responder, &last, &writable, &application).0, PushVerdict::NotReady);
    assert_eq!(responder, before);
    // A WRITE completes nothing here.
    assert_eq!(admit(&mut responder, &write, &writable, &application).0, PushVerdict::Take);
    application.full.set(false);
    let (verdict, place) = admit(&mut responder, &last, &writable, &application);
    assert_eq!((verdict, place.memory_offset, place.message_length), (PushVerdict::Take, 60, 100));
}

/// D-84: a message that is too long ends its receive in error, and the next one gets the next receive.
#[test]
fn a_message_that_does_not_fit_ends_its_receive() {
    let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
    application.posted.set(2);
    let none = Region::default();
    assert_eq!(admit(&mut responder, &send(1, 1, 101), &none, &application).0, PushVerdict::Invalid);
    let told = application.completions.borrow()[0];
    assert_eq!((told.wr_id, told.status), (0, CompletionCode::OperationError as u8));
    assert_eq!((told.opcode, told.rsn, told.ulp_code), (Verb::RECEIVE, 9, UlpCode::NONE.0));
    let (verdict, place) = admit(&mut responder, &send(1, 1, 100), &none, &application);
    assert_eq!((verdict, place.receive), (PushVerdict::Take, 1));
    assert_eq!(
        admit(&mut responder, &send(0, 1, 4), &none, &application).0,
        PushVerdict::Invalid,
        "no first"
    );
    let mut unordered = Responder::new(1000, false, DOMAIN);
    assert_eq!(admit(&mut unordered, &send(1, 0, 4), &none, &application).0, PushVerdict::Invalid);
}

#[test]
fn a_pull_is_answered_or_executed_first() {
    let responder = Responder::new(256, true, DOMAIN);
    let pull = |kind, length| Operation { kind, rkey: 7, address: 8, length, ..Operation::default() };
    let all = region(AccessFlags::all());
    let read = |length| Rdma::admit_pull(&responder, &pull(OperationKind::Read, length), &all);
    assert_eq!(read(256), PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE));
    assert_eq!(read(257), PullVerdict::Answer(AnswerKind::Error, UlpCode::INVALID_REQUEST), "max_answer");
    let atomic = pull(OperationKind::FetchAdd, 8);
    let executed = |op: &Operation| match Rdma::admit_pull(&responder, op, &all) {
        PullVerdict::Execute(atomic, place) => (atomic, place.offset()),
        other => panic!("{other:?}"),
    };
    assert_eq!(executed(&atomic), (Atomic::FetchAdd, 4104));
    assert_eq!(executed(&pull(OperationKind::CompareSwap, 8)), (Atomic::CompareSwap, 4104));
    let readable = region(AccessFlags::REMOTE_READ);
    let refused = PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS);
    assert_eq!(Rdma::admit_pull(&responder, &atomic, &readable), refused);
}

/// What is registered in another domain is for the peer as if it did not exist.
#[test]
fn a_region_of_another_domain_is_no_region() {
    let foreign = Region { domain: ProtectionDomain(2), ..region(AccessFlags::all()) };
    let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
    let op = |kind| Operation { kind, rkey: 7, address: 8, length: 8, ..Operation::default() };
    let write = op(OperationKind::Write);
    assert_eq!(admit(&mut responder, &write, &foreign, &application).0, PushVerdict::Access);
    let refused = PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS);
    for kind in [OperationKind::Read, OperationKind::FetchAdd, OperationKind::CompareSwap] {
        assert_eq!(Rdma::admit_pull(&responder, &op(kind), &foreign), refused, "{kind:?}");
    }
    responder.domain.id = ProtectionDomain(2);
    assert_eq!(admit(&mut responder, &write, &foreign, &application).0, PushVerdict::Take);
}

/// The place of a receive with a key is in the region of that key, which is looked up later.
#[test]
fn a_receive_may_name_a_region() {
    let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
    application.posted.set(1);
    application.base.set(u64::MAX - 1);
    application.lkey.set(LKey(9));
    let (verdict, place) = admit(&mut responder, &send(1, 1, 100), &Region::default(), &application);
    assert_eq!((verdict, place.lkey, place.memory_offset), (PushVerdict::Take, LKey(9), u64::MAX - 1));
}

/// A receive is untrusted: its buffer lies in the memory of the domain, up to the last byte. Otherwise it ends with a local
/// protection error.
#[test]
fn a_receive_outside_the_memory_takes_nothing() {
    for (base, length, verdict) in [
        (MEMORY - 100, 100, PushVerdict::Take),
        (MEMORY - 99, 100, PushVerdict::Invalid),
        (MEMORY - 99, 99, PushVerdict::Take),
        (MEMORY, 0, PushVerdict::Take),
        (MEMORY + 1, 0, PushVerdict::Invalid),
        (u64::MAX - 50, 100, PushVerdict::Invalid),
    ] {
        let (mut responder, application) = (Responder::new(1000, true, DOMAIN), Application::default());
        application.posted.set(1);
        application.base.set(base);
        let found = admit(&mut responder, &send(1, 1, length), &Region::default(), &application).0;
        assert_eq!(found, verdict, "{length} bytes at {base:#x}");
        let told: Vec<_> = application.completions.borrow().iter().map(|c| c.status).collect();
        let denied = vec![CompletionCode::LocalProtection as u8];
        assert_eq!(told, if verdict == PushVerdict::Invalid { denied } else { vec![] }, "{base:#x}");
    }
}
