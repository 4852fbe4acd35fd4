//! The card of one end, whose state is kept as the difference from the state at the beginning.
//!
//! A state is some hundred bytes that differ, of the 100 KB that a step can change. Going from one state to another
//! touches only these.

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::connection::Snapshot;
use transport_common::ids::CellId;
use transport_common::queues::{AccessFlags, CONNECTIONS, Completion, Domain, NodeConfig, QueuePair, Region};
use transport_common::shard::{READY_WORDS, Scheduler};
use transport_common::timing_wheel::TimingWheel;
use transport_common::ulp::Protocol;
use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};

use super::operations::{KEY, RECEIVES, REMOTE, REMOTE_BYTES, SLOT, prepare, work};
use super::small_world::SmallWorld;

/// Bytes of an end's memory that are used.
pub(super) const USED: usize = RECEIVES as usize + 512;
const MEMORY: u64 = 1 << 16;
const CELLS: usize = 4;
/// Bytes of a receive cell that the operations use: headers and data.
const USED_OF_CELL: usize = 640;
/// The time at the beginning.
pub(super) const START: Picoseconds = Picoseconds(1 << 40);

/// A transaction ends if it takes longer: nothing else takes nearly as long.
pub(super) const TRANSACTION_TIMEOUT: PicosecondSpan = PicosecondSpan(200_000_000_000_000);

/// The bytes of a block: what differs is found block by block.
const BLOCK: usize = 16;
/// Bytes that are compared at once: most are equal.
const STRIDE: usize = 32 * BLOCK;

/// Blocks that differ from those of the beginning, with their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    numbers: Vec<u16>,
    blocks: Vec<[u8; BLOCK]>,
}

impl Difference {
    /// Compares `bytes` with `base`, and adds the blocks that differ. Their numbers begin with `first`.
    pub(super) fn add(&mut self, first: usize, base: &[u8], bytes: &[u8]) {
        assert!(base.len() == bytes.len() && first + base.len() / BLOCK < usize::from(u16::MAX));
        let strides = base.chunks(STRIDE).zip(bytes.chunks(STRIDE));
        for (stride, (base, bytes)) in strides.enumerate().filter(|(_, (base, bytes))| base != bytes) {
            let first = first + stride * (STRIDE / BLOCK);
            let blocks = base.chunks(BLOCK).zip(bytes.chunks(BLOCK));
            for (number, (_, block)) in blocks.enumerate().filter(|(_, (base, block))| base != block) {
                let mut whole = [0; BLOCK];
                whole[..block.len()].copy_from_slice(block);
                self.numbers.push((first + number) as u16);
                self.blocks.push(whole);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.blocks.clear();
    }

    /// Returns its bytes: the numbers, then the blocks.
    pub(super) fn bytes(&self) -> [&[u8]; 2] {
        [bytemuck::cast_slice(&self.numbers), self.blocks.as_flattened()]
    }
}

/// What differs from the beginning, and the small things that are kept as they are.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    difference: Difference,
    ready: [u64; READY_WORDS],
    scheduler: Scheduler,
    free_cells: Vec<CellId>,
    busy: bool,
    completions: Vec<Completion>,
    /// Receives posted so far.
    readied: u8,
}

/// The card of one end, in the state that was loaded last or that a step made of it.
pub(super) struct Card {
    pub(super) nic: HostNic,
    /// All completions so far.
    pub(super) completions: Vec<Completion>,
    /// How often the application made it ready for requests: receives posted, or a busy region made free.
    pub(super) readied: u8,
    /// The areas of [`visit`] at the beginning.
    base: Vec<Vec<u8>>,
    /// Blocks in which the card differs from the beginning.
    loaded: Difference,
}

impl Card {
    /// Creates the cards of both ends, with all operations posted.
    pub(super) fn pair(world: &SmallWorld) -> [Self; 2] {
        let mut nics = [0, 1].map(|side| new_card(world, side));
        for side in [0, 1] {
            for (number, op) in world.operations[side].iter().enumerate() {
                prepare(world, &mut nics, side, number, *op);
                nics[side].post(SLOT, work(world, number, *op)).expect("the queue is empty");
            }
        }
        nics.map(|mut nic| {
            let mut base = vec![];
            visit(&mut nic, |area| base.push(area.to_vec()));
            Self { nic, completions: vec![], readied: 0, base, loaded: Difference::default() }
        })
    }

    /// Returns the state, after a step.
    pub(super) fn save(&mut self) -> Saved {
        self.loaded.clear();
        let (mut first, mut base) = (0, self.base.iter());
        visit(&mut self.nic, |area| {
            self.loaded.add(first, base.next().expect("the same areas"), area);
            first += area.len().div_ceil(BLOCK);
        });
        Saved {
            difference: self.loaded.clone(),
            ready: self.nic.page().ready.bits(),
            scheduler: *self.nic.scheduler(),
            free_cells: self.nic.free_cells().to_vec(),
            busy: self.is_busy(),
            completions: self.completions.clone(),
            readied: self.readied,
        }
    }

