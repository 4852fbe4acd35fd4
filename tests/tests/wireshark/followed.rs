//! What following connections must find: computed from the packets and from the connections' CIDs, which the
//! dissector has to find out.

use std::collections::{BTreeMap, BTreeSet};

use falcon_conformance::Parts;
use tiercel_tests::simulation::Scenario;
use transport_common::wire::ack::{Ack, AckHeader};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::{FalconHeader, PacketType};

use crate::capture::Frame;
use crate::tools::{Shown, number};

/// What is known about one frame.
#[derive(Debug, Default)]
struct Facts {
    cid: u32,
    tick: u32,
    t1: Option<u32>,
    rsn: u32,
    kind: Option<PacketType>,
    is_retransmission: bool,
    is_duplicate: bool,
    acked_in: Option<usize>,
}

/// A packet that was sent one or more times.
#[derive(Default)]
struct Sent {
    ivs: Vec<u64>,
    frames: Vec<usize>,
    /// Whether the packet itself was seen, and a Resync in its place.
    kinds: [bool; 2],
    acked: bool,
}

/// The numbers of frames with a result, and of those for which the dissector found exactly the expected one.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) acknowledged: usize,
    pub(crate) acknowledged_found: usize,
    pub(crate) retransmissions: usize,
    pub(crate) duplicates: usize,
    pub(crate) times: usize,
    pub(crate) times_found: usize,
    pub(crate) responses: usize,
    pub(crate) responses_found: usize,
}

/// Returns the CID of the other direction of each CID.
fn peers(scenario: &Scenario) -> BTreeMap<u32, u32> {
    let pairs = scenario.links.iter().map(|link| link.parameters.each_ref().map(|p| p.config.local_cid.0));
    pairs.flat_map(|[one, other]| [(one, other), (other, one)]).collect()
}

const fn base_of(header: &FalconHeader) -> Option<&BaseHeader> {
    match header {
        FalconHeader::PullRequest(p) => Some(&p.base),
        FalconHeader::PushData(p) => Some(&p.base),
        FalconHeader::PullData(p) => Some(&p.base),
        FalconHeader::Resync(p) => Some(&p.base),
        FalconHeader::Ack(_) | FalconHeader::Nack(_) => None,
    }
}

/// Returns data base and request base, and T1 of an acknowledgement.
fn acknowledgement(header: &FalconHeader) -> ([u32; 2], Option<u32>) {
    let of_ack = |ack: &AckHeader| ([ack.data_base_psn.0, ack.request_base_psn.0], Some(ack.t1.0));
    match (base_of(header), header) {
        (Some(base), _) => ([base.data_base_psn.0, base.request_base_psn.0], None),
        (_, FalconHeader::Nack(nack)) => ([nack.data_base_psn.0, nack.request_base_psn.0], Some(nack.t1.0)),
        (_, FalconHeader::Ack(ack)) => of_ack(ack.header()),
        _ => unreachable!("every other packet has a base header"),
    }
}

/// Returns whether a packet acknowledges a PSN of window 0 (data) or 1 (requests).
fn acknowledges(header: &FalconHeader, window: usize, psn: u32) -> bool {
    let base = acknowledgement(header).0[window];
    let ahead = psn.wrapping_sub(base);
    if ahead >= 1 << 31 {
        return true;
    }
    let FalconHeader::Ack(Ack::Eack(eack)) = header else { return false };
    let words: &[u64] = if window == 0 { &eack.data_ack } else { &[eack.request] };
    words.get(ahead as usize / 64).is_some_and(|word| word >> (ahead % 64) & 1 == 1)
}

