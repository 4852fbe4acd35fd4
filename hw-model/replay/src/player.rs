//! Plays the tape of a run: compares what is asked with what was, and gives the answers.

use bytemuck::AnyBitPattern;
use std::rc::Rc;

use transport_common::tape::Tag;

use super::{Difference, RecordedRun};

/// A tape and where it stands.
pub(super) struct Player {
    pub(super) run: Rc<RecordedRun>,
    at: usize,
    /// The first difference; nothing is compared behind it.
    pub(super) difference: Option<Difference>,
    /// Number of the latest step.
    pub(super) step: Option<u64>,
}

/// What the trace has to a question: the small value, and where the words behind the arguments begin.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) short: u16,
    words: usize,
    count: usize,
}

impl Player {
    pub(super) const fn new(run: Rc<RecordedRun>) -> Self {
        Self { run, at: 0, difference: None, step: None }
    }

    /// Reads the note of something that was asked with these arguments. `None` if the trace has something else, or had
    /// before.
    pub(super) fn ask(&mut self, tag: Tag, arguments: &[u32]) -> Option<Answer> {
        if self.difference.is_some() {
            return None;
        }
        let Some((note, behind)) = self.run.note_at(self.at) else {
            self.difference = Some(Difference::Asked { now: tag, recorded: None });
            return None;
        };
        if note.tag != tag {
            self.difference = Some(Difference::Asked { now: tag, recorded: Some(note.tag) });
            return None;
        }
        let Some(recorded) = note.words.get(..arguments.len()).filter(|recorded| *recorded == arguments)
        else {
            let recorded = note.words.iter().take(arguments.len()).copied().collect();
            self.difference = Some(Difference::Arguments { of: tag, now: arguments.to_vec(), recorded });
            return None;
        };
        let answer = Answer {
            short: note.short,
            words: self.at + 1 + recorded.len(),
            count: note.words.len() - recorded.len(),
        };
        self.at = behind;
        Some(answer)
    }

    /// Whether the note of something comes next.
    pub(super) fn stands_at(&self, tag: Tag) -> bool {
        self.run.note_at(self.at).is_some_and(|(note, _)| note.tag == tag)
    }

    /// Likewise of something whose small value is an argument.
    pub(super) fn tell(&mut self, tag: Tag, short: u16, arguments: &[u32]) -> Option<Answer> {
        let answer = self.ask(tag, arguments)?;
        if answer.short != short {
            let (now, recorded) = (vec![u32::from(short)], vec![u32::from(answer.short)]);
            self.difference = Some(Difference::Arguments { of: tag, now, recorded });
            return None;
        }
        Some(answer)
    }

    /// Word `n` of an answer; 0 if it is shorter.
    pub(super) fn word(&self, answer: Answer, n: usize) -> u32 {
        if n < answer.count { self.run.words[answer.words + n] } else { 0 }
    }

    /// Words `n` and `n + 1` of an answer.
    pub(super) fn wide(&self, answer: Answer, n: usize) -> u64 {
        u64::from(self.word(answer, n)) | u64::from(self.word(answer, n + 1)) << 32
    }

    /// All words of an answer.
    pub(super) fn words(&self, answer: Answer) -> &[u32] {
        &self.run.words[answer.words..answer.words + answer.count]
    }

    /// A plain struct that an answer is.
    pub(super) fn value<T: AnyBitPattern>(&mut self, tag: Tag, answer: Answer) -> Option<T> {
        let words = self.words(answer);
        if size_of_val(words) != size_of::<T>() {
            self.difference = Some(Difference::Arguments { of: tag, now: vec![], recorded: words.to_vec() });
            return None;
        }
        Some(bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
    }

    /// Number of the step that comes next, if the tape stands in front of one.
    pub(super) fn next_step(&self) -> Option<u64> {
        self.run.steps.iter().copied().find(|step| self.step.is_none_or(|last| *step > last))
    }
}
