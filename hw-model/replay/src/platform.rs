//! The platform of a recorded run. It takes every answer from the tape.

#[cfg(test)]
mod contract;

use std::cell::RefCell;
use std::rc::Rc;

use transport_common::connection::{Snapshot, Whole};
use transport_common::datapath::{
    Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Services,
};
use transport_common::tape::{Ending, Noted, PREFIX_BYTES, Tag, digest_of_state};
use transport_common::wire::cursor::Cursor;

use super::player::{Answer, Collected, Player};
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

/// Implements the traits of the list: each call is compared with its note, which has the answer.
macro_rules! replayed {
    ($(
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($tag:ident $label:literal $words:tt)?
            }
        )* }
    )*) => { $(
        impl $trait for Replayed {
            associated! { $trait }
            $(fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? {
                answer! { self $name($($argument),*) $($tag $words)? }
            })*
        }
    )* };
}

/// What the traits have in addition to the calls of the list.
macro_rules! associated {
    (Frames) => {
        type Cursor = PrefixCursor;

        fn build(&mut self, s: &mut transport_common::datapath::Scratch) -> bool {
            transport_common::datapath::build(self, s)
        }
    };
    ($other:ident) => {};
}

/// Answers a call from its note. A call that has no note, or one that is not made from the list, has a function in
/// [`by_hand`].
macro_rules! answer {
    ($this:ident $name:ident($($argument:ident),*) $tag:ident [$($noted:expr),*]) => {{
        // The note does not have every argument.
        let _ = ($(&$argument,)*);
        let mut arguments = Collected::default();
        $(Noted::write($noted, &arguments);)*
        $this.player.borrow_mut().answer(Tag::$tag, arguments.words())
    }};
    ($this:ident $name:ident($($argument:ident),*) $($note:tt)*) => { by_hand::$name($this, $($argument),*) };
}

transport_common::platform_calls! { replayed }

/// The calls that are not made from the list.
mod by_hand {
    use transport_common::congestion::entry::Entry as CongestionEntry;
    use transport_common::congestion::event::Event;
    use transport_common::datapath::{MIN_CELL_FRAME, Scratch};
    use transport_common::ids::CellId;
    use transport_common::tape::{KEPT_HEADER, PREFIX_BYTES, Tag};

    use super::{Difference, PrefixCursor, Replayed, high, low};

    pub(super) fn observe(r: &mut Replayed, s: &mut Scratch, _: u32, events: bool) {
        let mut player = r.player.borrow_mut();
        let Some(answer) = player.ask(Tag::Observe, &[]) else { return };
        s.step.input.cells_in_use = player.word(answer, 0);
        s.step.input.rx_buffer_level = answer.short.into();
        if events && let Some(queues) = player.value(Tag::Observe, answer.after(1)) {
            s.step.input.event_queues = queues;
        }
    }

    pub(super) fn cursor(r: &mut Replayed) -> PrefixCursor {
        let prefix = r.player.borrow().run.prefix;
        PrefixCursor { prefix, at: 0, length: r.frame_length as usize }
    }

    pub(super) fn peek(r: &mut Replayed, to: &mut [u8; PREFIX_BYTES]) {
        let length = (r.frame_length as usize).min(PREFIX_BYTES);
        to[..length].copy_from_slice(&r.player.borrow().run.prefix[..length]);
    }

    pub(super) fn put_frame(r: &mut Replayed, s: &Scratch, start: u32, headers: u32, length: u32) -> bool {
        let mut player = r.player.borrow_mut();
        let at = s.payload_place(length);
        let arguments = [start, headers, low(at), high(at), length];
        let Some(answer) = player.ask(Tag::PutFrame, &arguments) else { return false };
        let recorded: Vec<u8> = player.words(answer).iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = start.saturating_add(headers) as usize;
        let meant = start as usize..end.min(KEPT_HEADER.end);
        for at in meant {
            let then = recorded.get(at.wrapping_sub(KEPT_HEADER.start)).copied().unwrap_or(0);
            if s.header[at] != then {
                let (byte, now) = (at - start as usize, s.header[at]);
                player.difference = Some(Difference::Header { byte, now, recorded: then });
                break;
            }
        }
        let done = answer.short != 0;
        if done {
            r.frame_length = headers.saturating_add(length);
        }
        done
    }

    pub(super) fn cell_to_frame(r: &mut Replayed, cell: CellId, length: u32) -> bool {
        let answer = r.player.borrow_mut().ask(Tag::CellToFrame, &[cell.0, length]);
        let done = answer.is_some_and(|answer| answer.short != 0);
        if done {
            r.frame_length = length.max(MIN_CELL_FRAME);
        }
        done
    }

    pub(super) fn publish_event(r: &mut Replayed, s: &mut Scratch) {
        let mut player = r.player.borrow_mut();
        let Some(answer) = player.ask(Tag::PublishEvent, &[]) else { return };
        let Some(recorded) = player.value::<CongestionEntry>(Tag::PublishEvent, answer) else {
            return;
        };
        // The generation depends on the place in the queue, which the platform chose. So it comes from the trace.
        s.step.output.event.generation = Event::generation_of(&recorded);
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

    pub(super) fn next_result(r: &mut Replayed, s: &mut Scratch) -> bool {
        let mut player = r.player.borrow_mut();
        let Some(answer) = player.ask(Tag::NextResult, &[]).filter(|answer| answer.short != 0) else {
            return false;
        };
        let Some(entry) = player.value(Tag::NextResult, answer) else { return false };
        s.entry = entry;
        s.step.input.outcome.decode(&s.entry);
        true
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
