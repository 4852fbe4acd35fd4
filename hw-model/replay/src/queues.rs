//! The queues of a connection in a recorded step.

use std::cell::RefCell;
use std::rc::Rc;

use transport_common::queues::Queues;
use transport_common::tape::{Noted, Tag};

use super::player::{Collected, Player};

/// The queues of a recorded step. They answer from the tape.
pub struct ReplayedQueues {
    pub(super) player: Rc<RefCell<Player>>,
}

/// Implements the trait of the list: each call is compared with its note, which has the answer.
macro_rules! replayed {
    (
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($tag:ident $label:literal $words:tt)?
            }
        )* }
    ) => {
        impl $trait for ReplayedQueues {
            $(fn $name(&self $(, $argument: $of)*) $(-> $answer)? {
                answer! { self $name($($argument),*) $($tag $words)? }
            })*
        }
    };
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

transport_common::queue_calls! { replayed }

/// The calls that are not made from the list.
mod by_hand {
    use transport_common::ids::WorkPosition;
    use transport_common::queues::{Completion, WorkRequest};
    use transport_common::tape::{Tag, digest_of_completion};

    use super::ReplayedQueues;
    use crate::Difference;
    use crate::player::Answer;

    pub(super) fn touch(_: &ReplayedQueues, _: WorkPosition) {}

    pub(super) fn load_work_request(r: &ReplayedQueues, at: WorkPosition, out: &mut WorkRequest) {
        if let Some(answer) = of_position(r, Tag::WorkRequest, at) {
            *out = r.player.borrow_mut().value(Tag::WorkRequest, answer).unwrap_or_default();
        }
    }

    pub(super) fn wr_id(r: &ReplayedQueues, at: WorkPosition) -> u64 {
        of_position(r, Tag::WrId, at).map_or(0, |answer| r.player.borrow().wide(answer, 0))
    }

    /// Returns the next note, if its head has the low bits of this position.
    fn of_position(r: &ReplayedQueues, tag: Tag, at: WorkPosition) -> Option<Answer> {
        let mut player = r.player.borrow_mut();
        let answer = player.ask(tag, &[])?;
        if answer.short != at.0 as u16 {
            let (now, recorded) = (vec![at.0 & 0xffff], vec![u32::from(answer.short)]);
            player.difference = Some(Difference::Arguments { of: tag, now, recorded });
            return None;
        }
        Some(answer)
    }

    pub(super) fn complete(r: &ReplayedQueues, completion: Completion) -> bool {
        let number = digest_of_completion(&completion);
        let words = [number as u32, (number >> 32) as u32];
        r.player.borrow_mut().ask(Tag::Complete, &words).is_some_and(|answer| answer.short != 0)
    }
}
