//! How the peer's operations end, and when (sections 6.1, 6.4, 6.6, 8.4 and 11).

use transport_common::wire::nack::NackCode;
use transport_common::wire::resync::ResyncCode;

use super::requests::{
    Read, Request, Write, acknowledge, acknowledged, answer, burst, copy, ends, need_completions, not_ready,
    open, request, still_open, true_copy,
};
use crate::check::Check;
use crate::draft::Draft;
use crate::received::Received;
use crate::session::{OPERATION_BYTES, Session};
use crate::trigger::Completion::{Error, Success};
use crate::verdict::Outcome;

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-6.1-1", "pushes and pulls are made of the packet types that exist", only_known_types),
    Check::new("F-6.1.1.1-1", "a push ends when it is acknowledged, and not before", push_flow),
    Check::new("F-6.1.1.1-3", "the bases of any packet of the tester acknowledge a push", piggyback),
    Check::new("F-6.1.1.2-1", "a pull is one Pull Request and ends with its Pull Data", pull_flow),
    Check::new("F-6.1.1.2-2", "the ACK of a Pull Request does not end the pull", ack_is_no_answer),
    Check::new("F-8.4.3.3-2", "a push that is acknowledged ends with success", push_success),
    Check::new("F-6.1-2", "operations end although their first packets were lost", after_loss),
    Check::new("F-6.6.2-2", "one ACK ends two pushes", coalesced),
    Check::ordered("F-8.4.2-1", "an acknowledged push does not end before the pull before it", in_order),
    Check::unordered("F-8.4.1-1", "an acknowledged push ends before the pull before it", out_of_order),
    Check::unordered(
        "F-9.2.3-7",
        "a push that an EACK acknowledges ends while the one before it is lost",
        selective,
    ),
    Check::new("F-6.4-1", "a push with NACK code 2 that is then acknowledged ends with success", after_rnr),
    Check::new("F-6.4-3", "a push with NACK code 6 ends with an error", in_error),
    Check::new("F-11-24", "pushes with NACK codes 7 and 8 end with an error", refused),
    Check::new("F-11-23", "a push with NACK code 4 ends with an error", xlr),
    Check::new(
        "F-6.6.5-3",
        "a refused push does not end before its Resync is acknowledged",
        not_before_resync,
    ),
    Check::ordered("F-8.4.3.5-2", "a refused push does not end before the pull before it", error_in_order),
    Check::new("D-47", "a push that the peer gives up ends with an error", given_up),
    Check::new("F-11-21", "a pull whose answer is too long ends with an error", too_long),
    Check::new("F-11-22", "a pull whose answer is shorter ends with success", shorter),
    Check::new("F-6.4-4", "a pull whose answer is an error of the ULP ends with an error", ulp_error),
    Check::new("D-25", "a pull ends at once when a Resync with code 2 replaces its answer", replaced_answer),
];

fn only_known_types(s: &mut Session<'_>) -> Outcome {
    const KNOWN: [u8; 7] = [0, 3, 5, 6, 8, 9, 10];
    burst(s, &[Write, Read])?;
    let patience = s.patience.silence;
    // Copies and acknowledgements as well.
    let mut wrong = |received: &Received| !KNOWN.contains(&received.raw_type());
    s.silence_for(patience, "packet types 0, 3, 5, 6, 8, 9, 10", &mut wrong)?;
    s.answer_requests()?;
    s.acknowledge()?;
    s.silence_for(patience, "packet types 0, 3, 5, 6, 8, 9, 10", wrong)
}

fn push_flow(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    still_open(s, push.ticket, "before the ACK")?;
    s.acknowledge()?;
    ends(s, push.ticket, Success)
}

fn piggyback(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    // The WRITE carries the bases, and no ACK packet follows until the operation has ended.
    s.take_bases()?;
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    ends(s, push.ticket, Success)
}

fn pull_flow(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    s.silence("one Pull Request", |received| received.pull_request().is_some())?;
    answer(s, &pull)?;
    ends(s, pull.ticket, Success)
}

fn ack_is_no_answer(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    still_open(s, pull.ticket, "before the Pull Data")?;
    answer(s, &pull)?;
    ends(s, pull.ticket, Success)
}

fn push_success(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    s.acknowledge()?;
    ends(s, push.ticket, Success)
}

fn after_loss(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let requests = open(s, &[Write, Read, Write])?;
    for request in &requests {
        true_copy(s, request)?;
    }
    s.acknowledge()?;
    s.answer_requests()?;
    requests.iter().try_for_each(|request| ends(s, request.ticket, Success))
}

fn coalesced(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pushes = open(s, &[Write; 2])?;
    s.acknowledge()?;
    pushes.iter().try_for_each(|push| ends(s, push.ticket, Success))
}

