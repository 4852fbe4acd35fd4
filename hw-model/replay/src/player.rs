//! Plays the tape of a run: compares the calls with the recorded ones, and gives the recorded answers.

use bytemuck::AnyBitPattern;
use std::cell::Cell;
use std::rc::Rc;

use transport_common::tape::{self, Tag, Words};

use super::{Difference, RecordedRun};

/// A tape and the position on it.
pub(super) struct Player {
    pub(super) run: Rc<RecordedRun>,
    at: usize,
    /// The first difference. Nothing is compared after it.
    pub(super) difference: Option<Difference>,
    /// Number of the latest step.
    pub(super) step: Option<u64>,
}

/// A recorded answer: its small value, and the position and number of the words after the arguments.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) short: u16,
    words: usize,
    count: usize,
}

impl Answer {
    /// Returns the answer without its first `words` words.
    pub(super) const fn after(self, words: usize) -> Self {
        let count = self.count.saturating_sub(words);
        Self { short: self.short, words: self.words + self.count - count, count }
    }
}

/// The words of a call's arguments.
#[derive(Default)]
pub(super) struct Collected {
    words: Cell<[u32; Self::MOST]>,
    used: Cell<usize>,
}

impl Collected {
    /// More than the arguments of any call have.
    const MOST: usize = 8;

    /// Returns the words in order.
    pub(super) fn words(&mut self) -> &[u32] {
        &self.words.get_mut()[..self.used.get()]
    }
}

impl Words for Collected {
    fn word(&self, word: u32) {
        let mut words = self.words.get();
        words[self.used.get()] = word;
        self.words.set(words);
        self.used.set(self.used.get() + 1);
    }
}

impl Player {
    pub(super) const fn new(run: Rc<RecordedRun>) -> Self {
        Self { run, at: 0, difference: None, step: None }
    }

    /// Reads the note of a call with these arguments. Returns `None` if the trace has another note here, or if
    /// there was a difference before.
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

    /// Returns true if the next note has this tag.
    pub(super) fn stands_at(&self, tag: Tag) -> bool {
        self.run.note_at(self.at).is_some_and(|(note, _)| note.tag == tag)
    }

    /// Reads the note of a call that is made from the list, and returns its answer.
    pub(super) fn answer<A: tape::Answer>(&mut self, tag: Tag, arguments: &[u32]) -> A {
        let Some(answer) = self.ask(tag, arguments) else { return A::ABSENT };
        if answer.count != A::WORDS {
            let recorded = self.words(answer).to_vec();
            self.difference = Some(Difference::Arguments { of: tag, now: vec![], recorded });
            return A::ABSENT;
        }
        A::read(self.words(answer))
    }

    /// Returns word `n` of an answer, or 0 if the answer is shorter.
    pub(super) fn word(&self, answer: Answer, n: usize) -> u32 {
        if n < answer.count { self.run.words[answer.words + n] } else { 0 }
    }

    /// Returns words `n` and `n + 1` of an answer as one number.
    pub(super) fn wide(&self, answer: Answer, n: usize) -> u64 {
        u64::from(self.word(answer, n)) | u64::from(self.word(answer, n + 1)) << 32
    }

    /// Returns all words of an answer.
    pub(super) fn words(&self, answer: Answer) -> &[u32] {
        &self.run.words[answer.words..answer.words + answer.count]
    }

    /// Returns an answer as a plain struct. Records a difference if it has another length.
    pub(super) fn value<T: AnyBitPattern>(&mut self, tag: Tag, answer: Answer) -> Option<T> {
        let words = self.words(answer);
        if size_of_val(words) != size_of::<T>() {
            self.difference = Some(Difference::Arguments { of: tag, now: vec![], recorded: words.to_vec() });
            return None;
        }
        Some(bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
    }

    /// Returns the number of the run's next step, if it has one.
    pub(super) fn next_step(&self) -> Option<u64> {
        self.run.steps.iter().copied().find(|step| self.step.is_none_or(|last| *step > last))
    }
}
