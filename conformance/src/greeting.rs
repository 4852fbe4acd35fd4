//! The first packets on a connection. They show whether there is a peer, and whether it is in the state that the user's
//! file and options describe. Without that, every check would fail, and say nothing about the peer.

use transport_common::ids::{Cid, Psn};
use transport_common::ulp::rdma::{Aeth, Bth, Opcode, Reth};
use transport_common::units::PicosecondSpan;
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::{FalconHeader, SliceCursor};

use crate::draft::Draft;
use crate::flow::Parts;
use crate::log::Logged;
use crate::misfit::Misfit;
use crate::received::Received;
use crate::session::Session;
use crate::subject::{REGION_BYTES, Subject};
use crate::verdict::Outcome;

/// Where the tester tries the region: its last bytes, because the region must not be shorter.
const PLACE: u64 = REGION_BYTES - 8;

/// Greets the peer by a WRITE. Returns what is wrong with the preparation. A peer that answers wrongly in another way is
/// what the checks are for.
pub(crate) fn greet(session: &mut Session<'_>) -> Outcome<Option<Misfit>> {
    let patience = session.patience.answer;
    let write = session.write(PLACE, &[0; 8]);
    session.send(&write)?;
    let (cid, next) = (session.subject.local_cid, session.next());
    let answer = session.find(patience, |received| {
        refuses(received, &write) || bases(received, cid).is_some_and(|(data, _)| write.psn.is_before(data))
    })?;
    if session.heard().echo {
        return Ok(Some(Misfit::Echo));
    }
    let Some(answer) = answer else {
        // A peer that sends something else is there, and violates a clause.
        let silent = session.find(PicosecondSpan(0), |_| true)?.is_none();
        let why = if session.heard().unreachable { Misfit::Unreachable } else { Misfit::Silent };
        return Ok(silent.then_some(why));
    };
    if refuses(&answer, &write) {
        let rkey = session.subject.rkey;
        return Ok(Some(Misfit::Region { operation: "WRITE", rkey }));
    }
    // The peer acknowledges packets that the tester has not sent.
    let ahead =
        |(data, request): &(Psn, Psn)| next.data_psn.is_before(*data) || next.request_psn.is_before(*request);
    if let Some(found) = bases(&answer, cid).filter(ahead) {
        return not_fresh(session, found);
    }
    session.settle()?;
    Ok(None)
}

/// Looks at the packets of a check that failed. Returns what is wrong with the preparation if the peer has answered a READ or
/// an atomic in the region by an error (D-45).
pub(crate) fn look_at_region(subject: &Subject, frames: &[Logged]) -> Option<Misfit> {
    let parts = |sent: bool| {
        frames.iter().filter(move |logged| logged.sent == sent).filter_map(|logged| Parts::of(&logged.frame))
    };
    let refused = parts(false).find_map(|answer| match answer.header {
        Some(FalconHeader::PullData(data)) if has_error(&answer) => Some(data.base.rsn),
        _ => None,
    })?;
    let request = parts(true).find(
        |sent| matches!(sent.header, Some(FalconHeader::PullRequest(request)) if request.base.rsn == refused),
    )?;
    let mut headers = SliceCursor::new(request.payload());
    let opcode = Bth::decode(&mut headers).ok()?.opcode;
    // Both headers begin with the address and the R_Key.
    let place = Reth::decode(&mut headers).ok()?;
    let operation = if opcode == Opcode::READ_REQUEST { "READ" } else { "fetch-and-add" };
    let is_allowed = place.rkey == subject.rkey && place.address < REGION_BYTES;
    is_allowed.then_some(Misfit::Region { operation, rkey: subject.rkey })
}

/// Returns whether the peer completes this request in error.
fn refuses(received: &Received, request: &Draft) -> bool {
    let of_request = |nack: &Nack| {
        nack.code == NackCode::COMPLETE_IN_ERROR
            && nack.psn == request.psn
            && nack.request_window == request.in_request_window()
    };
    matches!(received.header(), Some(FalconHeader::Nack(nack)) if of_request(nack))
}

/// Returns whether a Pull Data has an error in its AETH in place of data.
fn has_error(answer: &Parts<'_>) -> bool {
    let aeth =
        answer.payload().get(Bth::LEN..).and_then(|bytes| Aeth::decode(&mut SliceCursor::new(bytes)).ok());
    aeth.is_some_and(|aeth| aeth.error_code().is_some())
}

/// Returns the bases in a packet of this connection: data and request.
fn bases(received: &Received, cid: Cid) -> Option<(Psn, Psn)> {
    received.bases().filter(|_| received.header().is_some_and(|header| header.dest_cid() == cid))
}

/// Sends another WRITE to a peer whose bases are ahead. The connection is not fresh if they stay. If they move, the peer
/// takes the tester's packets and counts them wrongly.
fn not_fresh(session: &mut Session<'_>, found: (Psn, Psn)) -> Outcome<Option<Misfit>> {
    let expected = session.subject.tx;
    let next = session.write(PLACE, &[0; 8]);
    session.send(&next)?;
    let (patience, cid) = (session.patience.answer, session.subject.local_cid);
    let moved = |received: &Received| bases(received, cid).is_some_and(|bases| bases != found);
    if session.find(patience, moved)?.is_none() {
        let (peer_cid, expected) = (session.subject.peer_cid, (expected.data_psn, expected.request_psn));
        return Ok(Some(Misfit::NotFresh { peer_cid, found, expected }));
    }
    session.settle()?;
    Ok(None)
}
