//! Requests of the peer that the tester leaves open, and what becomes of them.

use transport_common::ids::{Psn, Rsn};
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::nack::{Nack, NackCode};

pub(super) use crate::checks::given_up::RESYNC;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Completion::Success;
use crate::trigger::{Completion, Operation, Ticket};
use crate::verdict::{Outcome, Stop, judge};

pub(super) use Operation::{Read, Write};

/// Packet types.
pub(super) const PULL_REQUEST: u8 = 0;
pub(super) const PUSH_DATA: u8 = 5;

/// A shorter timeout cannot be told from early retransmission on a busy machine.
const SHORTEST_TIMEOUT: PicosecondSpan = PicosecondSpan::from_nanos(20_000_000);

/// A request of the peer: its first packet, and the operation behind it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) packet: Received,
    pub(super) ticket: Ticket,
}

impl Request {
    /// Returns the PSN, in the data window for a push and in the request window for a pull.
    pub(super) fn psn(&self) -> Psn {
        self.packet.data_psn().or(self.packet.request_psn()).unwrap_or_default()
    }

    pub(super) fn rsn(&self) -> Rsn {
        Rsn(self.packet.word(5))
    }

    /// Returns whether a packet has the PSN of this one, in the same window.
    pub(super) fn has_copy(&self, received: &Received) -> bool {
        self.packet.same_place(received)
    }
}

/// Returns the name of the packet of an operation.
const fn name(operation: Operation) -> &'static str {
    match operation {
        Write => "Push Data",
        Read => "Pull Request",
    }
}

/// Operations that the peer was asked to submit at once, and the packets of them that have come.
pub(super) struct Burst {
    /// The PSNs that the peer's next packets had when the operations were submitted.
    from: (Psn, Psn),
    /// When the tester last changed what the peer may send.
    at: Picoseconds,
    pub(super) tickets: Vec<Ticket>,
    pub(super) packets: Vec<Received>,
}

impl Burst {
    /// Waits for the next packet that is no copy.
    pub(super) fn next(
        &mut self,
        s: &mut Session<'_>,
        patience: PicosecondSpan,
    ) -> Outcome<Option<Received>> {
        let ((data, requests), packets) = (self.from, &self.packets);
        let found = s.find(patience, |received| {
            let is_new = received.push_data().is_some_and(|push| !push.base.psn.is_before(data))
                || received.pull_request().is_some_and(|pull| !pull.base.psn.is_before(requests));
            is_new && !packets.iter().any(|packet| packet.same_place(received))
        })?;
        self.packets.extend(found.clone());
        Ok(found)
    }

    /// Begins to measure how long the next packets take.
    pub(super) fn mark(&mut self, s: &mut Session<'_>) {
        self.at = s.now();
    }

    /// Waits for this many more packets.
    pub(super) fn expect(&mut self, s: &mut Session<'_>, count: usize) -> Outcome {
        for number in 0..count {
            let patience = s.patience.start;
            if self.next(s, patience)?.is_none() {
                return Err(Stop::fail(format!("{count} packets with a new PSN"), number));
            }
        }
        Ok(())
    }

    /// Waits until no more packets come. Returns how many have come.
    pub(super) fn rest(&mut self, s: &mut Session<'_>) -> Outcome<usize> {
        let before = self.packets.len();
        let mut patience = s.patience.start;
        while let Some(packet) = self.next(s, patience)? {
            // The commands that submit the operations do not all run at once: a machine on which the packets come
            // slowly gets more time for the next.
            let slowness = packet.at.0.saturating_sub(self.at.0);
            patience = PicosecondSpan((s.patience.silence.0 * 2).max(slowness * 2));
        }
        Ok(self.packets.len() - before)
    }

    /// Waits for exactly this many more packets.
    pub(super) fn expect_only(&mut self, s: &mut Session<'_>, count: usize) -> Outcome {
        let found = self.rest(s)?;
        judge(found == count, format!("{count} packets with a new PSN"), found)
    }
}

/// Makes the peer submit these operations at once.
pub(super) fn burst(s: &mut Session<'_>, operations: &[Operation]) -> Outcome<Burst> {
    s.forget()?;
    let from = (s.seen_data(), s.seen_requests());
    let tickets = operations.iter().map(|operation| s.submit(*operation)).collect::<Outcome<_>>()?;
    Ok(Burst { from, at: s.now(), tickets, packets: Vec::new() })
}

