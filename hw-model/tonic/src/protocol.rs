//! The programming interface (section 3.5): the choice of a credit scheme, and two bounded functions over a user
//! state of fixed width.

use serde::{Deserialize, Serialize};

use super::logic::{Flag, Logic, UserState, Word};

/// The scheme by which a flow gets credit (section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credit {
    /// A congestion window. The data delivery engine enforces it, so the credit engine lets every segment address
    /// leave.
    Window,
    /// A rate.
    Rate,
    /// Tokens, each for one segment, granted by the receiver.
    Token,
}

impl Credit {
    /// Returns how many bytes of user state the hardware has space for (table 4).
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
    /// The current cycle, 48 bits.
    pub now: L::Word,
    /// The first segment that is not acknowledged cumulatively.
    pub window_start: L::Word,
    /// The number of segments from the window's start on that may be sent.
    pub window_size: L::Word,
    /// The next new segment: one after the highest generated so far.
    pub next_new: L::Word,
    /// The number of new segments, from `next_new` on, that are available to send. At most 2^31.
    pub data_left: L::Word,
    /// The number of segments generated so far, including retransmissions. 48 bits.
    pub total_sent: L::Word,
    /// The length of the retransmission timer in cycles, 48 bits.
    pub timer_period: L::Word,
    /// The segments acknowledged selectively.
    pub acked: L::Bitmap,
    /// The segments marked as lost and not yet generated again.
    pub marked: L::Bitmap,
    /// The segments retransmitted at least once.
    pub retransmitted: L::Bitmap,
}

impl<L: Logic> View<L> {
    /// Returns the number of segments generated and not acknowledged cumulatively.
    pub fn in_flight(&self) -> L::Word {
        self.next_new.offset_from(self.window_start)
    }
}

/// The input of the programmable stage of Incoming: a control packet and the results of the fixed stage.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<L: Logic> {
    /// True if the packet is an acknowledgment.
    pub is_ack: L::Flag,
    /// True if the packet is a negative acknowledgment.
    pub is_nack: L::Flag,
    /// True if the packet is a grant.
    pub is_pull: L::Flag,
    /// True if the packet is a congestion notification.
    pub is_cnp: L::Flag,
    /// The cumulative acknowledgment of the packet.
    pub cumulative: L::Word,
    /// True if the packet acknowledges a segment selectively.
    pub has_selective: L::Flag,
    /// The segment that is acknowledged selectively.
    pub selective: L::Word,
    /// True if that segment was not known to have arrived.
    pub newly_selective: L::Flag,
    /// The data that the protocol put into the packet, 32 bits.
    pub data: L::Word,
    /// The number of segments that were not known to have arrived before this packet.
    pub newly_acked: L::Word,
    /// The first segment of the window before this packet.
    pub old_window_start: L::Word,
    /// The flow after the fixed stage.
    pub flow: View<L>,
}

/// The input of Periodic Updates when it visits a flow.
#[derive(Clone, Copy, Debug)]
pub struct Periodic<L: Logic> {
    /// True if the retransmission timer has expired. It is then off.
    pub timer_expired: L::Flag,
    /// The flow.
    pub flow: View<L>,
}

/// The decision of user logic.
#[derive(Clone, Copy, Debug)]
pub struct Decision<L: Logic> {
    /// True to mark segments for retransmission: those from `mark_from` up to, but not including, `mark_to` that
    /// were generated and are not acknowledged.
    pub mark: L::Flag,
    /// The first segment to mark.
    pub mark_from: L::Word,
    /// The segment after the last one to mark.
    pub mark_to: L::Word,
    /// The window size from now on. It is capped at the size of the bitmaps.
    pub window_size: L::Word,
    /// The length of the retransmission timer, from its next start on.
    pub timer_period: L::Word,
    /// True to restart the retransmission timer.
    pub reset_timer: L::Flag,
    /// True to set the rate to `rate`.
    pub set_rate: L::Flag,
    /// The rate, in bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES), 32 bits.
    pub rate: L::Word,
    /// The number of tokens added to the flow's credit, 16 bits.
    pub tokens: L::Word,
}

impl<L: Logic> Decision<L> {
    /// Returns the decision that changes nothing.
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

/// The initial state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Initial<S> {
    /// The user state.
    pub state: S,
    /// The window size, in segments.
    pub window_size: u32,
    /// The length of the retransmission timer, in cycles.
    pub timer_period: u64,
    /// The rate in bytes per [`RATE_CYCLES`](super::parameters::RATE_CYCLES).
    pub rate: u32,
    /// The number of tokens.
    pub tokens: u16,
}

/// The sender of a transport protocol, as user logic. The value holds its configuration.
pub trait Protocol {
    /// The name of the protocol.
    const NAME: &'static str;
    /// The scheme by which its flows get credit.
    const CREDIT: Credit;

    /// The user state of a flow.
    type State<L: Logic>: UserState<L>;

    /// Returns the initial state of a flow whose first segment has the number `first`.
    fn initial<L: Logic>(&self, first: L::Word) -> Initial<Self::State<L>>;

    /// The programmable stage of Incoming. Tonic calls it once per control packet.
    fn incoming<L: Logic>(
        &self,
        input: &Incoming<L>,
        state: &Self::State<L>,
    ) -> (Decision<L>, Self::State<L>);

    /// Periodic Updates. Tonic calls it when the retransmission timer has expired or the cycle [`Self::due`] has
    /// come.
    fn periodic<L: Logic>(
        &self,
        input: &Periodic<L>,
        state: &Self::State<L>,
    ) -> (Decision<L>, Self::State<L>);

    /// Returns the first cycle in which [`Self::periodic`] has something to do other than the retransmission timer.
    /// The default is never.
    fn due<L: Logic>(&self, _state: &Self::State<L>) -> L::Word {
        L::word(u64::MAX)
    }

    /// Merges the states that both functions return when a packet and a user timer of a flow occur in the same
    /// cycle. Both functions started from `before`. By default, a field has the packet's value if the packet
    /// changed it, and otherwise the timer's value (section 3.4 leaves this to the user).
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
