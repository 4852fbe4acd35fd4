//! [`Platform`](datapath::Platform) over an XDP context and the maps.

use crate::banks;
use crate::cursor::PacketCursor;
use crate::log::tell;
use crate::maps;
use crate::short::{self, SHORT};
use crate::stamp;
use crate::sums::{MAX_COPY, fold_to_word, sum_words};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_xdp_adjust_tail, bpf_xdp_load_bytes, bpf_xdp_store_bytes};
use aya_ebpf::programs::XdpContext;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use transport_common::congestion::histogram::{BUCKETS, bucket_of};
use transport_common::congestion::queues::{
    EVENT_QUEUE_DEPTH, EVENT_QUEUES, RESULT_QUEUE_DEPTH, generation_of,
};
use transport_common::congestion::settings::Placement;
use transport_common::connection::Whole;
use transport_common::counters::Counter;
use transport_common::datapath::{
    self, Atomic, Cells, CongestionQueues, Connections, Frames, HEADER_BYTES, Host, MAX_HEADERS,
    MAX_SUMMED_HEADERS, MIN_CELL_FRAME, Memory, Scratch, Services, UDP_AT,
};
use transport_common::ids::{CellId, WorkPosition};
use transport_common::queues::{QueuePair, REGIONS, Region};
use transport_common::shard::Parts;
use transport_common::shared::AtomicU64;
use transport_common::tape::PREFIX_BYTES;
use transport_common::transaction::Initiator;
use transport_common::units::{Picoseconds, Ticks};
use transport_common::verifier::{opaque, walked_once};

/// One frame and the node's maps. With `STAMPED` the platform asks the driver for the card's receive timestamp.
/// Only a program that is bound to a device may do that.
pub(crate) struct Xdp<const STAMPED: bool = false> {
    ctx: *mut xdp_md,
}

impl Xdp {
    /// Creates a platform that uses the program's clock.
    #[inline(always)]
    pub(crate) fn new(ctx: &XdpContext) -> Self {
        Self { ctx: ctx.ctx }
    }
}

impl Xdp<true> {
    /// Creates a platform that uses the card's receive timestamps.
    #[inline(always)]
    pub(crate) fn stamped(ctx: &XdpContext) -> Self {
        Self { ctx: ctx.ctx }
    }
}

impl<const STAMPED: bool> Xdp<STAMPED> {
    /// Returns the context of the program. It is read from here, because a program that keeps it needs more stack.
    #[inline(always)]
    pub(crate) fn context(&self) -> *mut xdp_md {
        transport_common::verifier::forget(&self.ctx)
    }

    /// Returns `length` if it is 1 to [`MAX_COPY`], so that the verifier sees the bounds.
    #[inline(always)]
    fn length(length: u32) -> Option<u32> {
        let length = opaque(length as u64);
        if length == 0 || length > MAX_COPY { None } else { Some(length as u32) }
    }

    /// Returns the beginning and the end of the frame.
    #[inline(always)]
    fn frame(&self) -> (*mut u8, *const u8) {
        // SAFETY: the kernel passes a valid context to the program.
        unsafe { ((*self.ctx).data as usize as *mut u8, (*self.ctx).data_end as usize as *const u8) }
    }

    #[inline(always)]
    fn load(&self, offset: u32, to: *mut u8, length: u32) -> bool {
        // SAFETY: `to` has space for MAX_COPY bytes. The helper checks the packet's bounds.
        unsafe { bpf_xdp_load_bytes(self.ctx, offset, to.cast(), length) == 0 }
    }

    #[inline(always)]
    fn store(&self, offset: u32, from: *mut u8, length: u32) -> bool {
        // SAFETY: `from` has MAX_COPY bytes. The helper checks the packet's bounds.
        unsafe { bpf_xdp_store_bytes(self.ctx, offset, from.cast(), length) == 0 }
    }

    /// Does the same as [`load`](Self::load), faster for short pieces.
    #[inline(always)]
    fn load_short(&self, offset: u32, to: *mut u8, length: u32) -> bool {
        if length as u64 > SHORT {
            return self.load(offset, to, length);
        }
        let (data, end) = self.frame();
        // SAFETY: `to` has space for MAX_COPY bytes. The bounds are those of the frame.
        unsafe { short::from_packet(data, end, offset, to, length as u64) }
    }

