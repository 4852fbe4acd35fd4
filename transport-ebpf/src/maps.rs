//! The NIC's memory: all maps of the programs.

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::helpers::bpf_ringbuf_output;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, DevMap, PerCpuArray, ProgramArray, RingBuf, Stack};
use transport_common::congestion::histogram::DelayHistogram;
use transport_common::congestion::queues::CongestionQueues;
use transport_common::connection::Snapshot;
use transport_common::counters::Counter;
use transport_common::datapath::{Exchange, Scratch};
use transport_common::hardware_clock::ClockPage;
use transport_common::ids::CellId;
use transport_common::queues::{
    BANK_BYTES, BANK_GUARD, CELL_BYTES, CELLS as CELL_COUNT, CONNECTIONS as SLOTS, DEFAULT_BANKS, NodeConfig,
    QueuePair, REGIONS as REGION_COUNT, Region,
};
use transport_common::shard::{NodePage, Parts, Scheduler, Wheel};
use transport_common::shared::Lock;
use transport_common::tape::{self, Ending, TRACE_BYTES, Tape};
use transport_common::verifier;

/// A connection behind its lock.
#[repr(C)]
pub(crate) struct Locked {
    pub(crate) lock: Lock,
    pub(crate) connection: Snapshot,
}

/// Connection slots.
#[map]
pub(crate) static CONNECTIONS: Array<Locked> = Array::with_max_entries(SLOTS as u32, 0);
/// A connection that is copied into or out of its slot.
#[map]
pub(crate) static EXCHANGE: Array<Exchange> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Send, receive and completion queues by connection slot.
#[map]
pub(crate) static QUEUE_PAIRS: Array<QueuePair> = Array::with_max_entries(SLOTS as u32, BPF_F_MMAPABLE);
/// Banks of registered memory, as many as the loader asks for. A guard follows each.
#[map]
pub(crate) static MEMORY: Array<[u8; BANK_BYTES + BANK_GUARD]> =
    Array::with_max_entries(DEFAULT_BANKS as u32, BPF_F_MMAPABLE);
/// Regions by R_Key.
#[map]
pub(crate) static REGIONS: Array<Region> = Array::with_max_entries(REGION_COUNT as u32, BPF_F_MMAPABLE);
/// Doorbells and the engine's state.
#[map]
static NODE: Array<NodePage> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Counters by [`Counter`].
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT as u32, 0);
/// Numbers of free receive cells, from 1 on; filled by the loader.
#[map]
static CELL_STACK: Stack<CellId> = Stack::with_max_entries(CELL_COUNT as u32, 0);
/// Receive cells. Number n is at index n - 1.
#[map]
pub(crate) static CELLS: Array<[u8; CELL_BYTES]> = Array::with_max_entries(CELL_COUNT as u32, 0);
/// Timers of all connections. Only the engine uses it.
#[map]
static WHEEL: Array<Wheel> = Array::with_max_entries(1, 0);
/// Where the engine is in its round. Only the engine uses it.
#[map]
static ROUND_ROBIN: Array<Scheduler> = Array::with_max_entries(1, 0);
/// Event and result queues of a rate update engine in user space.
#[map]
static CONGESTION: Array<CongestionQueues> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Delays of all acknowledgements.
#[map]
pub(crate) static DELAYS: PerCpuArray<DelayHistogram> = PerCpuArray::with_max_entries(1, 0);
/// The relation of the card's clock to ours. The program that is bound to a device reads it.
#[map]
static CLOCK: Array<ClockPage> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// What [`Counter::SentByEngine`] of a CPU was at the end of the last bulk.
#[map]
static LAST_BULK: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
/// Working memory for one packet.
#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);
/// The interface to send on; empty where the card takes no frames from XDP.
#[map]
pub(crate) static PORT: DevMap = DevMap::with_max_entries(1, 0);
/// The kernel's number of [`PORT`], filled by the loader: by it the kernel names the map when it could not redirect.
#[map]
static PORT_ID: Array<u32> = Array::with_max_entries(1, 0);
/// 1: answers in received frames leave through the stack, because the driver does not send them.
#[map]
static ANSWERS: Array<u32> = Array::with_max_entries(1, 0);
/// The programs to which the wire and engine programs jump, filled by the loader.
#[map]
pub(crate) static PROGRAMS: ProgramArray = ProgramArray::with_max_entries(2, 0);
/// Index of the engine program.
pub(crate) const ENGINE_PROGRAM: u32 = 0;
/// Index of the redelivery program.
pub(crate) const REDELIVER_PROGRAM: u32 = 1;
/// Recording of one run, while a trace is recorded.
#[map]
static TAPE: PerCpuArray<[u32; size_of::<Tape>() / 4]> = PerCpuArray::with_max_entries(1, 0);
/// Recorded tapes for the reader of the trace.
#[map]
static TRACE: RingBuf = RingBuf::with_byte_size(TRACE_BYTES, 0);
/// Number of tapes that were lost, because the ring was full or a tape was too small for its run.
#[map]
static TRACE_LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
/// Wakes a sleeping engine thread.
#[map]
static WAKE: RingBuf = RingBuf::with_byte_size(4096, 0);

