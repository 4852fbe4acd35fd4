//! The work in the pipeline, and the actions at its end.

use clocked::Cycle;
use transport_common::ids::Cid;

use super::command::{Command, Context, FlushMode, Source};
use super::entry::{Event, State};
use super::miss_queue::Queued;

/// Work for a connection.
#[derive(Clone, Debug)]
pub(super) enum Work<C: Context, T> {
    Command(Source, Command<T>),
    /// A flush. Its context is in the flush register.
    Flush(FlushMode),
    Result(C::Result),
    /// A completed read, with the context.
    ReadCompletion(C),
    WriteCompletion,
    Evict,
}

impl<C: Context, T> Work<C, T> {
    pub(super) const fn event(&self) -> Event {
        match self {
            Self::Command(..) => Event::Command,
            Self::Flush(FlushMode::Through) => Event::FlushThrough,
            Self::Flush(FlushMode::Install) => Event::FlushInstall,
            Self::Result(_) => Event::Result,
            Self::ReadCompletion(_) => Event::ReadCompletion,
            Self::WriteCompletion => Event::WriteCompletion,
            Self::Evict => Event::Evict,
        }
    }
}

/// Work in the pipeline or in a miss queue.
#[derive(Clone, Debug)]
pub(super) struct Slot<C: Context, T> {
    pub(super) cid: Cid,
    pub(super) work: Work<C, T>,
    /// The cycle in which it was accepted.
    pub(super) accepted: Cycle,
    /// True if it comes from its connection's miss queue: it is the head, or follows the head into the pipeline.
    pub(super) second_pass: bool,
}

impl<C: Context, T> Slot<C, T> {
    /// Returns true if a miss-queue slot is reserved for this work until its lookup shows whether it needs the
    /// slot. Packets have no reservation, because they can be dropped.
    pub(super) const fn keeps_slot(&self) -> bool {
        let can_wait = matches!(self.work, Work::Command(Source::Ulp, _) | Work::Flush(_) | Work::Result(_));
        can_wait && !self.second_pass
    }
}

impl<C: Context, T: Clone> Queued for Slot<C, T> {
    /// Returns true for writes of software and of the rate update engine. They are processed one at a time.
    fn goes_alone(&self) -> bool {
        !matches!(self.work, Work::Command(..))
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) entry: Option<u32>,
    pub(super) state: State,
    /// True while a write to memory is in progress.
    pub(super) writing: bool,
    /// True if the work is a command that is processed now.
    pub(super) hit: bool,
}

/// The action at the end of processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Process the command: update its context.
    Process,
    /// Wait in the miss queue.
    Queue,
    /// Wait in the miss queue behind earlier work that has no entry yet.
    QueueBehind,
    /// Wait in the miss queue for an entry.
    QueueForEntry,
    /// Take an entry, read the context.
    Allocate,
    /// Cancel an eviction: keep an entry that was to be freed.
    Recall,
    /// Drop a packet: the miss queues are full.
    Drop,
    /// Discard work of a connection that does not exist.
    Discard,
    /// Fill the entry with the context that was read.
    Fill,
    /// The write of a cancelled eviction is complete: read the context again.
    ReadAgain,
    /// The write of an eviction is complete: free the entry.
    Free,
    /// The write of a flush is complete. The entry stays.
    WrittenThrough,
    /// Evict: write the context to memory.
    WriteBack,
    /// Do not evict: the entry is not idle any more.
    Refuse,
    /// Replace the cached context by that of the flush, and write it to memory.
    WriteThrough,
    /// Replace the cached context by that of the flush.
    Replace,
    /// Merge a result into the cached context.
    Merge,
    /// Take an entry to write a flush or a result to memory.
    WriteDirect,
    /// Take an entry to hold the flushed context.
    Install,
}

impl Action {
    /// Returns true if the work waits in the miss queue.
    pub(super) const fn waits(self) -> bool {
        matches!(self, Self::Queue | Self::QueueBehind | Self::QueueForEntry | Self::Allocate | Self::Recall)
    }

    /// Returns true if the event goes through the state machine of the entry.
    pub(super) const fn moves(self) -> bool {
        !matches!(self, Self::QueueBehind | Self::QueueForEntry | Self::Drop | Self::Discard | Self::Refuse)
    }
}