    /// Does the same as [`store`](Self::store), faster for short pieces.
    #[inline(always)]
    fn store_short(&self, offset: u32, from: *mut u8, length: u32) -> bool {
        if length as u64 > SHORT {
            return self.store(offset, from, length);
        }
        let (data, end) = self.frame();
        // SAFETY: `from` has MAX_COPY bytes. The bounds are those of the frame.
        unsafe { short::to_packet(data, end, offset, from, length as u64) }
    }

    /// Returns the number of bytes in the frame.
    #[inline(always)]
    pub(crate) fn frame_length(&self) -> u32 {
        // SAFETY: the kernel passes a valid context to the program.
        unsafe { (*self.ctx).data_end - (*self.ctx).data }
    }

    /// Shortens or extends the frame at its end.
    #[inline(always)]
    fn resize(&mut self, length: u32) -> bool {
        let delta = length as i32 - self.frame_length() as i32;
        // SAFETY: the helper checks the available space of the frame.
        delta == 0 || unsafe { bpf_xdp_adjust_tail(self.ctx, delta) == 0 }
    }

    /// Copies `scratch.header[start..start + length]` to the beginning of the frame.
    #[inline(always)]
    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        let start = opaque(start as u64);
        let length = opaque(length as u64);
        if start > HEADER_BYTES as u64 - MAX_HEADERS as u64 || length == 0 || length > MAX_HEADERS as u64 {
            return false;
        }
        // SAFETY: start + length is inside the buffer by the check above.
        let from = unsafe { s.header.as_ptr().add(start as usize) };
        let (data, end) = self.frame();
        // SAFETY: the header buffer, and the scratch after it, are valid. The bounds are those of the frame.
        unsafe { short::to_packet(data, end, 0, from, length) }
    }

    /// Returns the sum of `length` bytes of the header buffer from the UDP header on.
    #[inline(always)]
    fn sum_headers(s: &Scratch, length: u32) -> u32 {
        let length = opaque(length as u64);
        if length > MAX_SUMMED_HEADERS as u64 {
            return 0;
        }
        // SAFETY: the headers are inside the buffer by the check above, and the bytes after them are inside the scratch.
        fold_to_word(unsafe { short::sum_value(s.header.as_ptr().add(UDP_AT), length & !3) })
    }

    /// Returns the sum of `length` bytes of the node's memory.
    #[inline(always)]
    fn sum_memory(memory_offset: u64, length: u32) -> u32 {
        let Some(length) = Self::length(length) else { return 0 };
        if banks::is_split(memory_offset, length) {
            return banks::sum_split(memory_offset, length);
        }
        banks::at(memory_offset).map_or(0, |from| banks::sum(from, length))
    }

    /// Copies from node memory to the frame.
    #[inline(always)]
    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        let Some(length) = Self::length(length) else { return false };
        if banks::is_split(memory_offset, length) {
            return banks::copy_split::<true>(self.ctx, memory_offset, offset, length);
        }
        let Some(from) = banks::at(memory_offset) else { return false };
        self.store_short(offset, from, length)
    }

    /// Copies from the frame to a cell.
    #[inline(always)]
    fn fill_cell(&mut self, offset: u32, cell: CellId, length: u32) -> bool {
        if length == 0 {
            return true;
        }
        let (Some(to), Some(length)) = (maps::CELLS.get_ptr_mut(cell.index()), Self::length(length)) else {
            return false;
        };
        self.load(offset, to.cast(), length)
    }
}

/// Copies occupancy and admission policy of the event queues to the input of a step, if an engine in user space decides for
/// `slot`.
#[inline(always)]
fn event_queues(s: &mut Scratch, slot: u32) {
    let (Some(queues), Some(locked)) = (maps::congestion_queues(), maps::CONNECTIONS.get_ptr(slot)) else {
        return;
    };
    // SAFETY: a valid map value. Volatile, because the lock is not taken yet: another program may put other settings
    // into force at this time.
    let placement = unsafe { (&raw const (*locked).connection.settings.in_force.placement).read_volatile() };
    if placement != Placement::User as u32 {
        return;
    }
    let to = &mut s.step.input.event_queues;
    // SAFETY: a valid map value. The engine in user space writes it while no connection uses it.
    unsafe { maps::copy_words(queues.admission.as_ptr(), &raw mut to.admission) };
    if to.admission.capacity == 0 {
        return;
    }
    let mut n = 0;
    while n < EVENT_QUEUES {
        let produced = queues.event_producer[n].load(Relaxed);
        let occupancy = produced.wrapping_sub(queues.event_consumer[n].load(Relaxed));
        // A consumer counter that makes no sense counts as a full queue.
        to.occupancy[n] = if occupancy > u64::from(u32::MAX) { u32::MAX } else { occupancy as u32 };
        n += 1;
    }
}