/// Makes the peer submit a READ and a WRITE, and acknowledges both packets.
fn pull_and_push(s: &mut Session<'_>) -> Outcome<[Request; 2]> {
    need_completions(s)?;
    let both = [request(s, Read)?, request(s, Write)?];
    s.acknowledge()?;
    Ok(both)
}

fn in_order(s: &mut Session<'_>) -> Outcome {
    let [pull, push] = pull_and_push(s)?;
    still_open(s, push.ticket, "before the answer to the pull")?;
    answer(s, &pull)?;
    ends(s, pull.ticket, Success)?;
    ends(s, push.ticket, Success)
}

fn out_of_order(s: &mut Session<'_>) -> Outcome {
    let [pull, push] = pull_and_push(s)?;
    ends(s, push.ticket, Success)?;
    answer(s, &pull)?;
    ends(s, pull.ticket, Success)
}

fn selective(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pushes = open(s, &[Write; 2])?;
    let eack = s.eack_of(pushes[0].psn(), 0b10, 0b10);
    s.send_eack(&eack, None)?;
    ends(s, pushes[1].ticket, Success)?;
    still_open(s, pushes[0].ticket, "that is not acknowledged")?;
    s.acknowledge()?;
    ends(s, pushes[0].ticket, Success)
}

/// Refuses a push with a NACK code.
fn refuse(s: &mut Session<'_>, push: &Request, code: NackCode) -> Outcome {
    let nack = s.nack_of(push.psn(), code);
    s.send_nack(&nack, None)
}

fn after_rnr(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    not_ready(s, &push, 1)?;
    copy(s, &push)?;
    s.acknowledge()?;
    ends(s, push.ticket, Success)
}

/// Refuses a push, acknowledges what the peer sends in its place, and waits for the error.
fn error_after(s: &mut Session<'_>, code: NackCode) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    refuse(s, &push, code)?;
    copy(s, &push)?;
    s.acknowledge()?;
    ends(s, push.ticket, Error)
}

fn in_error(s: &mut Session<'_>) -> Outcome {
    error_after(s, NackCode::COMPLETE_IN_ERROR)
}

fn refused(s: &mut Session<'_>) -> Outcome {
    error_after(s, NackCode::NON_RECOVERABLE)?;
    error_after(s, NackCode::INVALID_CID)
}

fn xlr(s: &mut Session<'_>) -> Outcome {
    error_after(s, NackCode::XLR_DROP)
}

fn not_before_resync(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    refuse(s, &push, NackCode::COMPLETE_IN_ERROR)?;
    copy(s, &push)?;
    still_open(s, push.ticket, "before the ACK of the Resync (D-44)")?;
    s.acknowledge()?;
    ends(s, push.ticket, Error)
}

fn error_in_order(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let [pull, push] = [request(s, Read)?, request(s, Write)?];
    acknowledge(s, &pull)?;
    refuse(s, &push, NackCode::COMPLETE_IN_ERROR)?;
    copy(s, &push)?;
    s.acknowledge()?;
    still_open(s, push.ticket, "before the answer to the pull")?;
    answer(s, &pull)?;
    ends(s, push.ticket, Error)
}

fn given_up(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let push = request(s, Write)?;
    super::exhaustion::resync_of(s, &push)?;
    s.acknowledge()?;
    ends(s, push.ticket, Error)
}

/// Answers a pull with this many bytes of data. Returns its operation when the peer has acknowledged the answer.
fn answer_of(s: &mut Session<'_>, bytes: u32) -> Outcome<Request> {
    need_completions(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    let draft = s.pull_data(pull.rsn(), &vec![1; bytes as usize]);
    s.send(&draft)?;
    acknowledged(s, draft.psn)?;
    Ok(pull)
}

fn too_long(s: &mut Session<'_>) -> Outcome {
    let pull = answer_of(s, OPERATION_BYTES + 8)?;
    ends(s, pull.ticket, Error)
}

fn shorter(s: &mut Session<'_>) -> Outcome {
    let pull = answer_of(s, OPERATION_BYTES - 8)?;
    ends(s, pull.ticket, Success)
}

fn ulp_error(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    let draft = s.pull_data(pull.rsn(), &[]);
    let draft = with_access_error(draft);
    s.send(&draft)?;
    acknowledged(s, draft.psn)?;
    ends(s, pull.ticket, Error)
}

/// Returns the answer with the syndrome for an access that is not allowed, and no data (D-45, D-84).
fn with_access_error(mut draft: Draft) -> Draft {
    const SYNDROME: usize = 12;
    draft.payload.truncate(SYNDROME + 4);
    draft.payload[SYNDROME] = 0x62;
    draft
}

fn replaced_answer(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    let mut resync = s.pull_data(pull.rsn(), &[]).replaced();
    resync.resync.0 = ResyncCode::LOCAL_XLR;
    s.send(&resync)?;
    acknowledged(s, resync.psn)?;
    ends(s, pull.ticket, Error)
}