/// Slots of connections whose applications have to be woken. A thread of the node reads it: no helper of BPF writes an
/// eventfd. There is a place for each slot, with its head of 8 bytes.
#[map]
static NOTICES: RingBuf = RingBuf::with_byte_size(2 * 8 * SLOTS as u32, 0);

/// Own addresses, set by the loader.
#[unsafe(no_mangle)]
pub(crate) static NODE_CONFIG: Global<NodeConfig> =
    Global::new(NodeConfig { mac_word: 0, ipv6: [0; 2], ipv4: 0, interface_index: 0, memory: 0 });

/// Returns this CPU's working memory. Programs on one CPU never interrupt each other: XDP runs with bottom halves
/// off.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: the pointer is a valid map value, and this CPU runs one program at a time.
    SCRATCH.get_ptr_mut(0).map(|p| unsafe { &mut *p })
}

/// Adds to this CPU's part of a counter. The sum of all parts wraps, so that one CPU may take back what another counted.
#[inline(always)]
pub(crate) fn count(counter: Counter, n: u64) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: this CPU's own value.
        unsafe { *value = (*value).wrapping_add(n) };
    }
}

/// Returns how many frames the engine has sent on this CPU since the last call.
#[inline(always)]
pub(crate) fn sent_since_last_bulk() -> u64 {
    let (Some(sent), Some(last)) = (COUNTERS.get(Counter::SentByEngine as u32), LAST_BULK.get_ptr_mut(0))
    else {
        return 0;
    };
    // SAFETY: this CPU's own value.
    unsafe {
        let new = sent.wrapping_sub(*last);
        *last = *sent;
        new
    }
}

/// Whether `map` is the number of [`PORT`].
#[inline(always)]
pub(crate) fn is_port(map: u32) -> bool {
    PORT_ID.get(0).is_some_and(|port| *port == map)
}

/// Whether answers in received frames leave through the stack.
#[inline(always)]
pub(crate) fn answers_through_stack() -> bool {
    ANSWERS.get(0).is_some_and(|answers| *answers != 0)
}

/// Returns the node page.
#[inline(always)]
pub(crate) fn node() -> Option<&'static NodePage> {
    // SAFETY: a valid map value; all its fields are atomics.
    NODE.get_ptr(0).map(|p| unsafe { &*p })
}

/// Returns this CPU's tape.
#[inline(always)]
pub(crate) fn tape() -> Option<&'static Tape> {
    // SAFETY: the pointer is a valid map value of that size, and this CPU runs one program at a time.
    TAPE.get_ptr(0).map(|p| unsafe { &*p.cast::<Tape>() })
}