/// Returns whether more work requests wait than one service can take, as far as this is visible without the lock.
#[inline(always)]
fn is_backlogged(slot: u32) -> bool {
    let (Some(locked), Some(queues)) = (maps::CONNECTIONS.get_ptr(slot), maps::QUEUE_PAIRS.get_ptr(slot))
    else {
        return false;
    };
    // SAFETY: valid map values. Volatile, because others write them. Nothing requires that the values belong
    // together.
    let (next, known, fruitless) = unsafe {
        let connection = &raw const (*locked).connection.connection;
        (
            (&raw const (*connection).initiator.next).read_volatile(),
            (&raw const (*connection).initiator.known).read_volatile(),
            (&raw const (*connection).service.fruitless).read_volatile(),
        )
    };
    // SAFETY: a valid map value of atomics and cells.
    let submitted = || unsafe { (*queues).work_queue().look(WorkPosition::of(next)) };
    Initiator::is_backlogged(next.0, known.0, fruitless.into(), submitted)
}

/// A connection whose lock is held.
pub(crate) struct HeldConnection {
    locked: *mut maps::Locked,
    queues: *const QueuePair,
}

impl datapath::Locked for HeldConnection {
    type Queues = QueuePair;

    #[inline(always)]
    fn parts(&mut self) -> (Whole<'_>, &QueuePair) {
        // SAFETY: valid map values. While the lock is held, nothing else refers to the connection.
        unsafe { ((*self.locked).connection.whole(), &*self.queues) }
    }
}

impl<const STAMPED: bool> Host for Xdp<STAMPED> {
    #[inline(always)]
    fn now(&mut self) -> Picoseconds {
        // SAFETY: a helper without arguments.
        Picoseconds::from_nanos(unsafe { bpf_ktime_get_ns() })
    }

    #[inline(always)]
    fn owns_ipv4(&mut self, mac: u64, address: u32) -> bool {
        let node = maps::NODE_CONFIG.load();
        node.mac_word == mac && node.ipv4 == address
    }

    #[inline(always)]
    fn owns_ipv6(&mut self, mac: u64, address: [u64; 2]) -> bool {
        let node = maps::NODE_CONFIG.load();
        node.mac_word == mac && node.ipv6 == address
    }

    #[inline(always)]
    fn count(&mut self, index: u32) {
        if (Counter::DropEthernetTruncated as u32..=Counter::DropPullDataUnknown as u32).contains(&index) {
            tell!(info, &XdpContext::new(self.ctx), "packet dropped, counter {}", index);
        }
        if let Some(counter) = maps::COUNTERS.get_ptr_mut(index) {
            // SAFETY: this CPU's own value.
            unsafe { *counter += 1 };
        }
    }

    #[inline(always)]
    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        if !STAMPED {
            return now;
        }
        let (arrival, counter) = stamp::arrival(self.ctx, now);
        self.raise(counter);
        arrival
    }

    #[inline(always)]
    fn observe(&mut self, s: &mut Scratch, slot: u32, events: bool) {
        s.step.input.cells_in_use = maps::Shard.cells_in_use();
        // XDP reports no receive buffer.
        s.step.input.rx_buffer_level = 0;
        if events {
            event_queues(s, slot);
        }
    }
}

walked_once! {
    /// Does the work of [`Frames::build`].
    fn build(ctx: &mut xdp_md, s: &mut Scratch) -> bool {
        datapath::build(&mut Xdp::<false> { ctx }, s)
    }
}

impl<const STAMPED: bool> Frames for Xdp<STAMPED> {
    type Cursor = PacketCursor;

    #[inline(always)]
    fn build(&mut self, s: &mut Scratch) -> bool {
        // SAFETY: the kernel passes a valid context to the program.
        build(unsafe { &mut *self.context() }, s)
    }

    #[inline(always)]
    fn cursor(&mut self) -> PacketCursor {
        // SAFETY: the kernel passes a valid context to the program.
        unsafe { PacketCursor::new((*self.ctx).data as usize, (*self.ctx).data_end as usize) }
    }

