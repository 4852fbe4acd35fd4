//! The applications. One [`Flow`] contains all operations from one end of a link to the other, and their results.

mod op;

use host_nic::HostNic;
use rand::Rng;
use rand::distr::weighted::WeightedIndex;
use rand::rngs::StdRng;
use transport_common::ids::Rsn;
use transport_common::queues::{
    AccessFlags, BANK_BYTES, Completion, DEFAULT_MEMORY, Domain, LKey, ProtectionDomain, REGIONS,
    ReceiveRequest, Region, SEND_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest,
};

use super::scenario::{End, Link, Profile};
use transport_common::ulp::Protocol;
use transport_common::ulp::block::BLOCK_BYTES;

pub use op::{Area, Kind, Op, ReceiveBuffer};

/// Bytes of memory of one end of a link on its host.
pub(crate) const END_BYTES: u64 = 15 << 20;
/// How far the memory of an end begins before the end of a bank, of ends with an even and an odd place. The bank ends
/// in the middle of [`Area::Constant`] or of [`Area::Overlap`], so that some operations are in two banks.
const BEFORE_END_OF_BANK: [u64; 2] = [0x18000, 0x3000];
/// The offsets of sources, sinks and receive buffers in this memory.
const LOCAL: u64 = 5 << 20;
/// The largest number of segments of a message.
const SEGMENTS: usize = 4;

/// All operations from one end to the other.
#[derive(Debug)]
pub struct Flow {
    /// Place of the initiator's memory on its host, and of the target's: the connections of a host are counted.
    pub places: [usize; 2],
    /// The initiator.
    pub initiator: End,
    /// The target.
    pub target: End,
    /// Whether the connection is ordered by RSN.
    pub ordered: bool,
    /// The purpose of the run.
    pub profile: Profile,
    /// RSN of the first operation.
    pub first: Rsn,
    /// Operations so far, in the order of their RSNs.
    pub ops: Vec<Op>,
    /// Receives posted so far.
    pub receives: Vec<ReceiveBuffer>,
    /// Completions of receives, in the order the target's application found them.
    pub arrivals: Vec<Completion>,
    /// Operations whose completion was lost because the connection was closed while the queue was full.
    pub lost_ends: Vec<u32>,
    total: usize,
    depth: usize,
    keen: bool,
    posted_receives: usize,
    mix: [u32; 5],
    /// Whether some requests must be refused, and some receives are too short.
    pub(super) errors: bool,
    malformed: bool,
    max_segment: u32,
    /// The connection has the block protocol.
    blocks: bool,
    /// Remaining segments of the current message, and the number of the next one.
    message: (usize, u32),
    /// Next free byte of the initiator's local memory, of the target's, and of the unique area.
    local: u64,
    remote: u64,
    unique: u64,
    /// Initial values of the target's words, and additions so far by word.
    pub words: [u64; 16],
    additions: [u32; 8],
    /// The assumed values of the words for compare-and-swap.
    believed: [u64; 8],
    /// Whether the host of the initiator restarted, and that of the target.
    lost: [bool; 2],
    /// Whether another connection has its slots now.
    retired: bool,
}

/// Returns the offset of the memory of a host's connection number `place`.
pub(crate) const fn base(place: usize) -> u64 {
    (place as u64 + 1) * BANK_BYTES as u64 - BEFORE_END_OF_BANK[place % 2]
}

/// Returns the domain of the application of a host's connection number `place`: the part of the end's memory where it
/// sends from and receives. What peers access are its regions.
pub(crate) const fn domain(place: usize) -> Domain {
    Domain::new(ProtectionDomain(place as u32 + 1), base(place) + LOCAL, END_BYTES - LOCAL)
}

/// Returns the key of a region that is all of this memory.
pub(crate) const fn local_key(place: usize) -> LKey {
    LKey(1 + place as u32 * 8 + 6)
}

/// Returns how request or receive number `id` names `offset` in the memory of the end at `place`: in one of three cases by
/// the region, otherwise by the domain.
const fn named(place: usize, offset: u64, id: u64) -> (LKey, u64) {
    if id % 3 == 1 { (local_key(place), offset - base(place) - LOCAL) } else { (LKey::OWN, offset) }
}

