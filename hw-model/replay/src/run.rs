//! A recorded run.

use transport_common::tape::{Note, Notes, PREFIX_BYTES, RunKind, Tag, Tape, Unreadable};

/// The contents of the tape of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRun {
    /// The kind of run, see [`RunKind`].
    pub kind: RunKind,
    /// Bytes of the received frame, or of the held request.
    pub frame_length: u32,
    /// The first bytes of that frame or request.
    pub prefix: [u8; PREFIX_BYTES],
    /// The notes.
    pub words: Vec<u32>,
    /// The connection slot, if the run made a step of a connection.
    pub slot: Option<u32>,
    /// Numbers of the steps that the run made.
    pub steps: Vec<u64>,
    /// True if the run polled the timing wheel.
    pub looked_at_wheel: bool,
}

impl RecordedRun {
    /// Parses the bytes of a tape.
    ///
    /// # Errors
    /// Returns an error if the tape is cut, or has notes that this build does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (head, rest) = bytes.split_at_checked(Tape::HEAD_BYTES).ok_or(Unreadable::Cut)?;
        let (fields, prefix) = head.split_at(Tape::HEAD_BYTES - PREFIX_BYTES);
        let field = |n: usize| {
            u32::from_le_bytes([fields[4 * n], fields[4 * n + 1], fields[4 * n + 2], fields[4 * n + 3]])
        };
        let (words, odd) = rest.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        if !odd.is_empty() || field(1) as usize != words.len() {
            return Err(Unreadable::Cut);
        }
        let mut this = Self {
            kind: RunKind(field(0)),
            frame_length: field(3),
            prefix: prefix.try_into().map_err(|_| Unreadable::Cut)?,
            words,
            slot: None,
            steps: vec![],
            looked_at_wheel: false,
        };
        let mut ended = false;
        let (mut slot, mut steps, mut looked) = (None, vec![], false);
        for note in this.notes() {
            let note = note?;
            match note.tag {
                Tag::Lock => slot = note.words.first().copied(),
                Tag::Step => steps.push(note.wide(0)),
                Tag::Expired => looked = true,
                _ => {}
            }
            ended = note.tag == Tag::End;
        }
        if !ended {
            return Err(Unreadable::Cut);
        }
        (this.slot, this.steps, this.looked_at_wheel) = (slot, steps, looked);
        Ok(this)
    }

    /// Returns the notes, in order.
    pub fn notes(&self) -> Notes<'_> {
        Notes::new(&self.words)
    }

    /// Returns a name of the kind of run for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            RunKind::RECEIVE => "frame from the network",
            RunKind::ENGINE => "service by the engine",
            _ => "run of an unknown kind",
        }
    }

    /// Returns the note at word `at`, and the position after it.
    pub(super) fn note_at(&self, at: usize) -> Option<(Note<'_>, usize)> {
        let rest = self.words.get(at..)?;
        let note = Notes::new(rest).next()?.ok()?;
        Some((note, at + 1 + note.words.len()))
    }
}