    #[inline(always)]
    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        let length = opaque(self.frame_length() as u64);
        let length = if length > PREFIX_BYTES as u64 { PREFIX_BYTES as u64 } else { length };
        // Two checks that the compiler cannot make one of: it would compare length - 1, and the verifier of Linux 6.16 then
        // takes the length itself for one less, and 0 for possible.
        let length = opaque(length);
        if length == 0 {
            return;
        }
        let length = opaque(length);
        if length <= PREFIX_BYTES as u64 {
            self.load(0, to.as_mut_ptr(), length as u32);
        }
    }

    #[inline(always)]
    fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        let length = Self::length(length)?;
        if length as u64 <= SHORT {
            let (data, end) = self.frame();
            // SAFETY: the bounds are those of the frame.
            return unsafe { short::sum_packet(data, end, offset, length as u64) }.map(fold_to_word);
        }
        let staging = s.staging.as_mut_ptr();
        if !self.load(offset, staging, length) {
            return None;
        }
        // SAFETY: length is at most MAX_COPY. The buffer has spare bytes after that.
        unsafe { staging.add(length as usize).cast::<u32>().write_unaligned(0) };
        Some(sum_words(staging, (length as u64 + 3) & !3, 0))
    }

    #[inline(always)]
    fn sum_packet(&mut self, s: &Scratch, headers: u32, length: u32) -> u64 {
        let sum = Self::sum_headers(s, headers) as u64;
        if length == 0 {
            return sum;
        }
        sum + Self::sum_memory(s.step.output.packet.ulp.memory_offset, length) as u64
    }

    #[inline(always)]
    fn put_frame(&mut self, s: &Scratch, start: u32, headers: u32, length: u32) -> bool {
        self.resize(headers + length)
            && self.store_header(s, start, headers)
            && (length == 0 || self.memory_to_frame(s.step.output.packet.ulp.memory_offset, headers, length))
    }
}

impl<const STAMPED: bool> Memory for Xdp<STAMPED> {
    #[inline(always)]
    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        let Some(length) = Self::length(length) else { return false };
        if banks::is_split(memory_offset, length) {
            return banks::copy_split::<false>(self.ctx, memory_offset, offset, length);
        }
        let Some(to) = banks::at(memory_offset) else { return false };
        self.load_short(offset, to, length)
    }

    #[inline(always)]
    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        if banks::is_split(memory_offset, size_of::<u64>() as u32) {
            return banks::store_split(memory_offset, value);
        }
        let Some(to) = banks::at(memory_offset) else { return false };
        // SAFETY: in bounds. The application may have chosen any alignment.
        unsafe { to.cast::<u64>().write_unaligned(value) };
        true
    }

    #[inline(always)]
    fn atomic(&mut self, kind: Atomic, memory_offset: u64, value: u64, compare: u64) -> u64 {
        let Some(at) = banks::at(memory_offset & !7) else { return 0 };
        // SAFETY: in bounds and aligned.
        let word = unsafe { AtomicU64::from_ptr(at.cast()) };
        match kind {
            Atomic::CompareSwap => {
                let (Ok(old) | Err(old)) = word.compare_exchange(compare, value, SeqCst, SeqCst);
                old
            }
            Atomic::FetchAdd => word.fetch_add(value, SeqCst),
        }
    }

    #[inline(always)]
    fn region(&mut self, rkey: u32) -> Region {
        match maps::REGIONS.get(rkey & (REGIONS as u32 - 1)) {
            Some(region) => (*region).within(maps::NODE_CONFIG.load().memory),
            None => Region::default(),
        }
    }
}

impl<const STAMPED: bool> Cells for Xdp<STAMPED> {
    #[inline(always)]
    fn frame_to_cell(&mut self, offset: u32, length: u32) -> CellId {
        let cell = maps::Shard.allocate_cell();
        if cell.is_none() || self.fill_cell(offset, cell, length) {
            return cell;
        }
        maps::Shard.free_cell(cell);
        CellId::NONE
    }

    #[inline(always)]
    fn free_cell(&mut self, cell: CellId) {
        maps::Shard.free_cell(cell);
    }

    #[inline(always)]
    fn cell_to_frame(&mut self, cell: CellId, length: u32) -> bool {
        if !self.resize(if length < MIN_CELL_FRAME { MIN_CELL_FRAME } else { length }) {
            return false;
        }
        if length == 0 {
            return true;
        }
        let (Some(from), Some(length)) = (maps::CELLS.get_ptr_mut(cell.index()), Self::length(length)) else {
            return false;
        };
        self.store(0, from.cast(), length)
    }
}

