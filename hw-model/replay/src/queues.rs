//! The queues of a connection in a recorded step.

use std::cell::RefCell;
use std::rc::Rc;

use transport_common::congestion::settings::Settings;
use transport_common::ids::Rsn;
use transport_common::queues::{Command, Completion, Queues, Readiness, ReceiveRequest, Verb, WorkRequest};
use transport_common::tape::{Tag, digest_of_completion};

use super::player::Player;

/// The queues of a recorded step. They answer from the tape.
pub struct ReplayedQueues {
    pub(super) player: Rc<RefCell<Player>>,
    /// The congestion-control settings. A step may replace them at most once, before it reads them.
    pub(super) settings: SettingsCell,
}

/// Settings that a step may replace.
pub(super) struct SettingsCell {
    before: Settings,
    taken: std::cell::OnceCell<Settings>,
}

impl SettingsCell {
    pub(super) const fn new(settings: Settings) -> Self {
        Self { before: settings, taken: std::cell::OnceCell::new() }
    }

    pub(super) fn in_force(&self) -> &Settings {
        self.taken.get().unwrap_or(&self.before)
    }
}

impl ReplayedQueues {
    fn answer<T: Default>(&self, tag: Tag, with: impl FnOnce(&Player, super::player::Answer) -> T) -> T {
        let mut player = self.player.borrow_mut();
        player.ask(tag, &[]).map_or_else(T::default, |answer| with(&player, answer))
    }

    fn tell(&self, tag: Tag, short: u16, words: &[u32]) {
        self.player.borrow_mut().tell(tag, short, words);
    }
}

impl Queues for ReplayedQueues {
    fn send_producer(&self) -> u32 {
        self.answer(Tag::SendProducer, |player, answer| player.word(answer, 0))
    }

    fn touch(&self, _: Rsn) {}

    fn opcode(&self, _: Rsn) -> Verb {
        Verb(self.answer(Tag::Opcode, |_, answer| answer.short as u8))
    }

    fn wr_id(&self, rsn: Rsn) -> u64 {
        let mut player = self.player.borrow_mut();
        player.tell(Tag::WrId, rsn.0 as u16, &[]).map_or(0, |answer| player.wide(answer, 0))
    }

    fn load_work_request(&self, rsn: Rsn, out: &mut WorkRequest) {
        let mut player = self.player.borrow_mut();
        if let Some(answer) = player.tell(Tag::WorkRequest, rsn.0 as u16, &[]) {
            *out = player.value(Tag::WorkRequest, answer).unwrap_or_default();
        }
    }

    fn readiness(&self, _: u32) -> Readiness {
        const ALL: [Readiness; 3] = [Readiness::NoReceive, Readiness::NoPlace, Readiness::Ready];
        self.answer(Tag::Readiness, |_, answer| {
            ALL.into_iter().find(|readiness| *readiness as u16 == answer.short).unwrap_or_default()
        })
    }

    fn receive_request(&self, index: u32) -> ReceiveRequest {
        let mut player = self.player.borrow_mut();
        let Some(answer) = player.tell(Tag::ReceiveRequest, index as u16, &[]) else {
            return ReceiveRequest::default();
        };
        player.value(Tag::ReceiveRequest, answer).unwrap_or_default()
    }

    fn command(&self) -> Command {
        Command(self.answer(Tag::Command, |player, answer| player.word(answer, 0)))
    }

    fn has_new_settings(&self) -> bool {
        self.answer(Tag::HasNewSettings, |_, answer| answer.short != 0)
    }

    fn take_settings(&self) {
        let mut player = self.player.borrow_mut();
        if let Some(answer) = player.ask(Tag::TakeSettings, &[])
            && let Some(settings) = player.value(Tag::TakeSettings, answer)
        {
            // If the core took settings twice in one step, that would be a fault. The first settings stay then,
            // and the replay finds a difference in the context.
            let _ = self.settings.taken.set(settings);
        }
    }

    fn settings(&self) -> &Settings {
        self.settings.in_force()
    }

    fn set_state(&self, state: u32) {
        self.tell(Tag::SetState, state as u16, &[]);
    }

    fn set_send_consumer(&self, rsn: Rsn) {
        self.tell(Tag::SetSendConsumer, 0, &[rsn.0]);
    }

    fn set_receive_consumer(&self, count: u32) {
        self.tell(Tag::SetReceiveConsumer, 0, &[count]);
    }

    fn set_receive_wanted(&self, wanted: u32) {
        self.tell(Tag::SetReceiveWanted, wanted as u16, &[]);
    }

    fn complete(&self, completion: Completion) -> bool {
        let number = digest_of_completion(&completion);
        let words = [number as u32, (number >> 32) as u32];
        self.player.borrow_mut().ask(Tag::Complete, &words).is_some_and(|answer| answer.short != 0)
    }
}
