//! Tests the message sequences of the patent's figures, and random ones.

use std::collections::VecDeque;

use proptest::prelude::*;
use transport_common::ids::{Psn, Rsn};

use super::{
    Ack, Body, Completion, GrantPool, Initiator, Message, Numbers, Packet, Request, SolicitationError, Ssn,
    Target, UlpRequest,
};

/// The first packet numbers in figure 6.
const INITIATOR: Numbers = Numbers { request: Psn(0), data: Psn(200) };
const TARGET: Numbers = Numbers { request: Psn(0), data: Psn(1000) };

fn pair(solicit_from: u32) -> (Initiator, Target) {
    (Initiator::new(Some(solicit_from), INITIATOR, TARGET), Target::new(TARGET, INITIATOR))
}

const fn packet(psn: u32, rsn: u32, body: Body) -> Message {
    Message::Packet(Packet { psn: Psn(psn), rsn: Rsn(rsn), body })
}

fn sent(mut poll: impl FnMut() -> Option<Message>) -> Vec<Message> {
    std::iter::from_fn(&mut poll).collect()
}

#[test]
fn figure_5_a_solicited_push() {
    let (mut initiator, mut target) = pair(1);
    let mut pool = GrantPool::new(4096);
    assert_eq!(initiator.submit(Request::Push { bytes: 4096 }), Ok(Rsn(0)));
    let request = packet(0, 0, Body::PushSolicitedRequest { ssn: Ssn(0), bytes: 4096 });
    assert_eq!(sent(|| initiator.poll()), [request], "a request and no data");
    target.receive(request, &mut pool).expect("new");
    let grant = packet(1000, 0, Body::PushGrant { ssn: Ssn(0) });
    let ack = |request, data| Message::Ack(Ack { request: Psn(request), data: Psn(data) });
    assert_eq!(sent(|| target.poll()), [grant, ack(1, 200)]);
    assert_eq!(pool.granted(), 4096);
    initiator.receive(grant).expect("asked for");
    let data = packet(200, 0, Body::PushSolicitedData { bytes: 4096 });
    assert_eq!(sent(|| initiator.poll()), [data, ack(0, 1001)]);
    target.receive(data, &mut pool).expect("granted");
    assert_eq!(target.poll(), None, "not acknowledged before it is placed");
    assert_eq!(target.poll_ulp(), Some(UlpRequest::Place { rsn: Rsn(0), bytes: 4096 }));
    target.ulp_ack(Rsn(0), &mut pool).expect("its turn");
    assert_eq!(sent(|| target.poll()), [ack(1, 201)]);
    assert_eq!(pool.granted(), 0);
    assert_eq!(initiator.poll_completion(), None);
    initiator.receive(ack(1, 201)).expect("an ACK");
    assert_eq!(initiator.poll_completion(), Some(Completion { rsn: Rsn(0), pull: false }));
}

/// The requests are push, pull, push, push. The first two pushes are solicited, the last one is not. The grants
/// arrive in the reverse order.
#[test]
fn figure_6_ordered_transactions() {
    let (mut initiator, mut target) = pair(1000);
    let mut pool = GrantPool::new(1 << 20);
    for request in [
        Request::Push { bytes: 2000 },
        Request::Pull { bytes: 3000 },
        Request::Push { bytes: 2000 },
        Request::Push { bytes: 100 },
    ] {
        initiator.submit(request).expect("few are open");
    }
    let requests = sent(|| initiator.poll());
    let expected = [
        packet(0, 0, Body::PushSolicitedRequest { ssn: Ssn(0), bytes: 2000 }),
        packet(1, 1, Body::PullRequest { bytes: 3000 }),
        packet(2, 2, Body::PushSolicitedRequest { ssn: Ssn(1), bytes: 2000 }),
    ];
    assert_eq!(requests, expected, "an unsolicited push sends no request");
    for request in requests {
        target.receive(request, &mut pool).expect("new");
    }
    let grants: Vec<_> =
        sent(|| target.poll()).into_iter().filter(|message| matches!(message, Message::Packet(_))).collect();
    let grant = |psn, rsn, ssn| packet(psn, rsn, Body::PushGrant { ssn: Ssn(ssn) });
    assert_eq!(grants, [grant(1000, 0, 0), grant(1001, 2, 1)]);
    initiator.receive(grants[1]).expect("asked for");
    assert!(
        !sent(|| initiator.poll()).iter().any(|of| matches!(of, Message::Packet(_))),
        "data of request 0 has to leave first"
    );
    initiator.receive(grants[0]).expect("asked for");
    let data: Vec<_> = sent(|| initiator.poll())
        .into_iter()
        .filter(|message| matches!(message, Message::Packet(_)))
        .collect();
    let expected = [
        packet(200, 0, Body::PushSolicitedData { bytes: 2000 }),
        packet(201, 2, Body::PushSolicitedData { bytes: 2000 }),
        packet(202, 3, Body::PushUnsolicitedData { bytes: 100 }),
    ];
    assert_eq!(data, expected, "in RSN order, with these numbers");
    for packet in data.into_iter().rev() {
        target.receive(packet, &mut pool).expect("new");
    }
    let mut order = Vec::new();
    while let Some(request) = target.poll_ulp() {
        let (UlpRequest::Place { rsn, .. } | UlpRequest::Give { rsn, .. }) = request;
        order.push((rsn.0, matches!(request, UlpRequest::Give { .. })));
        target.ulp_ack(rsn, &mut pool).expect("its turn");
    }
    assert_eq!(order, [(0, false), (1, true), (2, false), (3, false)], "ULP-Req-0-1-2-3");
    let answers = sent(|| target.poll());
    assert!(answers.contains(&packet(1002, 1, Body::PullData { bytes: 3000 })));
    let last = answers.last().expect("ACKs");
    assert_eq!(*last, Message::Ack(Ack { request: Psn(3), data: Psn(203) }), "ACK-eBSN=3, 203");
    for answer in answers {
        initiator.receive(answer).expect("expected");
    }
    let mut ack = sent(|| initiator.poll());
    assert_eq!(ack.pop(), Some(Message::Ack(Ack { request: Psn(0), data: Psn(1003) })), "eBSN=0, 1003");
    let completions: Vec<_> = std::iter::from_fn(|| initiator.poll_completion()).collect();
    let expected = [(0, false), (1, true), (2, false), (3, false)];
    assert_eq!(completions, expected.map(|(rsn, pull)| Completion { rsn: Rsn(rsn), pull }));
}