/// Ends a recorded run, and passes its tape on if it contains anything.
#[inline(always)]
pub(crate) fn keep(tape: &'static Tape, ending: impl Ending) {
    /// The reader of the trace polls the ring.
    const NO_WAKEUP: u64 = 1;
    let bytes = verifier::opaque(tape::finish(tape, ending) as u64);
    if bytes == 0 {
        return;
    }
    let kept = bytes <= size_of::<Tape>() as u64
        // SAFETY: that many bytes of a map value.
        && unsafe {
            bpf_ringbuf_output(
                (&raw const TRACE).cast_mut().cast(),
                core::ptr::from_ref(tape).cast_mut().cast(),
                bytes,
                NO_WAKEUP,
            )
        } == 0;
    if !kept && let Some(lost) = TRACE_LOST.get_ptr_mut(0) {
        // SAFETY: this CPU's own value.
        unsafe { *lost += 1 };
    }
}

/// Has the application of a slot woken. If the ring is full, nothing is lost, because the reader, which has what fills the
/// ring still to read, looks at all queues.
#[inline(never)]
pub(crate) fn tell_sleeper(slot: u32) {
    if NOTICES.output::<u64>(u64::from(slot), 0).is_err() {
        count(Counter::NoticeRingFull, 1);
    }
}

/// Returns the event and result queues.
#[inline(always)]
pub(crate) fn congestion_queues() -> Option<&'static CongestionQueues> {
    // SAFETY: a valid map value; all its fields are atomics and cells.
    CONGESTION.get_ptr(0).map(|p| unsafe { &*p })
}

/// Returns the page with the relation of the card's clock to ours.
#[inline(always)]
pub(crate) fn clock() -> Option<&'static ClockPage> {
    // SAFETY: a valid map value; all its fields are atomics.
    CLOCK.get_ptr(0).map(|p| unsafe { &*p })
}

/// Copies a value that consists of whole 4-byte words, the last word last.
///
/// # Safety
/// Both pointers are valid and aligned to 4 bytes, and any bytes are a valid `T`.
#[inline(always)]
pub(crate) unsafe fn copy_words<T>(from: *const T, to: *mut T) {
    let (from, to) = (from.cast::<u32>(), to.cast::<u32>());
    let mut n = 0;
    while n < size_of::<T>() / 4 {
        // SAFETY: the bound of the loop keeps this inside both values.
        unsafe { to.add(n).write_volatile(from.add(n).read_volatile()) };
        n += 1;
    }
}

/// The shard: its parts are in the maps `NODE`, `WHEEL`, `ROUND_ROBIN` and `CELL_STACK`.
pub(crate) struct Shard;

impl Parts for Shard {
    #[inline(always)]
    fn page(&self) -> Option<&NodePage> {
        node()
    }

    #[inline(always)]
    fn round(&mut self) -> Option<(&NodePage, &mut Scheduler)> {
        let node = node()?;
        let scheduler = ROUND_ROBIN.get_ptr_mut(0)?;
        // SAFETY: a valid map value. Only the engine program uses it, and only one instance of it runs.
        Some((node, unsafe { &mut *scheduler }))
    }

    #[inline(always)]
    fn wheel<'a>(&'a mut self) -> Option<(&'a mut Wheel, impl FnOnce() -> Option<&'a NodePage>)> {
        let wheel = WHEEL.get_ptr_mut(0)?;
        // SAFETY: a valid map value. Only the engine program uses it, and only one instance of it runs.
        Some((unsafe { &mut *wheel }, || self.page()))
    }

    #[inline(always)]
    fn take_cell(&mut self) -> Option<CellId> {
        CELL_STACK.pop().ok().flatten()
    }

    #[inline(always)]
    fn put_cell(&mut self, cell: CellId) -> bool {
        CELL_STACK.push(cell, 0).is_ok()
    }

    #[inline(always)]
    fn wake_thread(&self, slot: u32) {
        /// Wakes the reader, no matter how much it has read so far.
        const FORCE_WAKEUP: u64 = 2;
        let _ = WAKE.output::<u64>(u64::from(slot), FORCE_WAKEUP);
    }
}