    /// Goes to a saved state. The present one is one that was saved or loaded.
    pub(super) fn load(&mut self, saved: &Saved) {
        let mut old = self.loaded.numbers.iter().peekable();
        let mut new = saved.difference.numbers.iter().zip(&saved.difference.blocks).peekable();
        let (mut first, mut base) = (0, self.base.iter());
        visit(&mut self.nic, |area| {
            let base = base.next().expect("the same areas");
            let end = first + area.len().div_ceil(BLOCK);
            let place = |number: u16| {
                let at = (usize::from(number) - first) * BLOCK;
                at..(at + BLOCK).min(base.len())
            };
            while let Some(number) = old.next_if(|number| usize::from(**number) < end) {
                area[place(*number)].copy_from_slice(&base[place(*number)]);
            }
            while let Some((number, block)) = new.next_if(|(number, _)| usize::from(**number) < end) {
                let place = place(*number);
                let length = place.len();
                area[place].copy_from_slice(&block[..length]);
            }
            first = end;
        });
        self.loaded.clone_from(&saved.difference);
        self.nic.page().ready.restore(saved.ready);
        *self.nic.scheduler() = saved.scheduler;
        self.nic.set_free_cells(&saved.free_cells);
        self.set_busy(saved.busy);
        self.completions.clone_from(&saved.completions);
        self.readied = saved.readied;
    }

    /// Whether the region is busy.
    pub(super) fn is_busy(&self) -> bool {
        self.nic.regions()[KEY as usize].access.contains(AccessFlags::BUSY)
    }

    pub(super) fn set_busy(&mut self, busy: bool) {
        self.nic.regions_mut()[KEY as usize].access.set(AccessFlags::BUSY, busy);
    }
}

/// Shows the memory that a step can change, area by area, always in the same order.
fn visit(nic: &mut HostNic, mut show: impl FnMut(&mut [u8])) {
    /// Returns the bytes of a value.
    ///
    /// # Safety
    /// It has no padding, and whoever changes the bytes makes them those of another value of the type.
    unsafe fn bytes<T>(value: &mut T) -> &mut [u8] {
        // SAFETY: the value is exclusively borrowed, as long as the bytes; the caller promises the rest.
        unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(value).cast(), size_of::<T>()) }
    }
    let entry: &mut Snapshot = nic.entry_mut(SLOT);
    // SAFETY: `Snapshot` is `NoUninit`, so it has no padding. Only blocks of the same entry at other times are put into it,
    // and all of them that differ.
    show(unsafe { bytes(entry) });
    let queues: &mut QueuePair = nic.queue_pair_mut(SLOT);
    // SAFETY: all fields are numbers, in cells and atomics, without padding between them (`transport_common::queues` asserts
    // it).
    show(unsafe { bytes(queues) });
    let wheel: &mut TimingWheel<CONNECTIONS> = nic.wheel();
    // SAFETY: all fields are numbers, with named fields in the place of padding.
    show(unsafe { bytes(wheel) });
    for cell in (0..CELLS as u32).map(CellId::at) {
        show(&mut nic.cell_mut(cell).expect("the cell exists")[..USED_OF_CELL]);
    }
    show(&mut nic.memory_mut()[..USED]);
}

fn new_card(world: &SmallWorld, side: usize) -> HostNic {
    let node = NodeConfig { memory: MEMORY, ..testbed::node(side) };
    let mut nic = HostNic::new(HostConfig { cells: CELLS, ..HostConfig::new(node) });
    let mut parameters = testbed::connection(side, SLOT);
    parameters.config.ordered = world.ordered.into();
    parameters.config.protocol = if world.blocks { Protocol::BLOCK } else { Protocol::RDMA };
    parameters.config.checksum = 0;
    parameters.config.domain = Domain::of_node(MEMORY);
    // Whether a packet asks for an ACK depends on how many were sent before, and would tell states apart that
    // differ in nothing else. The last packet of a burst asks in any case.
    parameters.config.ack_request_percent = 0;
    // A request that is refused is sent again soon: code 0 would be 655 ms, in which packets behind it are sent again.
    parameters.config.rnr_timeout_code = 1;
    // Both hosts have one clock, and no packet is refused for its time.
    parameters.config.replay_margin = PicosecondSpan(1 << 60);
    (parameters.request_window, parameters.data_window) = (world.window, world.window);
    parameters.config.transaction_timeout = Ticks::from_nanos(TRANSACTION_TIMEOUT.0 / 1000);
    if world.close {
        // The other end gives up soon.
        parameters.config.max_retransmit_attempts = 2;
    }
    assert_eq!(parameters.check(), Ok(()));
    nic.open(SLOT, &parameters);
    let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    nic.set_time(START);
    let busy = if world.blocks && world.busy { AccessFlags::BUSY } else { AccessFlags::empty() };
    nic.register(Region {
        offset: REMOTE,
        length: REMOTE_BYTES,
        key: KEY,
        access: access | busy,
        ..Region::default()
    });
    nic
}