fn facts(frames: &[Frame], peers: &BTreeMap<u32, u32>) -> Vec<Facts> {
    let mut all: Vec<Facts> = vec![];
    let mut sent: BTreeMap<(u32, usize, u32), Sent> = BTreeMap::new();
    for (at, frame) in frames.iter().enumerate() {
        let Parts { psp, header, .. } = Parts::of(&frame.bytes).expect("a Falcon packet");
        let header = header.expect("a Falcon header");
        let cid = header.dest_cid().0;
        let kind = Some(header.packet_type());
        let tick = psp.iv.ticks().0;
        let mut facts = Facts { cid, tick, t1: acknowledgement(&header).1, kind, ..Facts::default() };
        if let Some(base) = base_of(&header) {
            let in_requests = match &header {
                FalconHeader::Resync(resync) => resync.in_request_window(),
                header => header.packet_type() == PacketType::PullRequest,
            };
            facts.rsn = base.rsn.0;
            let packet = sent.entry((cid, usize::from(in_requests), base.psn.0)).or_default();
            let is_resync = matches!(header, FalconHeader::Resync(_));
            facts.is_duplicate = packet.ivs.contains(&psp.iv.0);
            if !facts.is_duplicate {
                // A copy of the packet that a Resync replaces may arrive after the Resync.
                facts.is_retransmission = packet.kinds[usize::from(is_resync)];
                packet.kinds[usize::from(is_resync)] = true;
                packet.ivs.push(psp.iv.0);
                packet.frames.push(at);
            }
        }
        let is_duplicate = facts.is_duplicate;
        all.push(facts);
        if is_duplicate {
            continue;
        }
        let peer = peers[&cid];
        for ((_, window, psn), packet) in sent.range_mut((peer, 0, 0)..=(peer, 1, u32::MAX)) {
            if !packet.acked && acknowledges(&header, *window, *psn) {
                packet.acked = true;
                packet.frames.iter().for_each(|frame| all[*frame].acked_in = Some(at));
            }
        }
    }
    all
}

/// Compares what the dissector found with what it should have found. All that it found must be right.
pub(crate) fn check(scenario: &Scenario, frames: &[Frame], shown: &[Vec<Shown>], score: &mut Score) {
    let peers = peers(scenario);
    let facts = facts(frames, &peers);
    for (at, (fact, shown)) in facts.iter().zip(shown).enumerate() {
        let has = |name: &str| shown.iter().any(|shown| shown.name == name);
        // Frames are counted from 1 in tshark.
        let frame = |name: &str| {
            let shown = shown.iter().find(|shown| shown.name == name)?;
            Some(number(&shown.value).expect("a number") as usize - 1)
        };
        let place = || format!("seed {}, frame {}: {fact:?}", scenario.seed, at + 1);
        let peer = peers[&fact.cid];
        assert_eq!(has("falcon.retransmission"), fact.is_retransmission, "{}", place());
        assert_eq!(has("falcon.duplicate"), fact.is_duplicate, "{}", place());
        score.retransmissions += usize::from(fact.is_retransmission);
        score.duplicates += usize::from(fact.is_duplicate);

        let found = frame("falcon.acked_in");
        score.acknowledged += usize::from(fact.acked_in.is_some());
        score.acknowledged_found += usize::from(found.is_some() && found == fact.acked_in);
        if let Some(found) = found {
            // Before the two directions are known to belong together, an acknowledgement may be missed.
            assert!(facts[found].cid == peer && Some(found) >= fact.acked_in, "{found}: {}", place());
        }
        if let Some(found) = frame("falcon.t1_frame") {
            assert_eq!((facts[found].cid, Some(facts[found].tick)), (peer, fact.t1), "{}", place());
            score.times_found += 1;
        }
        let ticks: BTreeSet<u32> = facts[..at].iter().filter(|it| it.cid == peer).map(|it| it.tick).collect();
        score.times += usize::from(fact.t1.is_some_and(|t1| ticks.contains(&t1)));

        let request = facts[..at]
            .iter()
            .position(|it| it.kind == Some(PacketType::PullRequest) && (it.cid, it.rsn) == (peer, fact.rsn));
        if fact.kind == Some(PacketType::PullData) && !fact.is_duplicate {
            score.responses += usize::from(request.is_some());
            let found = frame("falcon.request_in");
            score.responses_found += usize::from(found.is_some());
            assert!(found.is_none() || found == request, "{}", place());
        }
    }
}
