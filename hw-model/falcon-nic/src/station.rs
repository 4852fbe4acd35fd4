//! The queues and the pipeline of a block.

use std::collections::VecDeque;

use clocked::Cycle;

use super::block::{Block, Hop};

/// One of the two queues of a block. `First` is for runs that had no step of their connection yet. Its queues are
/// finite, so these runs can wait for one another. `Returning` is for runs that had a step. Its queues have space
/// for all such runs, so none of them ever waits for a run on its first pass. This prevents deadlock in the loop
/// of blocks, as separate queues for requests and responses do in a network on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Returning,
    First,
}

impl Channel {
    /// Both channels, in the order in which they are served.
    pub(super) const ALL: [Self; 2] = [Self::Returning, Self::First];
}

/// A visit in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Working {
    pub(super) done: Cycle,
    pub(super) run: usize,
    /// True if the run has already continued and waits in the output register because the next block's queue is
    /// full.
    pub(super) resumed: bool,
}

/// The counters of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) served: u64,
    /// Picoseconds for which the block could accept nothing else.
    pub(super) busy: u64,
    /// Sum of the queue length over cycles.
    pub(super) queue_area: u64,
    pub(super) queue_peak: usize,
    /// Cycles in which a finished frame could not leave, by the block whose queue was full.
    pub(super) stalls: [u64; Block::COUNT],
    /// Cycles in which frames waited because the limit of outstanding visits was reached.
    pub(super) outstanding_stalls: u64,
}

/// A block with its queues.
#[derive(Debug)]
pub(super) struct Station {
    /// Capacity of the queue of [`Channel::First`].
    room: usize,
    /// Maximum number of visits in progress.
    outstanding: usize,
    queues: [VecDeque<(usize, Hop)>; 2],
    working: [VecDeque<Working>; 2],
    /// The first cycle in which the block can accept another frame.
    free_at: Cycle,
    touched: Cycle,
    pub(super) counts: Counts,
}

impl Station {
    pub(super) fn new(room: usize, outstanding: usize) -> Self {
        Self {
            room,
            outstanding,
            queues: Default::default(),
            working: Default::default(),
            free_at: Cycle::ZERO,
            touched: Cycle::ZERO,
            counts: Counts::default(),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn in_work(&self) -> usize {
        self.working.iter().map(VecDeque::len).sum()
    }

    fn touch(&mut self, now: Cycle) {
        self.counts.queue_area += now.since(self.touched) * self.queued() as u64;
        self.touched = now;
    }

    /// Updates the sums up to the cycle `now`.
    pub(super) fn settle(&mut self, now: Cycle) {
        self.touch(now);
    }

    pub(super) fn has_room(&self, channel: Channel) -> bool {
        channel == Channel::Returning || self.queues[channel as usize].len() < self.room
    }

    pub(super) fn push(&mut self, now: Cycle, channel: Channel, run: usize, hop: Hop) {
        self.touch(now);
        self.queues[channel as usize].push_back((run, hop));
        self.counts.queue_peak = self.counts.queue_peak.max(self.queued());
    }

    /// Returns the oldest visit of a channel, if it has ended.
    pub(super) fn ended(&self, now: Cycle, channel: Channel) -> Option<Working> {
        self.working[channel as usize].front().copied().filter(|working| working.done <= now)
    }

    pub(super) fn leave(&mut self, channel: Channel) {
        self.working[channel as usize].pop_front();
    }

    /// Counts a stall: the queue of `next` has no space for the oldest finished frame.
    pub(super) fn stall(&mut self, channel: Channel, next: Block) {
        self.counts.stalls[next as usize] += 1;
        if let Some(working) = self.working[channel as usize].front_mut() {
            working.resumed = true;
        }
    }

    /// Returns the frame that the block accepts in this cycle, if one waits and the block is free.
    pub(super) fn next(&mut self, now: Cycle) -> Option<(usize, Hop, Channel)> {
        if self.free_at > now || self.queued() == 0 {
            return None;
        }
        if self.in_work() >= self.outstanding {
            self.counts.outstanding_stalls += 1;
            return None;
        }
        for channel in Channel::ALL {
            let stalled = self.working[channel as usize].front().is_some_and(|working| working.resumed);
            if stalled {
                continue;
            }
            if let Some(&(run, hop)) = self.queues[channel as usize].front() {
                self.touch(now);
                self.queues[channel as usize].pop_front();
                return Some((run, hop, channel));
            }
        }
        None
    }

    /// Accepts a frame. The block is busy until `free_at`. The visit ends at `done`, but not before the previous
    /// visit.
    pub(super) fn take(&mut self, run: usize, channel: Channel, (free_at, done): (Cycle, Cycle), busy: u64) {
        self.free_at = free_at;
        self.counts.served += 1;
        self.counts.busy += busy;
        let working = &mut self.working[channel as usize];
        let done = working.back().map_or(done, |last| last.done.max(done));
        working.push_back(Working { done, run, resumed: false });
    }

    /// Returns the next cycle in which this block has work.
    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let ends =
            self.working.iter().filter_map(|working| working.front()).map(|working| working.done.max(now));
        let takes = self.queued() != 0 && self.in_work() < self.outstanding;
        ends.chain(takes.then(|| self.free_at.max(now))).min()
    }
}
