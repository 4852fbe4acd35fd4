//! Notes: what one word or a few words on the tape say.

macro_rules! tags {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// What a note is about. Arguments stand first, then the answer; `short` is the 16-bit part of the note.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Tag { $($(#[$doc])* $variant),+ }

        impl Tag {
            const ALL: &'static [Tag] = &[$(Tag::$variant),+];
            /// Number of tags.
            pub const COUNT: u32 = Self::ALL.len() as u32;

            /// Name for people.
            pub const fn name(self) -> &'static str {
                match self { $(Tag::$variant => $name),+ }
            }
        }
    };
}

tags! {
    /// A reading of the clock, picoseconds.
    Now = "now",
    /// short: whether the address is this node's.
    Owns = "owns",
    /// short: the counter raised.
    Count = "count",
    /// Length asked for; short: whether the frame has it now.
    Resize = "resize",
    /// Start, length, the kept part of the header buffer; short: whether it was stored.
    StoreHeader = "store header",
    /// Offset, length, sum; short: whether there is one.
    SumFrame = "sum of frame",
    /// Sum.
    SumHeader = "sum of header",
    /// Memory offset (64 bits), length, sum.
    SumMemory = "sum of memory",
    /// Memory offset (64 bits), frame offset, length; short: done.
    MemoryToFrame = "memory to frame",
    /// Memory offset (64 bits), frame offset, length; short: done.
    FrameToMemory = "frame to memory",
    /// Memory offset, value (64 bits each); short: done.
    StoreValue = "store value",
    /// Memory offset, compare, swap, original value (64 bits each).
    CompareSwap = "compare and swap",
    /// Memory offset, addend, original value (64 bits each).
    FetchAdd = "fetch and add",
    /// short: the cell.
    AllocateCell = "allocate cell",
    /// short: the cell.
    FreeCell = "free cell",
    /// Frame offset, cell, length; short: done.
    FrameToCell = "frame to cell",
    /// Cell, length; short: done.
    CellToFrame = "cell to frame",
    /// R_Key, region.
    Region = "region",
    /// Slot: its lock is taken.
    Lock = "lock",
    /// Number of the step (64 bits).
    Step = "step",
    /// Number that stands for the context after the step (64 bits).
    Context = "context",
    /// Receive cells in use.
    CellsInUse = "cells in use",
    /// When the frame came off the wire, picoseconds.
    Arrival = "arrival",
    /// short: level of the card's receive buffer.
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
    /// RSN behind the newest posted send.
    SendProducer = "send producer",
    /// short: opcode of a posted send.
    Opcode = "opcode",
    /// wr_id of a posted send; short: its RSN's low bits.
    WrId = "wr_id",
    /// Work request; short: its RSN's low bits.
    WorkRequest = "work request",
    /// Number of receives posted.
    ReceiveProducer = "receive producer",
    /// A posted receive; short: its number's low bits.
    ReceiveRequest = "receive request",
    /// short: what the application asks for.
    Command = "command",
    /// short: whether settings wait.
    HasNewSettings = "has new settings",
    /// First words of the settings put into force.
    TakeSettings = "take settings",
    /// short: state told to the application.
    SetState = "set state",
    /// RSN.
    SetSendConsumer = "set send consumer",
    /// Receives given back.
    SetReceiveConsumer = "set receive consumer",
    /// short: whether a request waits for a receive.
    SetReceiveWanted = "set receive wanted",
    /// Number that stands for the completion (64 bits); short: whether it was taken.
    Complete = "complete",
    /// How the run ended: [`Outcome`](super::Outcome).
    End = "end",
}

impl Tag {
    /// The tag with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// What it is about.
    pub tag: Tag,
    /// The small value.
    pub short: u16,
    /// The words.
    pub words: &'a [u32],
}

impl Note<'_> {
    /// The 64-bit value that starts at word `at`; 0 beyond the end.
    pub fn wide(&self, at: usize) -> u64 {
        let word = |n: usize| u64::from(self.words.get(n).copied().unwrap_or(0));
        word(at) | word(at + 1) << 32
    }
}

/// Why a tape cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No note has this tag.
    Tag(u8),
    /// A note says that it is longer than what is left of the tape.
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

/// The notes of a tape in their order.
#[derive(Clone, Copy, Debug)]
pub struct Notes<'a> {
    rest: &'a [u32],
}

impl<'a> Notes<'a> {
    /// Of the words in use of a tape.
    pub const fn new(words: &'a [u32]) -> Self {
        Self { rest: words }
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Result<Note<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&head, rest) = self.rest.split_first()?;
        self.rest = &[]; // of an unreadable tape nothing follows
        let Some(tag) = Tag::from_number(head as u8) else { return Some(Err(Unreadable::Tag(head as u8))) };
        let Some((words, rest)) = rest.split_at_checked((head >> 8 & 0xff) as usize) else {
            return Some(Err(Unreadable::Cut));
        };
        self.rest = rest;
        Some(Ok(Note { tag, short: (head >> 16) as u16, words }))
    }
}
