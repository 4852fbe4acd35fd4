//! The node page: doorbells, and how a sleeping engine is woken.
//!
//! Whoever has work for the engine adds the connection to [`NodePage::ready`] and then looks whether the engine
//! sleeps. The engine announces its sleep and then looks for requests for the last time. So at least one of the two sees the
//! write of the other. Between the write and the look, each of them needs a full barrier. `tests/threads.rs` tries all
//! orders of these accesses.

use super::ReadySet;
use crate::queues::CONNECTIONS;
use crate::shared::{AtomicU64, fence};
use crate::units::{PicosecondSpan, Picoseconds};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How late a sleeping engine may serve a deadline, 200 us. This is below every retransmission timeout in
/// use, and far above the cost of waking a thread.
pub const SLEEPERS_SLACK: PicosecondSpan = PicosecondSpan::from_nanos(200_000);

/// Words of the doorbells.
pub const READY_WORDS: usize = CONNECTIONS / 64;

/// The engine looks at the timing wheel in one of so many frames, a power of two.
const FRAMES_PER_LOOK: u64 = 8;

/// Returns the number of words that fill the last cache line of `bytes`.
const fn words_to_fill(bytes: usize) -> usize {
    (bytes.next_multiple_of(64) - bytes) / 8
}

/// The node page: doorbells and the state of the engine, shared by the application, the engine and the wire
/// program. A field that one side writes often does not share a cache line with a field that another side reads
/// often.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct NodePage {
    /// The connections that have rung their doorbells, and that the engine must serve.
    pub ready: ReadySet<READY_WORDS>,
    /// Fills the doorbells' cache line.
    pub reserved: [u64; words_to_fill(size_of::<ReadySet<READY_WORDS>>())],
    /// Engine thread: 1 while it sleeps and must be woken. The side that wakes it writes 0.
    pub engine_sleeping: AtomicU64,
    /// Engine thread: when it wakes up by itself, in picoseconds of the monotonic clock; 0 means never.
    pub planned_wake: AtomicU64,
    /// Number of times that the wire program has woken the engine thread.
    pub wakeups: AtomicU64,
    /// Fills the cache line of the engine thread.
    pub reserved2: [u64; 5],
    /// Engine program: number of frames without work since the last frame with work.
    pub idle_frames: AtomicU64,
    /// Engine program: total number of frames that it was given.
    pub frames: AtomicU64,
    /// Engine program: next deadline of the timing wheel, in picoseconds of the clock, which wraps; 0 means none.
    pub next_deadline: AtomicU64,
    /// Engine program: total number of frames with work.
    pub useful_frames: AtomicU64,
    /// Fills the cache line of the engine program.
    pub reserved3: [u64; 4],
    /// Receive cells in use.
    pub cells_in_use: AtomicU64,
}

const _: () = {
    let engine = core::mem::offset_of!(NodePage, engine_sleeping);
    assert!(engine.is_multiple_of(64), "cache lines after those of the doorbells");
    assert!(core::mem::offset_of!(NodePage, idle_frames) == engine + 64);
    assert!(core::mem::offset_of!(NodePage, cells_in_use) == engine + 128);
    assert!(ReadySet::<READY_WORDS>::SLOTS as usize == CONNECTIONS);
};

impl NodePage {
    /// Asks the engine to serve `slot`, for work that was posted under the connection's lock or before a full barrier.
    /// Returns true if the engine sleeps and the caller must wake it. Of several callers, exactly one wakes it.
    #[inline(always)]
    #[must_use]
    pub fn ring(&self, slot: u32) -> bool {
        self.set_ready(slot);
        self.engine_sleeping.load(SeqCst) != 0 && self.must_wake()
    }

    /// Like [`Self::ring`], for work that was posted by plain stores.
    #[inline(always)]
    #[must_use]
    pub fn ring_posted(&self, slot: u32) -> bool {
        // The posted work must be visible before the bit is read: the engine clears the bit and then looks for
        // posted work.
        fence(SeqCst);
        self.ring(slot)
    }

    /// Asks the engine to serve `slot` by `deadline`. A sleeping engine is not woken if it will wake up by then or not
    /// much later. Returns true if the caller must wake it.
    #[inline(always)]
    #[must_use]
    pub fn ring_by(&self, slot: u32, deadline: Picoseconds) -> bool {
        self.set_ready(slot);
        if self.engine_sleeping.load(SeqCst) == 0 {
            return false;
        }
        let planned = self.planned_wake.load(Relaxed);
        let planned = Picoseconds(planned);
        (planned.0 == 0 || planned.is_later_than(deadline.after(SLEEPERS_SLACK))) && self.must_wake()
    }

    /// Adds `slot` to the connections that ask for a service. A bit that is already set is not written. The engine clears the
    /// bit before it takes the connection's lock, so a program that takes the lock after the engine sees the bit cleared. A
    /// program that released the lock before, which is a full barrier, and sees the bit set, is seen by the engine, which
    /// takes the lock after it has cleared the bit.
    #[inline(always)]
    pub fn set_ready(&self, slot: u32) {
        self.ready.set(slot);
    }

    /// Withdraws the request of `slot` for a service. The engine does so before it looks for the slot's work.
    #[inline(always)]
    pub fn clear_ready(&self, slot: u32) {
        self.ready.clear(slot);
    }

    /// Announces that the engine sleeps until `planned_wake` of the clock, which wraps; 0 means without a limit. Then looks
    /// for the last time: returns false if a doorbell has rung, and the engine must not wait.
    /// [`Self::end_sleep`] follows in both cases.
    #[must_use]
    pub fn begin_sleep(&self, planned_wake: Picoseconds) -> bool {
        self.planned_wake.store(planned_wake.0, SeqCst);
        self.engine_sleeping.store(1, SeqCst);
        self.ready.is_empty()
    }

    /// Announces that the engine is awake.
    pub fn end_sleep(&self) {
        self.engine_sleeping.store(0, SeqCst);
    }

    /// Returns whether the caller is the one that wakes the engine.
    #[inline(always)]
    fn must_wake(&self) -> bool {
        self.engine_sleeping.compare_exchange(1, 0, SeqCst, SeqCst).is_ok()
    }

    /// Counts a frame of the engine. Returns whether the engine looks at the timing wheel in it. Only the engine may.
    #[inline(always)]
    #[must_use]
    pub fn begin_frame(&self) -> bool {
        let frame = self.frames.load(Relaxed).wrapping_add(1);
        self.frames.store(frame, Relaxed);
        frame & (FRAMES_PER_LOOK - 1) == 0
    }

    /// Counts consecutive frames without work, and frames with work. Only the engine may.
    #[inline(always)]
    pub fn end_frame(&self, idle: bool) {
        if idle {
            self.idle_frames.store(self.idle_frames.load(Relaxed).wrapping_add(1), Relaxed);
        } else {
            self.idle_frames.store(0, Relaxed);
            self.useful_frames.store(self.useful_frames.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }
}
