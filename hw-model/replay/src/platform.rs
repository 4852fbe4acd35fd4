//! The platform of a recorded run. It takes every answer from the tape.

#[cfg(test)]
mod contract;

use std::cell::RefCell;
use std::rc::Rc;

use transport_common::congestion::entry::Entry as CongestionEntry;
use transport_common::connection::{Snapshot, Whole};
use transport_common::datapath::{
    self, Cells, CongestionQueues, Connections, Frames, Host, Locked, MIN_CELL_FRAME, Memory, Scratch,
    Services,
};
use transport_common::memory::{AccessFlags, ProtectionDomain, Region};
use transport_common::tape::{Ending, KEPT_HEADER, PREFIX_BYTES, Tag, digest_of_state};
use transport_common::transaction::NO_CELL;
use transport_common::units::{Picoseconds, Ticks};
use transport_common::wire::cursor::Cursor;

use super::player::{Answer, Player};
use super::queues::ReplayedQueues;
use super::{Difference, Divergence, RecordedRun, Shared};

/// A cursor over a frame of which only the first bytes are known.
#[derive(Clone, Debug)]
pub struct PrefixCursor {
    prefix: [u8; PREFIX_BYTES],
    at: usize,
    length: usize,
}

impl Cursor for PrefixCursor {
    type Taken<const N: usize> = [u8; N];

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.at + N > self.length {
            return None;
        }
        let mut bytes = [0; N];
        // The trace has no bytes after the headers, and no decoder reads them.
        let known = self.prefix.get(self.at..).unwrap_or_default();
        let count = known.len().min(N);
        bytes[..count].copy_from_slice(&known[..count]);
        self.at += N;
        Some(bytes)
    }

    fn remaining(&self) -> usize {
        self.length - self.at
    }
}

/// The [`Platform`](transport_common::datapath::Platform) of a recorded run.
pub struct Replayed {
    /// Number of the run in its trace.
    number: u64,
    player: Rc<RefCell<Player>>,
    connections: Shared,
    frame_length: u32,
}

impl Replayed {
    /// Creates the platform for run number `number` of a trace, over the connections of the replay.
    pub fn new(number: u64, run: Rc<RecordedRun>, connections: Shared) -> Self {
        let frame_length = run.frame_length;
        let player = Rc::new(RefCell::new(Player::new(run)));
        Self { number, player, connections, frame_length }
    }

    /// Returns the recorded run.
    pub fn run(&self) -> Rc<RecordedRun> {
        Rc::clone(&self.player.borrow().run)
    }

    /// Returns the number of the run in its trace.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the connection slot and the number of the next step. The step can be made when the connection has
    /// made the step before.
    pub fn waits_for(&self) -> Option<(u32, u64)> {
        let player = self.player.borrow();
        Some((player.run.slot?, player.next_step()?))
    }

    /// Compares the end of the run. Returns the first difference of the run, if there is one.
    pub fn finish(&self, ending: impl Ending) -> Option<Divergence> {
        let mut player = self.player.borrow_mut();
        let outcome = ending.outcome().0;
        if let Some(answer) = player.ask(Tag::End, &[])
            && answer.short != outcome
        {
            player.difference = Some(Difference::Ending { now: outcome, recorded: answer.short });
        }
        Some(Divergence {
            run: Some(self.number),
            kind: player.run.name(),
            slot: player.run.slot,
            step: player.step,
            difference: player.difference.take()?,
        })
    }

    fn ask<T>(&self, tag: Tag, arguments: &[u32], answer: impl FnOnce(&Player, Answer) -> T) -> Option<T> {
        let mut player = self.player.borrow_mut();
        let found = player.ask(tag, arguments)?;
        Some(answer(&player, found))
    }

    /// Returns true if the recorded call succeeded.
    fn done(&self, tag: Tag, arguments: &[u32]) -> bool {
        self.ask(tag, arguments, |_, answer| answer.short != 0).unwrap_or(false)
    }

    fn tell(&self, tag: Tag, short: u16, arguments: &[u32]) {
        self.player.borrow_mut().tell(tag, short, arguments);
    }

    fn optional(&self, tag: Tag) -> Option<u32> {
        self.ask(tag, &[], |player, answer| (answer.short != 0).then(|| player.word(answer, 0))).flatten()
    }
}

