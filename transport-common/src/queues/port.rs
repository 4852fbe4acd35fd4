//! What a step of the connection reads from its queues and writes to them. This is a narrow interface, because
//! other processes may change the memory at any time.

use super::Command;
use super::{
    COMPLETION_QUEUE_DEPTH, Completion, QueuePair, RECEIVE_QUEUE_DEPTH, ReceiveRequest, SEND_QUEUE_DEPTH,
    WorkRequest,
};
use crate::congestion::settings::Settings;
use crate::ids::Rsn;
use crate::shared::{AtomicU32, fence};
use crate::ulp::{Readiness, Verb};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The queues of one connection as its steps see them. Everything that the application writes is untrusted, and
/// two reads of the same value may differ.
pub trait Queues {
    /// Runs a large part of a step inline. On the BPF target, each call costs as much as twenty instructions on a
    /// CPU whose returns are guarded. But if the queues themselves need much of the stack, the part must be a
    /// function of its own.
    #[inline(always)]
    fn in_place<R>(part: impl FnOnce() -> R) -> R {
        part()
    }

    /// Returns the queues in the application's page, if these are them, and not something in front of them. What works
    /// on those can be a function that the verifier walks once.
    #[inline(always)]
    fn page(&self) -> Option<&QueuePair> {
        None
    }

    /// Returns the RSN after the newest posted send.
    fn send_producer(&self) -> u32;
    /// Prefetches a posted send from the application's cache.
    fn touch(&self, rsn: Rsn);
    /// Returns the opcode of a posted send.
    fn opcode(&self, rsn: Rsn) -> Verb;
    /// Returns the application's identifier of a posted send.
    fn wr_id(&self, rsn: Rsn) -> u64;
    /// Reads a posted send once, into `out`.
    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest);
    /// Returns whether a message may use the posted receive after the first `used`. The caller must hold the
    /// connection's lock. Until it calls [`Self::complete`], the completion keeps its place.
    fn readiness(&self, used: u32) -> Readiness;
    /// Reads a posted receive once.
    fn receive_request(&self, index: u32) -> ReceiveRequest;
    /// Returns the application's command, see [`Command`].
    fn command(&self) -> Command;
    /// Returns whether new congestion control settings are pending.
    fn has_new_settings(&self) -> bool;
    /// Applies the newest settings.
    fn take_settings(&self);
    /// Returns the congestion control settings in force.
    fn settings(&self) -> &Settings;

    /// Reports the state of the connection to the application.
    fn set_state(&self, state: u32);
    /// Returns the posted sends below `rsn` to the application.
    fn set_send_consumer(&self, rsn: Rsn);
    /// Returns the first `count` posted receives to the application.
    fn set_receive_consumer(&self, count: u32);
    /// Reports whether something waits for a receive or for a place in the completion queue. If so, the application rings
    /// the doorbell after it posts a receive or takes completions from a full queue. [`Self::readiness`] and
    /// [`Self::complete`] after this call see everything that it posted or took without the doorbell.
    fn set_receive_wanted(&self, wanted: u32);
    /// Appends a completion. Returns false if the completion queue is full. The caller must hold the connection's
    /// lock.
    fn complete(&self, completion: Completion) -> bool;
}

impl QueuePair {
    /// Returns whether the completion queue has a place after the first `written` completions. A counter of the application
    /// that makes no sense leaves none.
    #[inline(always)]
    fn has_place(&self, written: u32) -> bool {
        // The entry is written again only after the application has read it.
        let taken = self.completion_consumer.load(Acquire);
        written.wrapping_sub(taken) < COMPLETION_QUEUE_DEPTH as u32
    }
}

