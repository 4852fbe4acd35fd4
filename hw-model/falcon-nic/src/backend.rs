//! The platform behind a run: the live host memory, or a recorded trace.

use std::cell::RefCell;
use std::rc::Rc;

use host_nic::{FrameAtHand, FrameCursor, HostLocked, HostNic};
use transport_common::datapath::{
    Cells, CongestionQueues, Connections, Frames, Host, Memory, Platform, Scratch, Services,
};
use transport_common::queues::Region;
use transport_common::tape::PREFIX_BYTES;
use transport_common::units::{Picoseconds, Ticks};

/// The platform of one run. The card decides the cycles in which its functions are called.
pub trait Backend: Platform + 'static {
    /// Sets the time of the cycle in which the next functions are called, in picoseconds. A backend with recorded
    /// clock readings does not need it.
    fn set_time(&mut self, now: Picoseconds);

    /// Returns the number of steps that the connection of `slot` must have made since the reset of the card before
    /// the run's next step. `None` means that the step can come as soon as the connection is free.
    fn step_after(&self, slot: u32) -> Option<u64> {
        let _ = slot;
        None
    }
}

/// A frame on a card whose memory other runs use too.
///
/// It borrows the memory for one call at a time, and never while the run waits for a block.
#[derive(Clone)]
pub struct LiveFrame {
    card: Rc<RefCell<HostNic>>,
    /// The frame.
    pub frame: FrameAtHand,
}

impl LiveFrame {
    /// Creates the backend for a frame on a card.
    #[must_use]
    pub const fn new(card: Rc<RefCell<HostNic>>, frame: FrameAtHand) -> Self {
        Self { card, frame }
    }
}

impl Backend for LiveFrame {
    fn set_time(&mut self, now: Picoseconds) {
        self.card.borrow_mut().set_time(now);
    }
}

/// Forwards the calls to the host's platform.
macro_rules! on_the_host {
    ($(fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $of)*) $(-> $result)? {
            self.card.borrow_mut().platform(&mut self.frame).$name($($argument),*)
        })*
    };
}

impl Host for LiveFrame {
    on_the_host! {
        fn now(&mut self) -> Picoseconds;
        fn count(&mut self, index: u32);
        fn arrival(&mut self, now: Picoseconds) -> Picoseconds;
    }

    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        self.card.borrow_mut().platform(&mut FrameAtHand::default()).owns_ipv4(mac, address)
    }

    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        self.card.borrow_mut().platform(&mut FrameAtHand::default()).owns_ipv6(mac, address)
    }

    fn rx_buffer_level(&self) -> u8 {
        self.card.borrow_mut().platform(&mut FrameAtHand::default()).rx_buffer_level()
    }
}

impl Frames for LiveFrame {
    type Cursor = FrameCursor;

    on_the_host! {
        fn cursor(&mut self) -> FrameCursor;
        fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]);
        fn resize(&mut self, length: u32) -> bool;
        fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool;
        fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32>;
        fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32;
    }

    fn frame_length(&self) -> u32 {
        self.frame.bytes.len() as u32
    }
}

impl Memory for LiveFrame {
    on_the_host! {
        fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32;
        fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool;
        fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool;
        fn store_value(&mut self, memory_offset: u64, value: u64) -> bool;
        fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64;
        fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64;
        fn region(&mut self, rkey: u32) -> Region;
    }
}

impl Cells for LiveFrame {
    on_the_host! {
        fn allocate_cell(&mut self) -> u32;
        fn free_cell(&mut self, cell: u32);
        fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool;
        fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool;
    }

    fn cells_in_use(&self) -> u32 {
        self.card.borrow().cells_in_use() as u32
    }
}

impl Connections for LiveFrame {
    type Locked = HostLocked;

    on_the_host! {
        fn lock(&mut self, slot: u32) -> Option<HostLocked>;
        fn unlock(&mut self, connection: HostLocked);
    }
}

impl CongestionQueues for LiveFrame {
    on_the_host! {
        fn event_queues(&mut self, s: &mut Scratch, slot: u32);
        fn publish_event(&mut self, s: &mut Scratch);
        fn next_result(&mut self, s: &mut Scratch) -> bool;
        fn record_delays(&mut self, s: &Scratch);
    }
}

impl Services for LiveFrame {
    on_the_host! {
        fn wake(&mut self, slot: u32);
        fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
        fn expired(&mut self, now: Picoseconds) -> Option<u32>;
        fn ready(&mut self) -> Option<u32>;
        fn answer(&mut self, slot: u32);
        fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
    }

    fn is_backlogged(&self, slot: u32) -> bool {
        self.card.borrow_mut().platform(&mut FrameAtHand::default()).is_backlogged(slot)
    }
}
