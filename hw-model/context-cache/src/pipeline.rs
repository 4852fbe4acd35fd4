//! What travels through the pipeline, and what is decided at its end.

use clocked::Cycle;
use transport_common::ids::Cid;

use super::command::{Command, Context, FlushMode, Source};
use super::entry::{Event, State};
use super::miss_queue::Queued;

/// What has to be done for a connection.
#[derive(Clone, Debug)]
pub(super) enum Work<C: Context, T> {
    Command(Source, Command<T>),
    /// The context is in the flush register.
    Flush(FlushMode),
    Result(C::Result),
    /// The context read.
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
    /// When it was accepted.
    pub(super) accepted: Cycle,
    /// It is the head of its connection's miss queue, or follows it.
    pub(super) second_pass: bool,
}

impl<C: Context, T> Slot<C, T> {
    /// It has a slot of the miss queues kept for it until it knows whether it needs one. Packets have not: they can
    /// be dropped.
    pub(super) const fn keeps_slot(&self) -> bool {
        let can_wait = matches!(self.work, Work::Command(Source::Ulp, _) | Work::Flush(_) | Work::Result(_));
        can_wait && !self.second_pass
    }
}

impl<C: Context, T: Clone> Queued for Slot<C, T> {
    /// Writes of software and of the rate update engine are processed serially.
    fn goes_alone(&self) -> bool {
        !matches!(self.work, Work::Command(..))
    }
}

/// What a lookup finds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) entry: Option<u32>,
    pub(super) state: State,
    /// A write to memory is under way.
    pub(super) writing: bool,
    /// A command that is processed now.
    pub(super) hit: bool,
}

/// What is done at the end of processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A command's effect on its context.
    Process,
    /// Wait in the miss queue.
    Queue,
    /// Wait in the miss queue behind those that have no entry yet.
    QueueBehind,
    /// Wait in the miss queue for an entry.
    QueueForEntry,
    /// Take an entry, read the context.
    Allocate,
    /// Keep an entry that was to be freed.
    Recall,
    /// No room.
    Drop,
    /// No such connection.
    Discard,
    /// The context read is here.
    Fill,
    /// The context is written: now read it.
    ReadAgain,
    /// The context is written: free the entry.
    Free,
    /// The flush is written, the entry stays.
    WrittenThrough,
    /// Evict.
    WriteBack,
    /// Not idle any more.
    Refuse,
    /// Update the cached context by flush, and write it.
    WriteThrough,
    /// Update the cached context by flush.
    Replace,
    /// Update the cached context by result.
    Merge,
    /// Take an entry to write flush or result to memory.
    WriteDirect,
    /// Take an entry to hold the flushed context.
    Install,
}

impl Action {
    /// What happened waits for something in the miss queue.
    pub(super) const fn waits(self) -> bool {
        matches!(self, Self::Queue | Self::QueueBehind | Self::QueueForEntry | Self::Allocate | Self::Recall)
    }

    /// What happened moves the entry's state machine.
    pub(super) const fn moves(self) -> bool {
        !matches!(self, Self::QueueBehind | Self::QueueForEntry | Self::Drop | Self::Discard | Self::Refuse)
    }
}