impl<const STAMPED: bool> Connections for Xdp<STAMPED> {
    type Locked = HeldConnection;

    #[inline(always)]
    fn lock(&mut self, slot: u32) -> Option<HeldConnection> {
        let locked = maps::CONNECTIONS.get_ptr_mut(slot)?;
        let queues = maps::QUEUE_PAIRS.get_ptr(slot)?;
        // SAFETY: a lock in a map value.
        if unsafe { (*locked).lock.acquire() } {
            Some(HeldConnection { locked, queues })
        } else {
            self.raise(Counter::LockTimeout);
            tell!(warn, &XdpContext::new(self.ctx), "slot {}: its lock could not be taken", slot);
            None
        }
    }

    #[inline(always)]
    fn unlock(&mut self, connection: HeldConnection) {
        // SAFETY: `lock` returned the connection, and took its lock.
        unsafe { (*connection.locked).lock.release() };
    }
}

impl<const STAMPED: bool> CongestionQueues for Xdp<STAMPED> {
    #[inline(never)]
    fn publish_event(&mut self, s: &mut Scratch) {
        let Some(queues) = maps::congestion_queues() else { return };
        let queue = s.step.output.event.event_queue_select as usize & (EVENT_QUEUES - 1);
        let number = queues.event_producer[queue].fetch_add(1, SeqCst);
        s.step.output.event.generation = generation_of(number);
        s.step.output.event.encode(&mut s.entry);
        let place = queues.events[queue][number as usize & (EVENT_QUEUE_DEPTH - 1)].as_ptr();
        // The last word holds the poll bit and is written last.
        // SAFETY: a valid map value. The admission policy keeps the consumer out of it.
        unsafe { maps::copy_words(&raw const s.entry, place) };
    }

    #[inline(always)]
    fn next_result(&mut self, s: &mut Scratch) -> bool {
        let Some(queues) = maps::congestion_queues() else { return false };
        let taken = queues.result_consumer.load(Relaxed);
        let waiting = queues.result_producer.load(Acquire).wrapping_sub(taken);
        if waiting == 0 || waiting > RESULT_QUEUE_DEPTH as u64 {
            return false;
        }
        let place = queues.results[taken as usize & (RESULT_QUEUE_DEPTH - 1)].as_ptr();
        // SAFETY: a valid map value. If its writer changes it meanwhile, the checks at the application of the
        // result catch that.
        unsafe { maps::copy_words(place, &raw mut s.entry) };
        queues.result_consumer.store(taken + 1, Release);
        s.step.input.outcome.decode(&s.entry);
        true
    }

    #[inline(never)]
    fn record_delays(&mut self, s: &Scratch) {
        let Some(histogram) = maps::DELAYS.get_ptr_mut(0) else { return };
        let delays = s.step.output.event.delays();
        let count = |n: usize, delay: Ticks| {
            let bucket = opaque(bucket_of(delay) as u64) as usize;
            if bucket < BUCKETS {
                // SAFETY: this CPU's own value.
                unsafe { (*histogram)[n][bucket] += 1 };
            }
        };
        count(0, delays.full);
        count(1, delays.fabric);
        count(2, delays.forward);
        count(3, delays.reverse);
    }
}

impl<const STAMPED: bool> Services for Xdp<STAMPED> {
    #[inline(always)]
    fn notify(&mut self, slot: u32) {
        let Some(queues) = maps::QUEUE_PAIRS.get_ptr(slot) else { return };
        // SAFETY: a valid map value of atomics and cells.
        if unsafe { (*queues).completion_queue().takes_notice() } {
            maps::tell_sleeper(slot);
        }
    }

    #[inline(always)]
    fn wake(&mut self, slot: u32, deadline: Option<Picoseconds>) {
        match deadline {
            Some(deadline) => maps::Shard.wake_by(slot, deadline),
            None => maps::Shard.wake(slot),
        }
    }

    #[inline(always)]
    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        maps::Shard.expired(now)
    }

    #[inline(always)]
    fn ready(&mut self) -> Option<u32> {
        maps::Shard.next_ready()
    }

    #[inline(always)]
    fn answer(&mut self, slot: u32) {
        if !is_backlogged(slot) {
            maps::Shard.answer(slot);
        }
    }

    #[inline(always)]
    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        maps::Shard.file(slot, now, ticks);
    }
}