/// Makes the peer submit an operation, and waits for its first packet. The tester does not acknowledge it.
pub(super) fn request(s: &mut Session<'_>, operation: Operation) -> Outcome<Request> {
    let mut burst = burst(s, &[operation])?;
    let patience = s.patience.start;
    let Some(packet) = burst.next(s, patience)? else { return Err(missing(s, operation, burst.tickets[0])?) };
    let expected = if operation == Write { PUSH_DATA } else { PULL_REQUEST };
    judge(packet.raw_type() == expected, format!("a {} for a {operation}", name(operation)), packet.text())?;
    Ok(Request { packet, ticket: burst.tickets[0] })
}

/// Says that the packet of an operation did not come, and what may be the reason.
fn missing(s: &mut Session<'_>, operation: Operation, ticket: Ticket) -> Outcome<Stop> {
    let time = s.patience.start.as_nanos() / 1_000_000;
    if !s.sees_completions() {
        return Ok(Stop::Skip(format!("nobody has submitted the {operation} in {time} ms")));
    }
    let command = match s.completed(ticket)? {
        Some(Completion::Error) => {
            if let Some(misfit) = s.misfit_of_trigger(operation, ticket) {
                return Err(Stop::Misfit(Box::new(misfit)));
            }
            ", and the trigger ended with an error"
        }
        _ => "",
    };
    Ok(Stop::fail(
        format!("a {} for a {operation} that the peer submits", name(operation)),
        format!("no such packet in {time} ms{command}"),
    ))
}

/// Makes the peer submit an operation, and returns its first packet whether it is well formed or not.
pub(super) fn raw(s: &mut Session<'_>, operation: Operation) -> Outcome<Received> {
    let ticket = burst(s, &[operation])?.tickets[0];
    let patience = s.patience.start;
    match s.find(patience, |received| ![8, 9, 10].contains(&received.raw_type()))? {
        Some(packet) => Ok(packet),
        None => Err(missing(s, operation, ticket)?),
    }
}

/// Makes the peer submit these operations one after the other, and acknowledges none of them.
pub(super) fn open(s: &mut Session<'_>, operations: &[Operation]) -> Outcome<Vec<Request>> {
    need_windows(s, operations)?;
    operations.iter().map(|operation| request(s, *operation)).collect()
}

/// Skips a check for which the peer's windows are known to be too small.
pub(super) fn need_windows(s: &Session<'_>, operations: &[Operation]) -> Outcome {
    let settings = s.subject.settings;
    let room = [settings.fcwnd, settings.ncwnd].into_iter().flatten().min();
    let count = |kind: Operation| operations.iter().filter(|operation| **operation == kind).count() as u32;
    let most = count(Write).max(count(Read));
    if room.is_some_and(|room| room < most) {
        return Err(Stop::Skip(format!("the peer's windows are too small for {most} open requests")));
    }
    Ok(())
}

/// Waits for a packet with the PSN of a request.
pub(super) fn copy(s: &mut Session<'_>, request: &Request) -> Outcome<Received> {
    let what = format!("another packet with PSN {}", request.psn().0);
    s.expect(&what, |received| request.has_copy(received))
}

/// Waits for a copy of a request. A Resync in its place is a failure.
pub(super) fn true_copy(s: &mut Session<'_>, request: &Request) -> Outcome<Received> {
    let again = copy(s, request)?;
    let is_resync = again.raw_type() == RESYNC;
    judge(!is_resync, "a copy, and no Resync yet", again.text())?;
    Ok(again)
}

/// Returns how often the peer retransmits a packet before it gives the packet up.
pub(super) fn attempts(s: &Session<'_>) -> Outcome<u32> {
    let attempts = s.subject.settings.attempts;
    attempts.ok_or_else(|| Stop::Skip("give --attempts of the peer".to_owned()))
}

