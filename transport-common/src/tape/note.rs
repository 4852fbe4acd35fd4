//! Notes: one note is one call of the platform or of the queues, or one event, with its answer.

/// Declares the tags of the notes: one for each call of the two lists that has a note, and the others.
macro_rules! tags {
    (
        { $($(#[$other_doc:meta])* $other:ident = $other_label:literal;)* }
        $(
            $(#[$about:meta])* trait $trait:ident { $(
                $(#[$doc:meta])*
                fn $name:ident(& $($receiver:ident)+ $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                    $($tag:ident $label:literal $words:tt)?
                }
            )* }
        )*
    ) => {
        /// What a note is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Tag {
            $($(#[$other_doc])* $other,)*
            $($($(
                #[doc = concat!("`", stringify!($trait), "::", stringify!($name), "`: ", words!($words))]
                $tag,
            )?)*)*
        }

        impl Tag {
            const ALL: &'static [Tag] = &[$(Tag::$other,)* $($($(Tag::$tag,)?)*)*];
            /// Number of tags.
            pub const COUNT: u32 = Self::ALL.len() as u32;

            /// Returns the name for display.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Tag::$other => $other_label,)*
                    $($($(Tag::$tag => $label,)?)*)*
                }
            }
        }
    };
}

/// Describes the words of a note.
macro_rules! words {
    ([$($noted:expr),*]) => { concat!($(stringify!($noted), ", ",)* "then the answer.") };
    ({ $words:literal }) => { $words };
}

/// Adds the list of the queues to that of the platform, and the notes that are no calls of the lists.
macro_rules! with_queues {
    ($($calls:tt)*) => { crate::queue_calls! { tags {
        /// Slot of the connection whose lock was taken.
        Lock = "lock";
        /// Number of the step (64 bits).
        Step = "step";
        /// First four bytes of the MAC address of the next hop with which the step begins: the node may change it between
        /// two steps; short: the last two.
        NextHop = "next hop";
        /// The settings of congestion control that the node has requested, if they are not in force when the step begins.
        Settings = "settings";
        /// Hash of the context after the step (64 bits).
        Context = "context";
        /// How the run ended; short: [`Outcome`](super::Outcome).
        End = "end";
    } $($calls)* } };
}

crate::platform_calls! { with_queues }

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
