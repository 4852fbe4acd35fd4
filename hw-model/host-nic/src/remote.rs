//! The platform of a frame whose run does not have the card itself.

use transport_common::connection::Snapshot;
use transport_common::datapath::{
    self, Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Scratch, Services,
};
use transport_common::queues::Region;
use transport_common::tape::PREFIX_BYTES;
use transport_common::units::{Picoseconds, Ticks};

use super::{FrameCursor, HostLocked, HostPlatform};

/// A way to a card and a frame, for one call at a time.
pub trait Reach {
    /// Makes a call.
    fn reach<T>(&mut self, call: impl FnOnce(&mut HostPlatform<'_>) -> T) -> T;

    /// Makes a call that reads a register and does not use the frame.
    fn read<T>(&self, call: impl FnOnce(&HostPlatform<'_>) -> T) -> T;

    /// Returns the number of bytes of the frame.
    fn frame_length(&self) -> u32;

    /// Takes note that the run now holds the lock of this connection.
    fn locked(&mut self, slot: u32, entry: &Snapshot) {
        let _ = (slot, entry);
    }

    /// Takes note that the run is about to release the lock of this connection.
    fn unlocks(&mut self, entry: &Snapshot) {
        let _ = entry;
    }

    /// Takes note that the run holds no lock any more.
    fn unlocked(&mut self) {}
}

/// A platform behind a [`Reach`].
#[derive(Clone, Debug)]
pub struct Remote<R>(pub R);

/// Forwards the calls to the card's platform.
macro_rules! on_the_card {
    ($(fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $of)*) $(-> $result)? {
            self.0.reach(|platform| platform.$name($($argument),*))
        })*
    };
}

impl<R: Reach> Host for Remote<R> {
    on_the_card! {
        fn now(&mut self) -> Picoseconds;
        fn count(&mut self, index: u32);
        fn arrival(&mut self, now: Picoseconds) -> Picoseconds;
    }

    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        self.0.read(|platform| platform.owns_ipv4(mac, address))
    }

    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        self.0.read(|platform| platform.owns_ipv6(mac, address))
    }

    fn rx_buffer_level(&self) -> u8 {
        self.0.read(|platform| platform.rx_buffer_level())
    }
}

impl<R: Reach> Frames for Remote<R> {
    type Cursor = FrameCursor;

    fn build(&mut self, s: &mut Scratch) -> bool {
        datapath::build(self, s)
    }

    on_the_card! {
        fn cursor(&mut self) -> FrameCursor;
        fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]);
        fn resize(&mut self, length: u32) -> bool;
        fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool;
        fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32>;
        fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32;
    }

    fn frame_length(&self) -> u32 {
        self.0.frame_length()
    }
}

impl<R: Reach> Memory for Remote<R> {
    on_the_card! {
        fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32;
        fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool;
        fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool;
        fn store_value(&mut self, memory_offset: u64, value: u64) -> bool;
        fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64;
        fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64;
        fn region(&mut self, rkey: u32) -> Region;
    }
}

impl<R: Reach> Cells for Remote<R> {
    on_the_card! {
        fn allocate_cell(&mut self) -> u32;
        fn free_cell(&mut self, cell: u32);
        fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool;
        fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool;
    }

    fn cells_in_use(&self) -> u32 {
        self.0.read(|platform| platform.cells_in_use())
    }
}

impl<R: Reach> Connections for Remote<R> {
    type Locked = HostLocked;

    fn lock(&mut self, slot: u32) -> Option<HostLocked> {
        let mut locked = self.0.reach(|platform| platform.lock(slot));
        if let Some(connection) = &mut locked {
            self.0.locked(slot, connection.parts().0.inspect());
        }
        locked
    }

    fn unlock(&mut self, mut connection: HostLocked) {
        self.0.unlocks(connection.parts().0.inspect());
        self.0.reach(|platform| platform.unlock(connection));
        self.0.unlocked();
    }
}

impl<R: Reach> CongestionQueues for Remote<R> {
    on_the_card! {
        fn event_queues(&mut self, s: &mut Scratch, slot: u32);
        fn publish_event(&mut self, s: &mut Scratch);
        fn next_result(&mut self, s: &mut Scratch) -> bool;
        fn record_delays(&mut self, s: &Scratch);
    }
}

impl<R: Reach> Services for Remote<R> {
    on_the_card! {
        fn wake(&mut self, slot: u32);
        fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
        fn expired(&mut self, now: Picoseconds) -> Option<u32>;
        fn ready(&mut self) -> Option<u32>;
        fn answer(&mut self, slot: u32);
        fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
    }

    fn is_backlogged(&self, slot: u32) -> bool {
        self.0.read(|platform| platform.is_backlogged(slot))
    }
}