const fn low(value: u64) -> u32 {
    value as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Returns the MAC address in a note of the next hop.
fn next_hop(player: &Player, answer: Answer) -> [u8; 6] {
    let ([a, b, c, d], [e, f]) = (player.word(answer, 0).to_le_bytes(), answer.short.to_le_bytes());
    [a, b, c, d, e, f]
}

/// A connection of a replay during a step.
pub struct ReplayedConnection {
    slot: u32,
    entry: Box<Snapshot>,
    queues: ReplayedQueues,
}

impl Locked for ReplayedConnection {
    type Queues = ReplayedQueues;

    fn parts(&mut self) -> (Whole<'_>, &ReplayedQueues) {
        (self.entry.whole(), &self.queues)
    }
}

impl Host for Replayed {
    fn now(&mut self) -> Picoseconds {
        // After a difference the clock returns 1, because 0 would mean that it was not read.
        Picoseconds(self.ask(Tag::Now, &[], |player, answer| player.wide(answer, 0)).unwrap_or(1))
    }

    fn owns_ipv4(&self, _: u64, _: u32) -> bool {
        self.done(Tag::Owns, &[])
    }

    fn owns_ipv6(&self, _: u64, _: [u64; 2]) -> bool {
        self.done(Tag::Owns, &[])
    }

    fn count(&mut self, index: u32) {
        self.tell(Tag::Count, index as u16, &[]);
    }

    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        self.ask(Tag::Arrival, &[], |player, answer| Picoseconds(player.wide(answer, 0))).unwrap_or(now)
    }

    fn rx_buffer_level(&self) -> u8 {
        self.ask(Tag::RxBufferLevel, &[], |_, answer| answer.short as u8).unwrap_or(0)
    }
}

impl Frames for Replayed {
    type Cursor = PrefixCursor;

    fn build(&mut self, s: &mut Scratch) -> bool {
        datapath::build(self, s)
    }

    fn cursor(&mut self) -> PrefixCursor {
        let prefix = self.player.borrow().run.prefix;
        PrefixCursor { prefix, at: 0, length: self.frame_length as usize }
    }

    fn frame_length(&self) -> u32 {
        self.frame_length
    }

    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        let length = (self.frame_length as usize).min(PREFIX_BYTES);
        to[..length].copy_from_slice(&self.player.borrow().run.prefix[..length]);
    }

    fn resize(&mut self, length: u32) -> bool {
        let done = self.done(Tag::Resize, &[length]);
        if done {
            self.frame_length = length;
        }
        done
    }

    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        let mut player = self.player.borrow_mut();
        let Some(answer) = player.ask(Tag::StoreHeader, &[start, length]) else { return false };
        let recorded: Vec<u8> = player.words(answer).iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = start.saturating_add(length) as usize;
        let meant = start as usize..end.min(KEPT_HEADER.end);
        for at in meant {
            let then = recorded.get(at.wrapping_sub(KEPT_HEADER.start)).copied().unwrap_or(0);
            if s.header[at] != then {
                let (byte, now) = (at - start as usize, s.header[at]);
                player.difference = Some(Difference::Header { byte, now, recorded: then });
                break;
            }
        }
        answer.short != 0
    }

    fn sum_frame(&mut self, _: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        let sum = |player: &Player, answer: Answer| (answer.short != 0).then(|| player.word(answer, 0));
        self.ask(Tag::SumFrame, &[offset, length], sum).flatten()
    }

    fn sum_header(&mut self, _: &Scratch, _: u32, _: u32) -> u32 {
        self.ask(Tag::SumHeader, &[], |player, answer| player.word(answer, 0)).unwrap_or(0)
    }
}

impl Memory for Replayed {
    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32 {
        let arguments = [low(memory_offset), high(memory_offset), length];
        self.ask(Tag::SumMemory, &arguments, |player, answer| player.word(answer, 0)).unwrap_or(0)
    }

    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        self.done(Tag::MemoryToFrame, &[low(memory_offset), high(memory_offset), offset, length])
    }

    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        self.done(Tag::FrameToMemory, &[low(memory_offset), high(memory_offset), offset, length])
    }

    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        self.done(Tag::StoreValue, &[low(memory_offset), high(memory_offset), low(value), high(value)])
    }

    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64 {
        let arguments =
            [low(memory_offset), high(memory_offset), low(compare), high(compare), low(swap), high(swap)];
        self.ask(Tag::CompareSwap, &arguments, |player, answer| player.wide(answer, 0)).unwrap_or(0)
    }

    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64 {
        let arguments = [low(memory_offset), high(memory_offset), low(add), high(add)];
        self.ask(Tag::FetchAdd, &arguments, |player, answer| player.wide(answer, 0)).unwrap_or(0)
    }

    fn region(&mut self, key: u32) -> Region {
        let region = |player: &Player, answer: Answer| Region {
            offset: player.wide(answer, 0),
            length: player.wide(answer, 2),
            key: player.word(answer, 4),
            access: AccessFlags::from_bits_retain(player.word(answer, 5)),
            domain: ProtectionDomain(player.word(answer, 6)),
            reserved: 0,
        };
        self.ask(Tag::Region, &[key], region).unwrap_or_default()
    }
}

impl Cells for Replayed {
    fn allocate_cell(&mut self) -> u32 {
        self.ask(Tag::AllocateCell, &[], |_, answer| u32::from(answer.short)).unwrap_or(NO_CELL)
    }

    fn free_cell(&mut self, cell: u32) {
        self.tell(Tag::FreeCell, cell as u16, &[]);
    }

    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool {
        self.done(Tag::FrameToCell, &[offset, cell, length])
    }

    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool {
        let done = self.done(Tag::CellToFrame, &[cell, length]);
        if done {
            self.frame_length = length.max(MIN_CELL_FRAME);
        }
        done
    }

