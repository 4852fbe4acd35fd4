//! The programming interface (section 3.5): which credit scheme, and two bounded functions over a user state of
//! fixed width.

use serde::{Deserialize, Serialize};

use super::logic::{Flag, Logic, UserState, Word};

/// How a flow gets credit (section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credit {
    /// A congestion window, enforced by the data delivery engine: any segment address may leave.
    Window,
    /// A rate.
    Rate,
    /// Tokens of a segment each, granted by the receiver.
    Token,
}

impl Credit {
    /// Bytes of user state the hardware has room for (table 4).
    #[must_use]
    pub const fn user_state_limit(self) -> usize {
        match self {
            Self::Window => 448,
            Self::Rate => 340,
            Self::Token => 256,
        }
    }
}

/// The fixed state of a flow, as both functions see it (table 2).
#[derive(Clone, Copy, Debug)]
pub struct View<L: Logic> {
    /// The cycle at hand, 48 bits.
    pub now: L::Word,
    /// First segment that is not acknowledged cumulatively.
    pub window_start: L::Word,
    /// Segments from the window's start on that may be sent.
    pub window_size: L::Word,
    /// The next new segment: one behind the highest generated so far.
    pub next_new: L::Word,
    /// New segments that are there to be sent, behind `next_new`. At most 2^31.
    pub data_left: L::Word,
    /// Segments generated so far, retransmissions included. 48 bits.
    pub total_sent: L::Word,
    /// Length of the retransmission timer in cycles, 48 bits.
    pub timer_period: L::Word,
    /// Segments acknowledged selectively.
    pub acked: L::Bitmap,
    /// Segments marked as lost and not generated again yet.
    pub marked: L::Bitmap,
    /// Segments retransmitted, at least once.
    pub retransmitted: L::Bitmap,
}

impl<L: Logic> View<L> {
    /// Segments generated and not acknowledged cumulatively.
    pub fn in_flight(&self) -> L::Word {
        self.next_new.offset_from(self.window_start)
    }
}

/// What the programmable stage of Incoming gets: a control packet and what the fixed stage made of it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<L: Logic> {
    /// The packet is an acknowledgment.
    pub is_ack: L::Flag,
    /// The packet is a negative acknowledgment.
    pub is_nack: L::Flag,
    /// The packet is a grant.
    pub is_pull: L::Flag,
    /// The packet is a congestion notification.
    pub is_cnp: L::Flag,
    /// Its cumulative acknowledgment.
    pub cumulative: L::Word,
    /// It acknowledges a segment selectively.
    pub has_selective: L::Flag,
    /// That segment.
    pub selective: L::Word,
    /// That segment was not known to have arrived.
    pub newly_selective: L::Flag,
    /// What the protocol put into the packet, 32 bits.
    pub data: L::Word,
    /// Segments that were not known to have arrived before this packet.
    pub newly_acked: L::Word,
    /// First segment of the window before this packet.
    pub old_window_start: L::Word,
    /// The flow behind the fixed stage.
    pub flow: View<L>,
}

/// What Periodic Updates gets at a flow's turn.
#[derive(Clone, Copy, Debug)]
pub struct Periodic<L: Logic> {
    /// The retransmission timer has expired; it is off now.
    pub timer_expired: L::Flag,
    /// The flow.
    pub flow: View<L>,
}

/// What user logic decides.
#[derive(Clone, Copy, Debug)]
pub struct Decision<L: Logic> {
    /// Mark segments for retransmission: those from
    pub mark: L::Flag,
    /// this one
    pub mark_from: L::Word,
    /// up to and without this one that were generated and are not acknowledged.
    pub mark_to: L::Word,
    /// From now on. Capped at the size of the bitmaps.
    pub window_size: L::Word,
    /// From the timer's next start on.
    pub timer_period: L::Word,
    /// Start the retransmission timer anew.
    pub reset_timer: L::Flag,
    /// Set the rate
    pub set_rate: L::Flag,
    /// to this, in bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES), 32 bits.
    pub rate: L::Word,
    /// Tokens added to the flow's credit, 16 bits.
    pub tokens: L::Word,
}

impl<L: Logic> Decision<L> {
    /// Everything stays as it is.
    pub fn keep(flow: &View<L>) -> Self {
        let no = L::Flag::constant(false);
        Self {
            mark: no,
            mark_from: flow.window_start,
            mark_to: flow.window_start,
            window_size: flow.window_size,
            timer_period: flow.timer_period,
            reset_timer: no,
            set_rate: no,
            rate: L::word(0),
            tokens: L::word(0),
        }
    }
}

/// How a flow starts.
#[derive(Clone, Copy, Debug)]
pub struct Initial<S> {
    /// The user state.
    pub state: S,
    /// Window size, segments.
    pub window_size: u32,
    /// Length of the retransmission timer, cycles.
    pub timer_period: u64,
    /// Rate in bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES).
    pub rate: u32,
    /// Tokens.
    pub tokens: u16,
}

/// A transport protocol's sender, as user logic. The value holds its configuration.
pub trait Protocol {
    /// Its name.
    const NAME: &'static str;
    /// How its flows get credit.
    const CREDIT: Credit;

    /// What it keeps of a flow.
    type State<L: Logic>: UserState<L>;

    /// How a flow starts whose first segment has the number `first`.
    fn initial<L: Logic>(&self, first: L::Word) -> Initial<Self::State<L>>;

    /// The programmable stage of Incoming: once for each control packet.
    fn incoming<L: Logic>(
        &self,
        input: &Incoming<L>,
        state: &Self::State<L>,
    ) -> (Decision<L>, Self::State<L>);

    /// Periodic Updates: when the retransmission timer has expired or [`Self::due`] has come.
    fn periodic<L: Logic>(
        &self,
        input: &Periodic<L>,
        state: &Self::State<L>,
    ) -> (Decision<L>, Self::State<L>);

    /// The first cycle in which [`Self::periodic`] has something to do besides the retransmission timer. The
    /// default: never.
    fn due<L: Logic>(&self, _state: &Self::State<L>) -> L::Word {
        L::word(u64::MAX)
    }

    /// The state behind both functions, when a packet and user timers of a flow meet in a cycle: both began with
    /// `before`. The default: what the packet changed counts, else what the timers changed (section 3.4 leaves
    /// this to the user).
    fn merge<L: Logic>(
        &self,
        before: &Self::State<L>,
        incoming: &Self::State<L>,
        periodic: &Self::State<L>,
    ) -> Self::State<L> {
        UserState::from_words(|field| {
            let unchanged = incoming.word(field).is(before.word(field));
            unchanged.choose(periodic.word(field), incoming.word(field))
        })
    }
}
