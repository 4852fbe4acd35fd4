//! What a step of the connection reads from its queues and writes to them. This is a narrow interface, because
//! other processes may change the memory at any time.
//!
//! [`queue_calls`](crate::queue_calls) lists each call once, as [`platform_calls`](crate::platform_calls) does for the
//! platform.

use super::{Command, Completion, QueuePair, ReceiveRequest, WorkRequest};
use crate::ids::{Cid, WorkPosition};
use crate::shared::fence;
use crate::ulp::{Readiness, Verb};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A number that the application reads, and that [`Queues::publish`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Published {
    /// State of the connection.
    State = 0,
    /// Position of the oldest send that is not returned to the application.
    SendConsumer = 1,
    /// Number of receives that are returned to the application.
    ReceiveConsumer = 2,
    /// Whether something waits for a receive or for a place in the completion queue.
    ReceiveWanted = 3,
}

/// Passes the list of the calls of [`Queues`](crate::queues::Queues) to the macro `$then`, as
/// [`platform_calls`](crate::platform_calls) does for the platform.
#[macro_export]
macro_rules! queue_calls {
    ($then:ident $($with:tt)*) => { $then! { $($with)*
        /// The queues of one connection as its steps see them. Everything that the application writes is untrusted, and
        /// two reads of the same value may differ.
        trait Queues {
            /// Returns the position after the newest posted send.
            fn send_producer(&self) -> $crate::ids::WorkPosition { SendProducer "send producer" [] }
            /// Prefetches a posted send from the application's cache.
            fn touch(&self, at: $crate::ids::WorkPosition) {}
            /// Returns the opcode of a posted send.
            fn opcode(&self, at: $crate::ids::WorkPosition) -> $crate::ulp::Verb { Opcode "opcode" [] }
            /// Returns the application's identifier of a posted send.
            fn wr_id(&self, at: $crate::ids::WorkPosition) -> u64 {
                WrId "wr_id" { "The identifier (64 bits); short: the low bits of the send's position." }
            }
            /// Reads a posted send once, into `out`.
            fn load_work_request(&self, at: $crate::ids::WorkPosition, out: &mut $crate::ulp::WorkRequest) {
                WorkRequest "work request" { "The work request; short: the low bits of its position." }
            }
            /// Returns whether a message may use the posted receive after the first `used`. The caller must hold the
            /// connection's lock. Until it calls [`Self::complete`], the completion keeps its place.
            fn readiness(&self, used: u32) -> $crate::ulp::Readiness { Readiness "readiness" [] }
            /// Reads a posted receive once.
            fn receive_request(&self, index: u32) -> $crate::ulp::ReceiveRequest {
                ReceiveRequest "receive request" [index]
            }
            /// Returns the application's command, see [`Command`].
            fn command(&self) -> $crate::queues::Command { Command "command" [] }
            /// Writes a number that the application reads.
            fn publish(&self, what: $crate::queues::Published, value: u32) { Publish "publish" [what, value] }
            /// Appends a completion. Returns false if the completion queue is full. The caller must hold the connection's
            /// lock.
            fn complete(&self, completion: $crate::ulp::Completion) -> bool {
                Complete "complete" { "Hash of the completion (64 bits); short: whether it was accepted." }
            }
        }
    } };
}

/// Declares the trait of the list.
macro_rules! declare {
    (
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? { $($note:tt)* }
        )* }
    ) => {
        $(#[$about])*
        pub trait $trait {
            /// Runs a large part of a step inline. On the BPF target, each call costs as much as twenty instructions on a
            /// CPU whose returns are guarded. But if the queues themselves need much of the stack, the part must be a
            /// function of its own.
            #[inline(always)]
            fn in_place<R>(part: impl FnOnce() -> R) -> R {
                part()
            }

            /// Returns the queues in the application's page, if these are them, and not something in front of them. What
            /// works on those can be a function that the verifier walks once.
            #[inline(always)]
            fn page(&self) -> Option<&QueuePair> {
                None
            }

            $(
                $(#[$doc])*
                fn $name(&self $(, $argument: $of)*) $(-> $answer)?;
            )*

            /// Reports the state of the connection to the application.
            #[inline(always)]
            fn set_state(&self, state: u32) {
                self.publish(Published::State, state);
            }

            /// Returns the posted sends before `at` to the application.
            #[inline(always)]
            fn set_send_consumer(&self, at: WorkPosition) {
                self.publish(Published::SendConsumer, at.0);
            }

            /// Returns the first `count` posted receives to the application.
            #[inline(always)]
            fn set_receive_consumer(&self, count: u32) {
                self.publish(Published::ReceiveConsumer, count);
            }

            /// Reports whether something waits for a receive or for a place in the completion queue. If so, the application
            /// rings the doorbell after it posts a receive or takes completions from a full queue. [`Self::readiness`] and
            /// [`Self::complete`] after this call see everything that it posted or took without the doorbell.
            #[inline(always)]
            fn set_receive_wanted(&self, wanted: u32) {
                self.publish(Published::ReceiveWanted, wanted);
            }
        }
    };
}

queue_calls! { declare }

impl Queues for QueuePair {
    #[inline(always)]
    fn page(&self) -> Option<&QueuePair> {
        Some(self)
    }

    #[inline(always)]
    fn send_producer(&self) -> WorkPosition {
        self.work_queue().producer()
    }

    #[inline(always)]
    fn touch(&self, at: WorkPosition) {
        let _ = self.opcode(at);
    }

    #[inline(always)]
    fn opcode(&self, at: WorkPosition) -> Verb {
        self.work_queue().opcode(at)
    }

    #[inline(always)]
    fn wr_id(&self, at: WorkPosition) -> u64 {
        self.work_queue().wr_id(at)
    }

    #[inline(always)]
    fn load_work_request(&self, at: WorkPosition, out: &mut WorkRequest) {
        *out = self.work_queue().load(at);
    }

    #[inline(always)]
    fn readiness(&self, used: u32) -> Readiness {
        if !self.receive_queue().has(used) {
            Readiness::NoReceive
        } else if self.completion_queue().has_place() {
            Readiness::Ready
        } else {
            Readiness::NoPlace
        }
    }

    #[inline(always)]
    fn receive_request(&self, index: u32) -> ReceiveRequest {
        self.receive_queue().load(index)
    }

    #[inline(always)]
    fn command(&self) -> Command {
        self.control.command()
    }

    #[inline(always)]
    fn publish(&self, what: Published, value: u32) {
        match what {
            Published::State => self.control.set_state(value),
            Published::SendConsumer => self.work_queue().release(WorkPosition(value)),
            Published::ReceiveConsumer => self.receive_queue().release(value),
            Published::ReceiveWanted => {
                self.control.set_waits(value);
                // A processor may read the application's counters before this store is visible to others, and the
                // application may then have missed it: see `QueuePair::post_receive` and `QueuePair::take_completions`.
                fence(SeqCst);
            }
        }
    }

    #[inline(always)]
    fn complete(&self, completion: Completion) -> bool {
        let queue_pair = Cid(self.number.load(Relaxed));
        self.completion_queue().append(Completion { queue_pair, ..completion })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::ids::Rsn;
    use crate::queues::{COMPLETION_QUEUE_DEPTH, RECEIVE_QUEUE_DEPTH};
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
    fn a_completion_names_its_queue_pair() {
        let queues: Box<QueuePair> = bytemuck::zeroed_box();
        queues.start(Cid(261), Rsn(0), 1);
        assert!(queues.complete(Completion { wr_id: 3, ..Completion::default() }));
        let expected = Completion { wr_id: 3, queue_pair: Cid(261), ..Completion::default() };
        assert_eq!(queues.completion_queue().get(0), Some(expected));
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
