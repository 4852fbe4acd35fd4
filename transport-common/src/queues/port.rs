//! What a step of the connection reads from its queues and writes to them: the narrow port to memory that others
//! change at any time.

use super::Command;
use super::{
    COMPLETION_QUEUE_DEPTH, Completion, QueuePair, RECEIVE_QUEUE_DEPTH, ReceiveRequest, SEND_QUEUE_DEPTH,
    WorkRequest,
};
use crate::congestion::settings::Settings;
use crate::ids::Rsn;
use crate::shared::AtomicU32;
use crate::ulp::rdma::Verb;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The queues of one connection as its steps see them. Everything the application writes is untrusted, and two
/// readings may differ.
pub trait Queues {
    /// Runs a large part of a step in place. On the BPF target each call costs as much as twenty instructions on a CPU
    /// whose returns are guarded, but where queues themselves need much of its stack it has to be a function of its own.
    #[inline(always)]
    fn in_place<R>(part: impl FnOnce() -> R) -> R {
        part()
    }

    /// RSN behind the newest posted send.
    fn send_producer(&self) -> u32;
    /// Fetches a posted send from the application's cache.
    fn touch(&self, rsn: Rsn);
    /// Opcode of a posted send.
    fn opcode(&self, rsn: Rsn) -> Verb;
    /// The application's name for a posted send.
    fn wr_id(&self, rsn: Rsn) -> u64;
    /// Reads a posted send once, into `out`.
    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest);
    /// Number of receives posted.
    fn receive_producer(&self) -> u32;
    /// Reads a posted receive once.
    fn receive_request(&self, index: u32) -> ReceiveRequest;
    /// What the application asks for, see [`Command`](super::Command).
    fn command(&self) -> Command;
    /// Whether other settings of congestion control wait to be put into force.
    fn has_new_settings(&self) -> bool;
    /// Puts the newest settings into force.
    fn take_settings(&self);
    /// Congestion control in force.
    fn settings(&self) -> &Settings;

    /// Tells the application the state of the connection.
    fn set_state(&self, state: u32);
    /// Gives the posted sends below `rsn` back.
    fn set_send_consumer(&self, rsn: Rsn);
    /// Gives the first `count` posted receives back.
    fn set_receive_consumer(&self, count: u32);
    /// Tells the application whether a request of the peer waits for a receive: who posts one then rings the doorbell.
    fn set_receive_wanted(&self, wanted: u32);
    /// Appends a completion; false when the application left no room. Call under the connection's lock only.
    fn complete(&self, completion: Completion) -> bool;
}

impl Queues for QueuePair {
    #[inline(always)]
    fn send_producer(&self) -> u32 {
        self.send_producer.load(Acquire)
    }

    #[inline(always)]
    fn touch(&self, rsn: Rsn) {
        let _ = self.opcode(rsn);
    }

    #[inline(always)]
    fn opcode(&self, rsn: Rsn) -> Verb {
        let slot = self.send[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)].as_ptr();
        // SAFETY: a field of a valid entry; volatile because the application may write it.
        unsafe { (&raw const (*slot).opcode).read_volatile() }
    }

    #[inline(always)]
    fn wr_id(&self, rsn: Rsn) -> u64 {
        let slot = self.send[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)].as_ptr();
        // SAFETY: a field of a valid entry; volatile because the application may write it.
        unsafe { (&raw const (*slot).wr_id).read_volatile() }
    }

    #[inline(always)]
    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest) {
        *out = self.send[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)].load();
    }

    #[inline(always)]
    fn receive_producer(&self) -> u32 {
        self.receive_producer.load(Acquire)
    }

    #[inline(always)]
    fn receive_request(&self, index: u32) -> ReceiveRequest {
        self.receive[index as usize & (RECEIVE_QUEUE_DEPTH - 1)].load()
    }

    #[inline(always)]
    fn command(&self) -> Command {
        Command(self.command.load(Relaxed))
    }

    #[inline(always)]
    fn has_new_settings(&self) -> bool {
        self.settings_version.load(Relaxed) != self.settings_applied.load(Relaxed)
    }

    #[inline(always)]
    fn take_settings(&self) {
        self.settings_applied.store(self.settings_version.load(Acquire), Release);
    }

    #[inline(always)]
    fn settings(&self) -> &Settings {
        let applied = self.settings_applied.load(Relaxed) as usize & 1;
        // SAFETY: the cell is valid plain data. The node writes the other one, by the contract of the field; if it
        // did not, numbers would be wrong, and results are made legal before they are used.
        unsafe { &*self.settings[applied].as_ptr() }
    }

    #[inline(always)]
    fn set_state(&self, state: u32) {
        self.state.store(state, Release);
    }

    #[inline(always)]
    fn set_send_consumer(&self, rsn: Rsn) {
        self.send_consumer.store(rsn.0, Release);
    }

    #[inline(always)]
    fn set_receive_consumer(&self, count: u32) {
        self.receive_consumer.store(count, Release);
    }

    #[inline(always)]
    fn set_receive_wanted(&self, wanted: u32) {
        self.receive_wanted.store(wanted, Release);
    }

    #[inline(always)]
    fn complete(&self, completion: Completion) -> bool {
        let producer = self.completion_producer.load(Relaxed);
        let consumer = self.completion_consumer.load(Relaxed);
        if producer.wrapping_sub(consumer) >= COMPLETION_QUEUE_DEPTH as u32 {
            return false;
        }
        let slot = &self.completions[producer as usize & (COMPLETION_QUEUE_DEPTH - 1)];
        let number = producer.wrapping_add(1);
        slot.store(completion);
        // SAFETY: a field of a valid entry.
        unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).number) }.store(number, Release);
        self.completion_producer.store(number, Release);
        true
    }
}
