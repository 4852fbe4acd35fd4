//! The result of a lookup, and the decision at the end of processing.

use super::cache::ContextCache;
use super::command::{Context, FlushMode, Source};
use super::entry::State;
use super::pipeline::{Action, Seen, Slot, Work};

impl<C: Context, T: Copy> ContextCache<C, T> {
    pub(super) fn look(&self, slot: &Slot<C, T>) -> Seen {
        let entry = self.entries.find(slot.cid);
        let (state, writing) = entry.map_or((State::Invalid, false), |entry| {
            let entry = self.entries.get(entry);
            (entry.state, entry.writing)
        });
        let in_turn = match slot.work {
            Work::Command(Source::Network, _) => true,
            Work::Command(Source::Ulp, _) => slot.second_pass || !self.queues.contains(slot.cid),
            _ => false,
        };
        Seen { entry, state, writing, hit: in_turn && state == State::Valid }
    }

    /// Returns the action at the end of processing.
    pub(super) fn decide(&self, slot: &Slot<C, T>, seen: &Seen) -> Action {
        if slot.cid.0 >= self.parameters.connections {
            return Action::Discard;
        }
        match &slot.work {
            Work::Command(source, _) => {
                let action = self.decide_command(slot, seen);
                let fits = slot.second_pass || self.queues.room() > self.slots_kept;
                let drops = *source == Source::Network && action.waits() && !fits;
                if drops { Action::Drop } else { action }
            }
            Work::Flush(_) | Work::Result(_) => self.decide_write(slot, seen),
            Work::ReadCompletion(_) => Action::Fill,
            Work::WriteCompletion => match seen.state {
                State::Allocated => Action::ReadAgain,
                State::Valid => Action::WrittenThrough,
                State::Evicting | State::Invalid => Action::Free,
            },
            Work::Evict => match seen.entry {
                Some(entry) if seen.state == State::Valid && !seen.writing => {
                    let idle = self.entries.get(entry).pending() == 0 && !self.queues.contains(slot.cid);
                    if idle { Action::WriteBack } else { Action::Refuse }
                }
                _ => Action::Refuse,
            },
        }
    }

    /// Returns true if the work is on its first pass and has to wait behind the connection's queue.
    fn is_behind(&self, slot: &Slot<C, T>) -> bool {
        !slot.second_pass && self.queues.contains(slot.cid)
    }

    /// Returns true if a connection without an entry can take one. Some free entries are reserved for the
    /// connections that have waited for one.
    fn entry_available(&self, slot: &Slot<C, T>) -> bool {
        self.queues.keeps_entry(slot.cid) || self.entries.free() > self.queues.reserved_entries()
    }

    fn decide_command(&self, slot: &Slot<C, T>, seen: &Seen) -> Action {
        match seen.state {
            State::Valid if seen.hit => Action::Process,
            State::Valid | State::Allocated => Action::Queue,
            State::Evicting => Action::Recall,
            State::Invalid if self.is_behind(slot) => Action::QueueBehind,
            State::Invalid if self.entry_available(slot) => Action::Allocate,
            State::Invalid => Action::QueueForEntry,
        }
    }

    fn decide_write(&self, slot: &Slot<C, T>, seen: &Seen) -> Action {
        let through = matches!(slot.work, Work::Flush(FlushMode::Through));
        let install = matches!(slot.work, Work::Flush(FlushMode::Install));
        match seen.state {
            State::Allocated | State::Evicting => Action::Queue,
            State::Valid if self.is_behind(slot) => Action::Queue,
            State::Valid if through && seen.writing => Action::Queue,
            State::Valid if through => Action::WriteThrough,
            State::Valid if install => Action::Replace,
            State::Valid => Action::Merge,
            State::Invalid if self.is_behind(slot) => Action::QueueBehind,
            State::Invalid if !self.entry_available(slot) => Action::QueueForEntry,
            State::Invalid if install => Action::Install,
            State::Invalid => Action::WriteDirect,
        }
    }
}
