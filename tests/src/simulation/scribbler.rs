//! An application that overwrites the page that it shares with its card, at random, while its neighbours work.
//!
//! Everything in that page is untrusted: what the application owns, what the card writes and what it reads there. Whatever
//! the words say, the card must go on, and the other connections of both hosts must not notice. The application uses the
//! keys of its own regions at the peer: what those permit is not the card's to refuse. Of its own node it names any place and
//! any key. The card has to refuse what is not of its domain.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::queues::{
    Command, Completion, DEFAULT_MEMORY, LKey, QueuePair, RECEIVE_QUEUE_DEPTH, REGIONS, ReceiveRequest,
    SEND_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest,
};

use super::application::Area;
use super::faults::FaultKind;
use super::host::Host;
use super::scenario::{Profile, Scenario};

/// Words that it overwrites at once.
const MOST_WORDS: usize = 12;

impl Scenario {
    /// Draws the scenario of `seed`, with faults, and with a link whose first application scribbles.
    #[must_use]
    pub fn with_scribbler(seed: u64, profile: Profile) -> Self {
        assert_eq!(profile, Profile::Exhausting, "what it does may end its connection");
        let mut this = Self::with_faults(seed, profile);
        // The link keeps its slots for as long as it is open.
        let stays = |kind| !matches!(kind, FaultKind::Restart { .. } | FaultKind::Reopen { .. });
        this.faults.retain(|fault| stays(fault.kind));
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5c_21_bb);
        let pair = this.links[rng.random_range(0..this.links.len())].ends.map(|end| end.host);
        let number = this.links.len();
        this.links.push(super::scenario::Link::random(&mut rng, number, pair, profile, true));
        this.scribbler = Some(number);
        this
    }
}

/// What the application has, and may destroy.
#[derive(Clone, Debug)]
pub struct Own {
    /// Keys and lengths of its regions at the peer, and of some that are not there.
    pub regions: Vec<(u32, u64)>,
    /// Places of the memory of its own node. If its domain is not all of that memory, it may try any.
    pub local: Range<u64>,
    /// Keys of regions of its own node, those of others as well: they are not of its domain.
    pub keys: Vec<u32>,
}

/// Overwrites some words of the queues of `slot`, whose peer has this place in the memory of its host.
pub(super) fn scribble(host: &mut Host, slot: usize, peers: usize, rng: &mut StdRng) {
    let areas = [Area::Atomics, Area::Overlap, Area::Constant, Area::Unique, Area::Sealed, Area::Unknown];
    let own = Own {
        regions: areas.map(|area| (area.key(peers), area.place().1)).into(),
        local: 0..DEFAULT_MEMORY,
        keys: (0..REGIONS as u32).collect(),
    };
    for _ in 0..rng.random_range(1..=MOST_WORDS) {
        overwrite(host.nic.queue_pair(slot), &own, rng);
    }
    host.nic.ring(slot);
}

/// Overwrites a word or an entry of the queues of a connection.
pub fn overwrite(queues: &QueuePair, own: &Own, rng: &mut StdRng) {
    let near = |word: &AtomicU32, rng: &mut StdRng| {
        let step = rng.random_range(0..SEND_QUEUE_DEPTH as u32 + 40);
        word.load(Relaxed).wrapping_add(step).wrapping_sub(rng.random_range(0..40))
    };
    let counters = [
        &queues.send_producer,
        &queues.receive_producer,
        &queues.completion_consumer,
        &queues.send_consumer,
        &queues.receive_consumer,
        &queues.completion_producer,
    ];
    match rng.random_range(0..16) {
        0 => counters[rng.random_range(0..counters.len())].store(rng.random(), Relaxed),
        1 => {
            let word = counters[rng.random_range(0..counters.len())];
            word.store(near(word, rng), Relaxed);
        }
        // What is there becomes a new request.
        2..=5 => queues.send_producer.store(near(&queues.send_consumer, rng), Relaxed),
        6 => queues.receive_producer.store(near(&queues.receive_consumer, rng), Relaxed),
        7 => queues.completion_consumer.store(queues.completion_producer.load(Relaxed), Relaxed),
        8 => {
            let word: u32 = rng.random();
            queues.control.receive_wanted.store(word, Relaxed);
            queues.control.armed.store(u64::from(word) << 32, Relaxed);
        }
        9 | 10 => queues.control.state.store(rng.random_range(0..6), Relaxed),
        11 => {
            let place = rng.random_range(0..queues.completions.len());
            queues.completions[place].store(Completion { number: rng.random(), ..Completion::default() });
        }
        12 if rng.random_bool(0.01) => {
            let command = if rng.random_bool(0.5) { Command::CLOSE.0 } else { rng.random_range(2..u32::MAX) };
            queues.control.command.store(command, Relaxed);
        }
        12 | 13 => {
            let (lkey, local_offset) = local(own, rng);
            let receive = ReceiveRequest { local_offset, wr_id: rng.random(), length: length(rng), lkey };
            queues.receive[rng.random_range(0..RECEIVE_QUEUE_DEPTH)].store(receive);
        }
        _ => queues.send[rng.random_range(0..SEND_QUEUE_DEPTH)].store(request(own, rng)),
    }
}

/// Returns a request with any content that its keys permit, or that they do not.
fn request(own: &Own, rng: &mut StdRng) -> WorkRequest {
    let (key, bytes) = own.regions[rng.random_range(0..own.regions.len())];
    let known = rng.random_bool(0.9);
    let (lkey, local_offset) = local(own, rng);
    WorkRequest {
        opcode: if known { Verb(rng.random_range(0..11)) } else { Verb(rng.random()) },
        flags: WorkFlags::from_bits_retain(rng.random()),
        length: length(rng),
        // No key of another connection: those are below this number.
        rkey: if known { key } else { rng.random_range(1 << 24..u32::MAX) },
        remote_address: if known { rng.random_range(0..bytes) & !7 } else { rng.random() },
        local_offset,
        lkey,
        wr_id: rng.random(),
        compare: rng.random(),
        swap_or_add: rng.random(),
        immediate: rng.random(),
        segment: rng.random_range(0..6),
        ..WorkRequest::default()
    }
}

fn length(rng: &mut StdRng) -> u32 {
    match rng.random_range(0..8) {
        0 => rng.random(),
        1 => 0,
        _ => rng.random_range(0..4000),
    }
}

/// Returns a place with its key: in a region, in the memory of the node, or beyond it.
fn local(own: &Own, rng: &mut StdRng) -> (LKey, u64) {
    if !own.keys.is_empty() && rng.random_bool(0.3) {
        let key = own.keys[rng.random_range(0..own.keys.len())];
        return (LKey(key), rng.random_range(0..1 << 20));
    }
    if rng.random_bool(0.1) {
        return (LKey::OWN, DEFAULT_MEMORY + rng.random_range(0..u64::MAX / 2));
    }
    (LKey::OWN, rng.random_range(own.local.clone()))
}