#[test]
fn what_does_not_belong_is_refused() {
    let (mut initiator, mut target) = pair(1);
    let mut pool = GrantPool::new(1000);
    let request = packet(0, 0, Body::PushSolicitedRequest { ssn: Ssn(0), bytes: 1001 });
    let too_large = SolicitationError::TooLarge { bytes: 1001, limit: 1000 };
    assert_eq!(target.receive(request, &mut pool), Err(too_large));
    let grant = packet(1000, 0, Body::PushGrant { ssn: Ssn(0) });
    assert_eq!(initiator.receive(grant), Err(SolicitationError::NotSolicited(Rsn(0))));
    assert!(matches!(target.receive(grant, &mut pool), Err(SolicitationError::WrongSide(_))));
    let data = packet(200, 0, Body::PushUnsolicitedData { bytes: 5 });
    assert_eq!(target.receive(data, &mut pool), Ok(()));
    assert!(matches!(target.receive(data, &mut pool), Err(SolicitationError::OutOfWindow { .. })));
    assert_eq!(target.ulp_ack(Rsn(0), &mut pool), Err(SolicitationError::OutOfTurn(Rsn(0))));
}

proptest! {
    /// The network may reorder messages in any way. Both ULPs see each request once and in order, and the target
    /// never grants more than its space.
    #[test]
    fn any_order_of_messages_gives_one_order_of_requests(
        requests in prop::collection::vec((any::<bool>(), 1..3_000u32), 1..40),
        solicit_from in 1..3_000u32,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let (mut initiator, mut target) = pair(solicit_from);
        let mut pool = GrantPool::new(3_000);
        let (mut to_target, mut to_initiator, mut at_ulp) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut left = VecDeque::from(requests.clone());
        let (mut asked, mut completed) = (Vec::new(), Vec::new());
        let mut choices = choices.iter().cycle();
        for _ in 0..2_000 {
            if let Some((pull, bytes)) = left.pop_front() {
                let request = if pull { Request::Pull { bytes } } else { Request::Push { bytes } };
                prop_assert!(initiator.submit(request).is_ok());
            }
            to_target.extend(sent(|| initiator.poll()));
            to_initiator.extend(sent(|| target.poll()));
            at_ulp.extend(std::iter::from_fn(|| target.poll_ulp()));
            let choice = choices.next().expect("a cycle");
            if !to_target.is_empty() {
                let message = to_target.swap_remove(choice.index(to_target.len()));
                prop_assert_eq!(target.receive(message, &mut pool), Ok(()));
            }
            if !to_initiator.is_empty() {
                let message = to_initiator.swap_remove(choice.index(to_initiator.len()));
                prop_assert_eq!(initiator.receive(message), Ok(()));
            }
            if choice.index(3) == 0 && let Some(request) = at_ulp.pop_front() {
                let (UlpRequest::Place { rsn, .. } | UlpRequest::Give { rsn, .. }) = request;
                prop_assert_eq!(target.ulp_ack(rsn, &mut pool), Ok(()));
                asked.push(rsn.0);
            }
            prop_assert!(pool.granted() <= 3_000);
            completed.extend(std::iter::from_fn(|| initiator.poll_completion()));
        }
        let all: Vec<u32> = (0..requests.len() as u32).collect();
        prop_assert_eq!(&asked, &all);
        let expected: Vec<_> =
            all.iter().map(|rsn| Completion { rsn: Rsn(*rsn), pull: requests[*rsn as usize].0 }).collect();
        prop_assert_eq!(completed, expected);
        prop_assert_eq!(pool.granted(), 0);
    }
}