/// Returns the peer's retransmission timeout: the shorter of the times between the first three copies of a push,
/// because a busy machine may be late with one. It is measured once.
pub(super) fn timeout(s: &mut Session<'_>) -> Outcome<PicosecondSpan> {
    if let Some(timeout) = s.timeout {
        return Ok(timeout);
    }
    let push = request(s, Write)?;
    let (again, third) = (copy(s, &push)?, copy(s, &push)?);
    let timeout = again.at.since(push.packet.at).min(third.at.since(again.at));
    if timeout.0 < SHORTEST_TIMEOUT.0 {
        return Err(Stop::Skip(format!(
            "the peer's retransmission timeout, {} us, is too short to tell an early retransmission from: set it \
             to 20 ms or more",
            timeout.as_nanos() / 1000
        )));
    }
    s.timeout = Some(timeout);
    s.settle()?;
    Ok(timeout)
}

/// Returns half of the peer's timeout: a copy in this time is no retransmission by timeout.
pub(super) fn early(s: &mut Session<'_>) -> Outcome<PicosecondSpan> {
    Ok(PicosecondSpan(timeout(s)?.0 / 2))
}

/// Listens for twice the peer's timeout. Fails if a copy of one of these requests arrives.
pub(super) fn no_copies(s: &mut Session<'_>, timeout: PicosecondSpan, done: &[&Request]) -> Outcome {
    let long = PicosecondSpan((timeout.0 * 2).max(s.patience.silence.0));
    s.silence_for(long, "no copy of an acknowledged packet", |received| {
        done.iter().any(|request| request.has_copy(received))
    })
}

/// Skips a check that needs to see how operations end.
pub(super) fn need_completions(s: &Session<'_>) -> Outcome {
    if s.sees_completions() {
        return Ok(());
    }
    Err(Stop::Skip(
        "operations are submitted by hand, so their ends are not seen: give a --trigger".to_owned(),
    ))
}

/// Waits until an operation ends as it has to.
pub(super) fn ends(s: &mut Session<'_>, ticket: Ticket, as_expected: Completion) -> Outcome {
    let patience = s.patience.answer;
    let text = |completion| if completion == Success { "success" } else { "an error" };
    let expected = format!("the operation ends with {}", text(as_expected));
    match s.completion(ticket, patience)? {
        Some(found) => judge(found == as_expected, expected, format!("it ends with {}", text(found))),
        None => {
            Err(Stop::fail(expected, format!("it does not end in {} ms", patience.as_nanos() / 1_000_000)))
        }
    }
}

/// Listens for a while. Fails if the operation ends. `why` says why it must not.
pub(super) fn still_open(s: &mut Session<'_>, ticket: Ticket, why: &str) -> Outcome {
    // Long enough for a command to end.
    let patience = PicosecondSpan(s.patience.silence.0 * 2);
    match s.completion(ticket, patience)? {
        None => Ok(()),
        Some(_) => Err(Stop::fail(format!("no end of the operation {why}"), "it has ended")),
    }
}

/// Acknowledges a request, and nothing after it in its window.
pub(super) fn acknowledge(s: &mut Session<'_>, request: &Request) -> Outcome {
    let (data, requests) = s.bases();
    match request.packet.data_psn() {
        Some(psn) => s.acknowledge_below(psn.add(1), requests),
        None => s.acknowledge_below(data, request.psn().add(1)),
    }
}

/// Tells the peer that the tester is not ready for a push. `code` is that of the RNR timeout (F-7.8-9).
pub(super) fn not_ready(s: &mut Session<'_>, push: &Request, code: u8) -> Outcome {
    let nack = Nack { rnr_timeout_code: code, ..s.nack_of(push.psn(), NackCode::RNR) };
    s.send_nack(&nack, None)
}

/// Answers a READ with the data that it asks for. Returns the PSN of the Pull Data.
pub(super) fn answer(s: &mut Session<'_>, pull: &Request) -> Outcome<Psn> {
    let draft = s.pull_data(pull.rsn(), &[0; crate::session::OPERATION_BYTES as usize]);
    s.send(&draft)?;
    Ok(draft.psn)
}

/// Waits until the peer acknowledges a data PSN of the tester.
pub(super) fn acknowledged(s: &mut Session<'_>, psn: Psn) -> Outcome<Received> {
    s.expect(&format!("a packet with DBPSN after {}", psn.0), |received| {
        received.bases().is_some_and(|(data, _)| psn.is_before(data))
    })
}
