//! The platform of a frame whose run does not have the card itself.

use transport_common::connection::Snapshot;
use transport_common::datapath::{
    Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Services,
};

use super::{FrameCursor, HostLocked, HostPlatform};

/// A way to a card and a frame, for one call at a time.
pub trait Reach {
    /// Makes a call.
    fn reach<T>(&mut self, call: impl FnOnce(&mut HostPlatform<'_>) -> T) -> T;

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

/// Passes the calls of the list on to the card's platform.
macro_rules! on_the_card {
    ($(
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($note:tt)*
            }
        )* }
    )*) => { $(
        impl<R: Reach> $trait for Remote<R> {
            associated! { $trait }
            $(fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? {
                self.0.reach(|platform| platform.$name($($argument),*))
            })*
        }
    )* };
}

/// What the traits have in addition to the calls of the list.
macro_rules! associated {
    (Frames) => {
        type Cursor = FrameCursor;

        fn build(&mut self, s: &mut transport_common::datapath::Scratch) -> bool {
            transport_common::datapath::build(self, s)
        }
    };
    ($other:ident) => {};
}

transport_common::platform_calls! { on_the_card }

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