impl Queues for QueuePair {
    #[inline(always)]
    fn page(&self) -> Option<&QueuePair> {
        Some(self)
    }

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
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may
        // write the field.
        unsafe { (&raw const (*slot).opcode).read_volatile() }
    }

    #[inline(always)]
    fn wr_id(&self, rsn: Rsn) -> u64 {
        let slot = self.send[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)].as_ptr();
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may
        // write the field.
        unsafe { (&raw const (*slot).wr_id).read_volatile() }
    }

    #[inline(always)]
    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest) {
        *out = self.send[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)].load();
    }

    #[inline(always)]
    fn readiness(&self, used: u32) -> Readiness {
        // The application's counters are untrusted.
        let posted = self.receive_producer.load(Acquire).wrapping_sub(used);
        if posted == 0 || posted > RECEIVE_QUEUE_DEPTH as u32 {
            return Readiness::NoReceive;
        }
        if self.has_place(self.completion_producer.load(Relaxed)) {
            Readiness::Ready
        } else {
            Readiness::NoPlace
        }
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
        // SAFETY: the cell is valid plain data. By the contract of the field, the node writes only the other cell.
        // If it wrote this one, the numbers would be wrong, but results are limited to legal values before they
        // are used.
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
        // A processor may read the application's counters before this store is visible to others, and the application may
        // then have missed it: see `QueuePair::post_receive` and `QueuePair::take_completions`.
        fence(SeqCst);
    }

    #[inline(always)]
    fn complete(&self, completion: Completion) -> bool {
        let producer = self.completion_producer.load(Relaxed);
        if !self.has_place(producer) {
            return false;
        }
        let slot = &self.completions[producer as usize & (COMPLETION_QUEUE_DEPTH - 1)];
        let number = producer.wrapping_add(1);
        slot.store(completion);
        // SAFETY: the pointer is to a field of a valid entry.
        unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).number) }.store(number, Release);
        self.completion_producer.store(number, Release);
        true
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::boxed::Box;

    const DEPTH: u32 = COMPLETION_QUEUE_DEPTH as u32;

    /// What the application writes into its counters makes at most its own messages wait: what is ready has a receive and a
    /// place.
    #[test]
    fn counters_that_make_no_sense_make_nothing_ready() {
        let queues: Box<QueuePair> = bytemuck::zeroed_box();
        for used in [0, 7, u32::MAX] {
            for written in [0, 3, u32::MAX - 1] {
                let found = |posted: u32, untaken: u32| {
                    queues.completion_producer.store(written, Relaxed);
                    queues.receive_producer.store(used.wrapping_add(posted), Relaxed);
                    queues.completion_consumer.store(written.wrapping_sub(untaken), Relaxed);
                    let readiness = queues.readiness(used);
                    let is_written = queues.complete(Completion::default());
                    assert!(is_written || readiness != Readiness::Ready, "{posted} {untaken}");
                    readiness
                };
                for posted in [1, RECEIVE_QUEUE_DEPTH as u32] {
                    assert_eq!([0, DEPTH - 1].map(|untaken| found(posted, untaken)), [Readiness::Ready; 2]);
                    // More than there is was taken, or less than there may be.
                    let strange = [DEPTH, DEPTH + 1, 1 << 31, u32::MAX];
                    assert_eq!(strange.map(|untaken| found(posted, untaken)), [Readiness::NoPlace; 4]);
                }
                let strange = [0, RECEIVE_QUEUE_DEPTH as u32 + 1, 1 << 31, u32::MAX];
                assert_eq!(strange.map(|posted| found(posted, 0)), [Readiness::NoReceive; 4]);
            }
        }
    }

    #[test]
    fn an_application_that_takes_from_a_full_queue_rings_if_something_waits() {
        let queues: Box<QueuePair> = bytemuck::zeroed_box();
        let takes = |untaken: u32, wanted: u32| {
            queues.completion_producer.store(5, Relaxed);
            queues.completion_consumer.store(5u32.wrapping_sub(untaken), Relaxed);
            queues.set_receive_wanted(wanted);
            let taken = 6u32.wrapping_sub(untaken);
            let rings = queues.take_completions(taken);
            assert_eq!(queues.completion_consumer.load(Relaxed), taken);
            rings
        };
        assert!(takes(DEPTH, 1));
        assert!(!takes(DEPTH, 0), "nothing waits");
        assert!(!takes(DEPTH - 1, 1), "there was a place: it waits for a receive");
    }
}