    fn cells_in_use(&self) -> u32 {
        self.ask(Tag::CellsInUse, &[], |player, answer| player.word(answer, 0)).unwrap_or(0)
    }
}

impl Connections for Replayed {
    type Locked = ReplayedConnection;

    /// Locks the connection. It must have made the step before, see [`Replayed::waits_for`].
    fn lock(&mut self, slot: u32) -> Option<ReplayedConnection> {
        self.player.borrow_mut().ask(Tag::Lock, &[slot])?;
        // Without a step number after it, the recorded run did not get the lock.
        if !self.player.borrow().stands_at(Tag::Step) {
            return None;
        }
        let Some(mut entry) = self.connections.borrow_mut().take(slot) else {
            let step = self.player.borrow().next_step().unwrap_or(0);
            self.player.borrow_mut().difference = Some(Difference::Missing { step });
            return None;
        };
        entry.tables.steps += 1;
        let number = entry.tables.steps;
        self.player.borrow_mut().step = Some(number);
        self.player.borrow_mut().ask(Tag::Step, &[low(number), high(number)]);
        // The node may have changed it since the step before, and requested other settings. Those were no decisions of the
        // datapath, so they come from the trace.
        if let Some(next_hop) = self.ask(Tag::NextHop, &[], next_hop) {
            entry.connection.flow.endpoint.path.destination_mac = next_hop;
        }
        let mut player = self.player.borrow_mut();
        if player.stands_at(Tag::Settings)
            && let Some(answer) = player.ask(Tag::Settings, &[])
            && let Some(settings) = player.value(Tag::Settings, answer)
        {
            entry.settings.request(&settings);
        }
        drop(player);
        let queues = ReplayedQueues { player: Rc::clone(&self.player) };
        Some(ReplayedConnection { slot, entry, queues })
    }

    fn unlock(&mut self, connection: ReplayedConnection) {
        let ReplayedConnection { slot, entry, .. } = connection;
        let context = digest_of_state(&entry.connection, &entry.cold);
        let mut player = self.player.borrow_mut();
        if let Some(answer) = player.ask(Tag::Context, &[])
            && player.wide(answer, 0) != context
        {
            player.difference = Some(Difference::Context);
        }
        drop(player);
        self.connections.borrow_mut().give_back(slot, entry);
    }
}

impl CongestionQueues for Replayed {
    fn event_queues(&mut self, s: &mut Scratch, _slot: u32) {
        let mut player = self.player.borrow_mut();
        if let Some(answer) = player.ask(Tag::EventQueues, &[])
            && let Some(queues) = player.value(Tag::EventQueues, answer)
        {
            s.step.input.event_queues = queues;
        }
    }

    fn publish_event(&mut self, s: &mut Scratch) {
        let mut player = self.player.borrow_mut();
        let Some(answer) = player.ask(Tag::PublishEvent, &[]) else { return };
        let Some(recorded) = player.value::<CongestionEntry>(Tag::PublishEvent, answer) else {
            return;
        };
        // The generation depends on the place in the queue, which the platform chose. So it comes from the trace.
        s.step.output.event.generation = transport_common::congestion::event::Event::generation_of(&recorded);
        s.step.output.event.encode(&mut s.entry);
        if s.entry != recorded {
            let words = |entry: &CongestionEntry| entry.iter().flat_map(|w| [low(*w), high(*w)]).collect();
            player.difference = Some(Difference::Arguments {
                of: Tag::PublishEvent,
                now: words(&s.entry),
                recorded: words(&recorded),
            });
        }
    }

    fn next_result(&mut self, s: &mut Scratch) -> bool {
        let mut player = self.player.borrow_mut();
        let Some(answer) = player.ask(Tag::NextResult, &[]).filter(|answer| answer.short != 0) else {
            return false;
        };
        let Some(entry) = player.value(Tag::NextResult, answer) else { return false };
        s.entry = entry;
        s.step.input.outcome.decode(&s.entry);
        true
    }

    fn record_delays(&mut self, _: &Scratch) {
        self.tell(Tag::RecordDelays, 0, &[]);
    }
}

impl Services for Replayed {
    fn wake(&mut self, slot: u32) {
        self.tell(Tag::Wake, 0, &[slot]);
    }

    fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.tell(Tag::WakeBy, 0, &[slot, ticks.0, low(now.0), high(now.0)]);
    }

    fn expired(&mut self, _: Picoseconds) -> Option<u32> {
        self.optional(Tag::Expired)
    }

    fn ready(&mut self) -> Option<u32> {
        self.optional(Tag::Ready)
    }

    fn answer(&mut self, slot: u32) {
        self.tell(Tag::Answer, 0, &[slot]);
    }

    fn is_backlogged(&self, slot: u32) -> bool {
        self.done(Tag::IsBacklogged, &[slot])
    }

    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.tell(Tag::File, 0, &[slot, ticks.0, low(now.0), high(now.0)]);
    }
}