impl Flow {
    /// Creates the flow from end `side` of a link, whose ends have these places on their hosts.
    #[must_use]
    pub fn new(places: [usize; 2], link: &Link, side: usize, profile: Profile) -> Self {
        let places = [places[side], places[1 - side]];
        Self {
            places,
            initiator: link.ends[side],
            target: link.ends[1 - side],
            ordered: link.parameters[side].config.ordered != 0,
            profile,
            first: link.parameters[side].tx.rsn,
            ops: Vec::new(),
            receives: Vec::new(),
            arrivals: Vec::new(),
            lost_ends: Vec::new(),
            total: link.operations[side],
            depth: link.depth[side],
            keen: link.keen[side],
            posted_receives: link.receives[1 - side],
            mix: link.mix[side],
            errors: link.errors,
            malformed: link.malformed,
            max_segment: link.parameters[side].config.max_segment,
            blocks: link.parameters[side].config.protocol == Protocol::BLOCK,
            message: (0, 0),
            local: base(places[0]) + LOCAL,
            // Sinks and sources of the opposite flow share the target's memory. The upper half is for receives.
            remote: base(places[1]) + LOCAL + (END_BYTES - LOCAL) / 2,
            unique: 0,
            words: [0; 16],
            additions: [0; 8],
            believed: [0; 8],
            lost: [false; 2],
            retired: false,
        }
    }

    /// Returns the offset of the target's regions in the memory of its host.
    pub(crate) const fn remote_base(&self) -> u64 {
        base(self.places[1])
    }

    /// The host of the initiator restarts: its operations are forgotten.
    pub fn lose_initiator(&mut self) {
        self.total = self.ops.len();
        self.lost[0] = true;
    }

    /// The host of the target restarts, or the connection is closed: the operations under way end in whatever way.
    pub fn lose_target(&mut self) {
        self.total = self.ops.len();
        self.lost[1] = true;
    }

    /// The application of an end overwrites its queues: nothing is known of its operations and of what it receives.
    pub fn scribble(&mut self, initiator: bool) {
        self.lost = [initiator, true];
    }

