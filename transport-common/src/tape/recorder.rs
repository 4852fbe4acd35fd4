//! The queues of a connection, with a record on the tape of everything that its steps read and write.

use super::{Tag, Tape, digest_of_completion, record};
use crate::queues::Queues;

/// [`Queues`] that record. It lives within one step.
pub struct Recorder<Q> {
    queues: *const Q,
    tape: *const Tape,
}

impl<Q: Queues> Recorder<Q> {
    /// Records on `tape` what is done to `queues`.
    ///
    /// # Safety
    /// Both must outlive the recorder.
    #[inline(always)]
    pub(super) const unsafe fn new(queues: &Q, tape: &Tape) -> Self {
        Self { queues, tape }
    }

    /// Reads `queues` from now on. They must outlive every use of the recorder until the next call of this
    /// function.
    #[inline(always)]
    pub(super) const fn reads(&mut self, queues: &Q) {
        self.queues = queues;
    }

    #[inline(always)]
    fn queues(&self) -> &Q {
        // SAFETY: by the contract of `new`.
        unsafe { &*self.queues }
    }

    #[inline(always)]
    fn tape(&self) -> &Tape {
        // SAFETY: by the contract of `new`.
        unsafe { &*self.tape }
    }
}

/// Implements the trait of the list: each call is passed on, and its note is written.
macro_rules! recorded {
    (
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($tag:ident $label:literal $words:tt)?
            }
        )* }
    ) => {
        impl<Q: Queues> $trait for Recorder<Q> {
            /// A function of its own, because the note needs space on the stack.
            #[inline(never)]
            fn in_place<R>(part: impl FnOnce() -> R) -> R {
                part()
            }

            $(
                #[inline(always)]
                fn $name(&self $(, $argument: $of)*) $(-> $answer)? {
                    pass_on! { self $name($($argument),*) $($tag $words)? }
                }
            )*
        }
    };
}

/// Passes a call on, and writes its note.
macro_rules! pass_on {
    ($this:ident $name:ident($($argument:ident),*)) => { $this.queues().$name($($argument),*) };
    ($this:ident $name:ident($($argument:ident),*) $tag:ident { $words:literal }) => {
        by_hand::$name($this, $($argument),*)
    };
    ($this:ident $name:ident($($argument:ident),*) $tag:ident $words:tt) => {
        record!($this.tape(), $tag $words, $this.queues().$name($($argument),*))
    };
}

crate::queue_calls! { recorded }

/// The calls whose notes are not made from the list.
mod by_hand {
    use super::{Queues, Recorder, Tag, digest_of_completion};
    use crate::ids::WorkPosition;
    use crate::queues::{Completion, WorkRequest};

    /// The position is in the head of the note: a word of its own would need space on the stack.
    #[inline(always)]
    pub(super) fn wr_id<Q: Queues>(r: &Recorder<Q>, at: WorkPosition) -> u64 {
        let wr_id = r.queues().wr_id(at);
        r.tape().wide(Tag::WrId, at.0 as u16, wr_id);
        wr_id
    }

    #[inline(always)]
    pub(super) fn load_work_request<Q: Queues>(r: &Recorder<Q>, at: WorkPosition, out: &mut WorkRequest) {
        r.queues().load_work_request(at, out);
        r.tape().value(Tag::WorkRequest, at.0 as u16, out);
    }

    #[inline(always)]
    pub(super) fn complete<Q: Queues>(r: &Recorder<Q>, completion: Completion) -> bool {
        let number = digest_of_completion(&completion);
        let taken = r.queues().complete(completion);
        r.tape().wide(Tag::Complete, taken.into(), number);
        taken
    }
}
