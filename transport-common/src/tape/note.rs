//! Notes: one note is one question to the platform, or one event, with its answer.

macro_rules! tags {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// What a note is about. The arguments come first, then the answer. `short` is the 16-bit part of the
        /// note.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Tag { $($(#[$doc])* $variant),+ }

        impl Tag {
            const ALL: &'static [Tag] = &[$(Tag::$variant),+];
            /// Number of tags.
            pub const COUNT: u32 = Self::ALL.len() as u32;

            /// Returns the name for display.
            pub const fn name(self) -> &'static str {
                match self { $(Tag::$variant => $name),+ }
            }
        }
    };
}

tags! {
    /// The time read from the clock, picoseconds.
    Now = "now",
    /// short: whether the address belongs to this node.
    Owns = "owns",
    /// short: the counter that was raised.
    Count = "count",
    /// The requested length; short: whether the frame has it now.
    Resize = "resize",
    /// Start, length, the recorded part of the header buffer; short: whether it was stored.
    StoreHeader = "store header",
    /// Offset, length, sum; short: whether there is a sum.
    SumFrame = "sum of frame",
    /// Sum.
    SumHeader = "sum of header",
    /// Memory offset (64 bits), length, sum.
    SumMemory = "sum of memory",
    /// Memory offset (64 bits), frame offset, length; short: whether it was done.
    MemoryToFrame = "memory to frame",
    /// Memory offset (64 bits), frame offset, length; short: whether it was done.
    FrameToMemory = "frame to memory",
    /// Memory offset, value (64 bits each); short: whether it was done.
    StoreValue = "store value",
    /// Memory offset, compare, swap, original value (64 bits each).
    CompareSwap = "compare and swap",
    /// Memory offset, addend, original value (64 bits each).
    FetchAdd = "fetch and add",
    /// short: the cell.
    AllocateCell = "allocate cell",
    /// short: the cell.
    FreeCell = "free cell",
    /// Frame offset, cell, length; short: whether it was done.
    FrameToCell = "frame to cell",
    /// Cell, length; short: whether it was done.
    CellToFrame = "cell to frame",
    /// Key, region.
    Region = "region",
    /// Slot of the connection whose lock was taken.
    Lock = "lock",
    /// Number of the step (64 bits).
    Step = "step",
    /// First four bytes of the MAC address of the next hop with which the step begins: the node may change it between two
    /// steps; short: the last two.
    NextHop = "next hop",
    /// The settings of congestion control that the node has requested, if they are not in force when the step begins.
    Settings = "settings",
    /// Hash of the context after the step (64 bits).
    Context = "context",
    /// Receive cells in use.
    CellsInUse = "cells in use",
    /// When the frame arrived from the network, picoseconds.
    Arrival = "arrival",
    /// short: level of the network card's receive buffer.
    RxBufferLevel = "receive buffer level",
    /// Occupancies and policy.
    EventQueues = "event queues",
    /// The event.
    PublishEvent = "publish event",
    /// The result, if short is 1.
    NextResult = "next result",
    /// Delays were counted.
    RecordDelays = "record delays",
    /// Slot.
    Wake = "wake",
    /// Slot, ticks, now (64 bits).
    WakeBy = "wake by",
    /// Slot, if short is 1.
    Expired = "expired",
    /// Slot, if short is 1.
    Ready = "ready",
    /// Slot.
    Answer = "answer",
    /// Slot; short: whether it is.
    IsBacklogged = "is backlogged",
    /// Slot, ticks, now (64 bits).
    File = "file",
    /// RSN after the newest posted send.
    SendProducer = "send producer",
    /// short: opcode of a posted send.
    Opcode = "opcode",
    /// wr_id of a posted send; short: low bits of its RSN.
    WrId = "wr_id",
    /// Work request; short: low bits of its RSN.
    WorkRequest = "work request",
    /// short: whether a message may use a posted receive ([`Readiness`](crate::queues::Readiness)).
    Readiness = "readiness",
    /// A posted receive; short: low bits of its number.
    ReceiveRequest = "receive request",
    /// short: the application's command.
    Command = "command",
    /// short: state reported to the application.
    SetState = "set state",
    /// RSN.
    SetSendConsumer = "set send consumer",
    /// Number of receives returned to the application.
    SetReceiveConsumer = "set receive consumer",
    /// short: whether a request waits for a receive.
    SetReceiveWanted = "set receive wanted",
    /// Hash of the completion (64 bits); short: whether it was accepted.
    Complete = "complete",
    /// How the run ended: [`Outcome`](super::Outcome).
    End = "end",
}

impl Tag {
    /// Returns the tag with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// What the note is about.
    pub tag: Tag,
    /// The small value.
    pub short: u16,
    /// The words.
    pub words: &'a [u32],
}

impl Note<'_> {
    /// Returns the 64-bit value that starts at word `at`; 0 beyond the end.
    pub fn wide(&self, at: usize) -> u64 {
        let word = |n: usize| u64::from(self.words.get(n).copied().unwrap_or(0));
        word(at) | word(at + 1) << 32
    }
}

/// Why the rest of a tape cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No note has this tag.
    Tag(u8),
    /// The length of a note is greater than the rest of the tape.
    Cut,
}

impl core::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tag(number) => write!(f, "no note has the tag {number}"),
            Self::Cut => f.write_str("the last note is cut off"),
        }
    }
}

impl core::error::Error for Unreadable {}

/// An iterator over the notes of a tape, in order.
#[derive(Clone, Copy, Debug)]
pub struct Notes<'a> {
    rest: &'a [u32],
}

impl<'a> Notes<'a> {
    /// Reads the notes in `words`, the words in use of a tape.
    pub const fn new(words: &'a [u32]) -> Self {
        Self { rest: words }
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Result<Note<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&head, rest) = self.rest.split_first()?;
        self.rest = &[]; // The rest of an unreadable tape is not read.
        let Some(tag) = Tag::from_number(head as u8) else { return Some(Err(Unreadable::Tag(head as u8))) };
        let Some((words, rest)) = rest.split_at_checked((head >> 8 & 0xff) as usize) else {
            return Some(Err(Unreadable::Cut));
        };
        self.rest = rest;
        Some(Ok(Note { tag, short: (head >> 16) as u16, words }))
    }
}
