//! A block's queues and pipeline.

use std::collections::VecDeque;

use clocked::Cycle;

use super::block::{Block, Hop};

/// Of frames that had no step of their connection yet, and of those that had one. The first have finite queues and
/// wait for one another; the others have room for all there can be, so that none of them ever waits for a first. As
/// between requests and responses of a network on a chip, this is what keeps the blocks' loop free of deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Returning,
    First,
}

impl Channel {
    /// In the order in which they are served.
    pub(super) const ALL: [Self; 2] = [Self::Returning, Self::First];
}

/// A visit under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Working {
    pub(super) done: Cycle,
    pub(super) run: usize,
    /// It went on already and stands in the output register: the next block has no room.
    pub(super) resumed: bool,
}

/// What a block counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) served: u64,
    /// Picoseconds for which it could take nothing else.
    pub(super) busy: u64,
    /// Sum of the queue's length over cycles.
    pub(super) queue_area: u64,
    pub(super) queue_peak: usize,
    /// Cycles in which a finished frame could not leave, by the block that had no room.
    pub(super) stalls: [u64; Block::COUNT],
    /// Cycles in which frames waited because as many were outstanding as may be.
    pub(super) outstanding_stalls: u64,
}

/// A block.
#[derive(Debug)]
pub(super) struct Station {
    /// Room of the first channel's queue.
    room: usize,
    /// Visits that may be under way at once.
    outstanding: usize,
    queues: [VecDeque<(usize, Hop)>; 2],
    working: [VecDeque<Working>; 2],
    /// The first cycle in which it can take another frame.
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

    /// Brings the sums up to date.
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

    /// The visit of a channel that ends first, if it has ended.
    pub(super) fn ended(&self, now: Cycle, channel: Channel) -> Option<Working> {
        self.working[channel as usize].front().copied().filter(|working| working.done <= now)
    }

    pub(super) fn leave(&mut self, channel: Channel) {
        self.working[channel as usize].pop_front();
    }

    /// The frame that ended first finds no room in `next`.
    pub(super) fn stall(&mut self, channel: Channel, next: Block) {
        self.counts.stalls[next as usize] += 1;
        if let Some(working) = self.working[channel as usize].front_mut() {
            working.resumed = true;
        }
    }

    /// The frame to be taken in this cycle, if there is one and the block is free.
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

    /// Takes the frame: the block is busy until `free_at`, and the visit ends at `done` or with the one before it.
    pub(super) fn take(&mut self, run: usize, channel: Channel, (free_at, done): (Cycle, Cycle), busy: u64) {
        self.free_at = free_at;
        self.counts.served += 1;
        self.counts.busy += busy;
        let working = &mut self.working[channel as usize];
        let done = working.back().map_or(done, |last| last.done.max(done));
        working.push_back(Working { done, run, resumed: false });
    }

    /// The first cycle in which something happens here.
    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let ends =
            self.working.iter().filter_map(|working| working.front()).map(|working| working.done.max(now));
        let takes = self.queued() != 0 && self.in_work() < self.outstanding;
        ends.chain(takes.then(|| self.free_at.max(now))).min()
    }
}