    /// Another connection takes its slots. Everything that it completes has been taken.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    /// Whether one of the hosts restarted.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.lost[0] || self.lost[1]
    }

    /// Whether the host of the initiator restarted.
    #[must_use]
    pub const fn is_forgotten(&self) -> bool {
        self.lost[0]
    }

    /// Returns whether operations take effect in an order that the oracle can follow.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        self.ordered && self.profile == Profile::Lossy
    }

    /// Registers the target's regions and fills its memory with the initial content.
    pub fn prepare(&mut self, rng: &mut StdRng, nic: &mut HostNic) {
        let (start, domain) = (self.remote_base(), domain(self.places[1]).id);
        for area in Area::REGISTERED {
            let (offset, length) = area.place();
            let key = area.key(self.places[1]);
            nic.register(Region {
                offset: start + offset,
                length,
                key,
                access: area.access(),
                domain,
                reserved: 0,
            });
        }
        nic.register(Region {
            offset: start + LOCAL,
            length: END_BYTES - LOCAL,
            key: local_key(self.places[1]).0,
            access: AccessFlags::LOCAL_WRITE,
            domain,
            reserved: 0,
        });
        let (constant, length) = Area::Constant.place();
        rng.fill(&mut nic.memory_mut()[(start + constant) as usize..][..length as usize]);
        // A sum of powers of two shows which of them were added, and whether one was added twice.
        let exhausting = self.profile == Profile::Exhausting;
        for (n, word) in self.words.iter_mut().enumerate() {
            *word = if exhausting { 0 } else { rng.random() };
            nic.memory_mut()[start as usize + n * 8..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        self.believed.copy_from_slice(&self.words[8..]);
    }

    /// Returns whether everything was posted and has ended.
    #[must_use]
    pub fn is_done(&self, nic: &HostNic) -> bool {
        self.is_forgotten() || self.retired || self.ops.len() == self.total && self.outstanding(nic) == 0
    }

    /// Returns whether the initiator's send queue has no place.
    pub(super) fn fills_send_queue(&self, nic: &HostNic) -> bool {
        self.outstanding(nic) >= SEND_QUEUE_DEPTH
    }

    fn outstanding(&self, nic: &HostNic) -> usize {
        let consumed =
            nic.queue_pair(self.initiator.slot).send_consumer.load(core::sync::atomic::Ordering::Relaxed);
        self.ops.len() - consumed.wrapping_sub(self.first.0) as usize
    }

    /// Posts some operations, as far as depth and number allow.
    pub fn post(&mut self, rng: &mut StdRng, nic: &mut HostNic, time: u64) {
        let room = self.depth.saturating_sub(self.outstanding(nic)).min(self.total - self.ops.len());
        for _ in 0..if self.keen { room } else { rng.random_range(0..=room) } {
            let op = self.next_op(rng, nic, time);
            let work = op.work;
            self.ops.push(op);
            let rsn = nic.post(self.initiator.slot, work).expect("the depth is at most the queue's");
            assert_eq!(
                rsn,
                self.first.add(self.ops.len() as u32 - 1),
                "RSNs are assigned in the order of posting"
            );
        }
    }

    /// Makes the target ready for some requests, or not: posts receives, or makes regions busy for a while.
    pub fn attend(&mut self, rng: &mut StdRng, nic: &mut HostNic) {
        if self.blocks {
            self.occupy(rng, nic);
        } else {
            self.post_receives(rng, nic);
        }
    }

    fn occupy(&self, rng: &mut StdRng, nic: &mut HostNic) {
        for key in Area::REGISTERED.map(|area| area.key(self.places[1])) {
            let region = &mut nic.regions_mut()[key as usize % REGIONS];
            if region.key != key {
                continue;
            }
            let was = region.access.contains(AccessFlags::BUSY);
            let toggles = rng.random_bool(if was { 0.5 } else { 0.1 });
            region.access.set(AccessFlags::BUSY, was != toggles);
        }
    }

    /// Makes the target ready for requests forever. A pull whose initiator has given up would else be offered to a busy
    /// region again and again.
    pub fn be_ready(&self, nic: &mut HostNic) {
        for key in Area::REGISTERED.map(|area| area.key(self.places[1])) {
            let region = &mut nic.regions_mut()[key as usize % REGIONS];
            if region.key == key {
                region.access.remove(AccessFlags::BUSY);
            }
        }
    }

    fn post_receives(&mut self, rng: &mut StdRng, nic: &mut HostNic) {
        let consumer = &nic.queue_pair(self.target.slot).receive_consumer;
        let posted = self.receives.len() - consumer.load(core::sync::atomic::Ordering::Relaxed) as usize;
        let room = self.posted_receives.saturating_sub(posted);
        for _ in 0..rng.random_range(0..=room) {
            let longest =
                if self.is_sequential() { self.max_segment * SEGMENTS as u32 } else { self.max_segment };
            let short = self.errors && self.is_sequential() && rng.random_bool(0.3);
            let length = if short { rng.random_range(0..=longest) } else { longest };
            let buffer = ReceiveBuffer { offset: self.remote, length };
            self.remote += u64::from(length) + 16;
            let wr_id = self.receives.len() as u64;
            let (lkey, local_offset) = named(self.places[1], buffer.offset, wr_id);
            let receive = ReceiveRequest { local_offset, wr_id, length, lkey };
            nic.post_receive(self.target.slot, receive).expect("the number is below the queue's depth");
            self.receives.push(buffer);
        }
    }

    /// Handles a completion at the initiator.
    pub fn complete(&mut self, completion: Completion, time: u64) {
        let index = completion.wr_id as usize;
        assert_eq!(
            completion.rsn,
            self.first.add(index as u32).0,
            "F-6.1.1-1: a completion names its transaction"
        );
        let previous = self.ops[index].ended.replace((time, completion));
        assert!(
            previous.is_none(),
            "F-6.1-2: RSN {} completed twice: {previous:?}, {completion:?}",
            completion.rsn
        );
        assert_eq!(completion.opcode, self.ops[index].work.opcode, "the completion of another operation");
        if let (Kind::CompareSwap, 0, 0) = (self.ops[index].kind, completion.status, completion.ulp_code) {
            let work = self.ops[index].work;
            self.believed[(work.remote_address / 8) as usize % 8] = work.swap_or_add;
        }
    }

    fn take_local(&mut self, bytes: u32) -> u64 {
        let offset = self.local;
        self.local += u64::from(bytes) + 16;
        assert!(self.local < base(self.places[0]) + LOCAL + (END_BYTES - LOCAL) / 2, "local memory used up");
        offset
    }

    fn next_op(&mut self, rng: &mut StdRng, nic: &mut HostNic, time: u64) -> Op {
        let signaled = if rng.random_bool(0.85) { WorkFlags::SIGNALED } else { WorkFlags::empty() };
        let wr_id = self.ops.len() as u64;
        let mut work = WorkRequest { flags: signaled, wr_id, ..WorkRequest::default() };
        let (kind, area) = self.choose(rng, &mut work);
        let mut data = Vec::new();
        match kind {
            Kind::Write | Kind::Send => {
                data = (0..work.length).map(|_| rng.random_range(1..=255)).collect();
                work.local_offset = self.take_local(work.length);
                nic.memory_mut()[work.local_offset as usize..][..data.len()].copy_from_slice(&data);
            }
            Kind::Read => work.local_offset = self.take_local(work.length),
            Kind::CompareSwap | Kind::FetchAdd => work.local_offset = self.take_local(8),
            Kind::Malformed => {}
        }
        work.rkey = area.key(self.places[1]);
        let local = work.local_offset;
        if kind != Kind::Malformed {
            (work.lkey, work.local_offset) = named(self.places[0], local, wr_id);
        }
        Op { work, kind, local, area, data, posted: time, ended: None }
    }

    /// Chooses kind, opcode, length, address and flags of the next operation.
    fn choose(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        if self.message.0 > 0 {
            return self.segment(rng, work);
        }
        if self.malformed && rng.random_bool(0.04) {
            self.malform(rng, work);
            return (Kind::Malformed, Area::Unknown);
        }
        let kinds = if self.blocks { &self.mix[..2] } else { &self.mix[..] };
        let weights = WeightedIndex::new(kinds).expect("no weight is 0");
        let (kind, area) = match rng.sample(weights) {
            0 => self.write(rng, work),
            1 => self.read(rng, work),
            2 => self.compare_swap(rng, work),
            3 => self.fetch_add(rng, work),
            _ => {
                let segments = if self.is_sequential() { rng.random_range(1..=SEGMENTS) } else { 1 };
                self.message = (segments, 0);
                return self.segment(rng, work);
            }
        };
        if self.errors && rng.random_bool(0.1) {
            return (kind, self.spoil(rng, work, area));
        }
        (kind, area)
    }

    /// Makes a request that its target must refuse (D-84).
    fn spoil(&self, rng: &mut StdRng, work: &mut WorkRequest, area: Area) -> Area {
        match rng.random_range(0..4) {
            0 => Area::Sealed,
            1 => Area::Unknown,
            2 => {
                let unit = self.unit(8);
                work.remote_address = (area.place().1 + rng.random_range(unit..1 << 40)) & !(unit - 1);
                area
            }
            _ => {
                work.remote_address = !(self.unit(8) - 1);
                area
            }
        }
    }

    fn malform(&self, rng: &mut StdRng, work: &mut WorkRequest) {
        work.flags |= WorkFlags::SIGNALED;
        work.opcode = Verb::WRITE;
        match rng.random_range(0..4) {
            0 => work.opcode = Verb(rng.random_range(11..=255)),
            1 => work.length = self.max_segment + rng.random_range(1..1000),
            2 => {
                work.opcode = Verb::FETCH_ADD;
                work.remote_address = 4;
            }
            _ => {
                // Beyond the node's memory, or before its own.
                work.length = self.unit(1) as u32;
                let n = rng.random_range(0..100);
                work.local_offset =
                    if n % 2 == 0 { DEFAULT_MEMORY + n } else { base(self.places[0]) + LOCAL - n };
            }
        }
    }

    /// Returns what lengths and addresses are multiples of: a block, or `otherwise`.
    const fn unit(&self, otherwise: u64) -> u64 {
        if self.blocks { BLOCK_BYTES as u64 } else { otherwise }
    }

    /// Returns a random address for `length` bytes in an area.
    fn address(&self, rng: &mut StdRng, area: Area, length: u32) -> u64 {
        let unit = self.unit(1);
        rng.random_range(0..=(area.place().1 - u64::from(length)) / unit) * unit
    }

    fn length(&self, rng: &mut StdRng) -> u32 {
        if self.blocks {
            return rng.random_range(1..=self.max_segment / BLOCK_BYTES) * BLOCK_BYTES;
        }
        if rng.random_bool(0.1) { 0 } else { rng.random_range(1..=self.max_segment) }
    }

    fn immediate(&self, rng: &mut StdRng, work: &mut WorkRequest) {
        if rng.random_bool(0.4) {
            work.flags |= WorkFlags::IMMEDIATE;
            work.immediate = rng.random();
        }
    }

    fn write(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        work.opcode = Verb::WRITE;
        work.length = self.length(rng);
        if !self.blocks && rng.random_bool(0.3) {
            self.immediate(rng, work);
        }
        if self.is_sequential() && rng.random_bool(0.6) {
            work.remote_address = self.address(rng, Area::Overlap, work.length);
            return (Kind::Write, Area::Overlap);
        }
        work.remote_address = self.unique;
        self.unique += u64::from(work.length);
        (Kind::Write, Area::Unique)
    }

    fn read(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        work.opcode = Verb::READ;
        work.length = self.length(rng);
        let written: Vec<&Op> = self.ops.iter().filter(|op| is_written(op)).collect();
        if !written.is_empty() && rng.random_bool(0.3) {
            let op = written[rng.random_range(0..written.len())];
            (work.length, work.remote_address) = (op.work.length, op.work.remote_address);
            return (Kind::Read, Area::Unique);
        }
        let area = if self.is_sequential() && rng.random_bool(0.6) { Area::Overlap } else { Area::Constant };
        work.remote_address = self.address(rng, area, work.length);
        (Kind::Read, area)
    }

    fn compare_swap(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        let word = rng.random_range(0..8);
        work.opcode = Verb::COMPARE_SWAP;
        work.remote_address = (8 + word as u64) * 8;
        work.compare = if rng.random_bool(0.7) { self.believed[word] } else { rng.random() };
        // Values never repeat, so that they show the history of a word.
        work.swap_or_add = rng.random();
        if self.is_sequential() && work.compare == self.believed[word] {
            self.believed[word] = work.swap_or_add;
        }
        (Kind::CompareSwap, Area::Atomics)
    }

    fn fetch_add(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        let word = rng.random_range(0..8);
        work.opcode = Verb::FETCH_ADD;
        work.remote_address = word as u64 * 8;
        work.swap_or_add = rng.random();
        if self.profile == Profile::Exhausting {
            if self.additions[word] == 63 {
                return self.read(rng, work);
            }
            work.swap_or_add = 1 << self.additions[word];
            self.additions[word] += 1;
        }
        (Kind::FetchAdd, Area::Atomics)
    }

    fn segment(&mut self, rng: &mut StdRng, work: &mut WorkRequest) -> (Kind, Area) {
        let (left, number) = self.message;
        work.opcode = match (number, left) {
            (0, 1) => Verb::SEND_ONLY,
            (0, _) => Verb::SEND_FIRST,
            (_, 1) => Verb::SEND_LAST,
            _ => Verb::SEND_MIDDLE,
        };
        work.segment = number;
        work.length = self.length(rng);
        if left == 1 {
            self.immediate(rng, work);
        }
        self.message = (left - 1, number + 1);
        (Kind::Send, Area::Unknown)
    }
}

/// Returns whether the application knows that a WRITE was placed.
fn is_written(op: &Op) -> bool {
    let placed = op.ended.is_some_and(|(_, completion)| completion.status == 0);
    op.kind == Kind::Write && op.area == Area::Unique && placed
}
