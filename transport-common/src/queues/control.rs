//! What application and kernel tell each other about a queue pair. Each field is written rarely.
//!
//! What the kernel may believe: a command is a wish for the application's own connection; values without a name mean none.
//! The application can overwrite what the kernel writes here. So the kernel reads none of it back, and for the node it is
//! a hint. The word `armed` may have any value: each value that is not 0 costs the kernel at most one notice.

use super::{AtomicU32, AtomicU64};
#[cfg(not(target_arch = "bpf"))]
use bytemuck::Zeroable;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// A command of the application to the engine ([`ControlPage::command`]). The engine ignores values without a name.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command(pub u32);

impl Command {
    /// No command.
    pub const NONE: Self = Self(0);
    /// Complete everything outstanding with `DeadConn`, and close.
    pub const CLOSE: Self = Self(1);
    /// The host function behind the connection is being reset (xLR, D-50): drop new requests, of the peer with a
    /// NACK, and of the application with `LocalXlr`. Another command ends this.
    pub const DROP_REQUESTS: Self = Self(2);
}

/// Command, state and requests for the doorbell of one queue pair: one cache line.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(Zeroable))]
pub struct ControlPage {
    /// Application: see [`Command`]. The engine reads it at the next doorbell.
    pub command: AtomicU32,
    /// Kernel: state of the connection, see [`crate::connection::State`].
    pub state: AtomicU32,
    /// Kernel: 1 while a request of the peer waits for a receive or for a place for its completion, or a dead connection
    /// for places for its last completions. Then the application rings the doorbell after it posts a receive
    /// ([`QueuePair::post_receive`]) or takes completions from a full queue ([`QueuePair::take_completions`]).
    ///
    /// [`QueuePair::post_receive`]: super::QueuePair::post_receive
    /// [`QueuePair::take_completions`]: super::QueuePair::take_completions
    pub receive_wanted: AtomicU32,
    /// Fills the word.
    pub reserved: u32,
    /// Application: not 0 if it may sleep, see [`CompletionQueue::arm`](super::CompletionQueue::arm). The kernel sets it
    /// to 0 when it wakes the application.
    pub armed: AtomicU64,
    /// Fills the cache line.
    pub reserved2: [u32; 10],
}

impl ControlPage {
    /// Withdraws what was asked for on an earlier connection.
    pub(super) fn start(&self) {
        self.command.store(Command::NONE.0, Relaxed);
        self.receive_wanted.store(0, Relaxed);
        self.armed.store(0, Relaxed);
    }

    /// Kernel: returns the application's command.
    #[inline(always)]
    pub fn command(&self) -> Command {
        Command(self.command.load(Relaxed))
    }

    /// Kernel: reports the state of the connection.
    #[inline(always)]
    pub fn set_state(&self, state: u32) {
        self.state.store(state, Release);
    }

    /// Application: returns whether something waits for a receive or a place. The caller has executed a full barrier
    /// after it offered one.
    #[inline(always)]
    pub(super) fn waits(&self) -> bool {
        self.receive_wanted.load(Relaxed) != 0
    }

    /// Kernel: reports whether something waits. The caller executes a full barrier before it looks for the last time.
    #[inline(always)]
    pub(super) fn set_waits(&self, wanted: u32) {
        self.receive_wanted.store(wanted, Release);
    }
}

const _: () = assert!(size_of::<ControlPage>() == 64);
