//! What congestion control in user space is told.

use transport_common::congestion::event::{Event, EventType, RetransmitReason};
use transport_common::congestion::nic_time::NicTime;

/// An event that was put into a queue for congestion control in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum Expected {
    /// An acknowledgement came for a packet that left at this time.
    Acknowledgement(NicTime),
    /// A packet was sent again. Whether early, if that is known.
    Copy(Option<RetransmitReason>),
    /// The connection ended in the same step.
    Any,
}

/// What a step has for congestion control in user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::simulation) struct News {
    /// The event that was put into a queue.
    pub(in crate::simulation) told: Option<Expected>,
    /// How many events should have been told and were not, at least and at most. The card must have refused so many.
    pub(in crate::simulation) untold: [u64; 2],
}

impl Expected {
    /// Whether this is the event.
    fn is(self, event: &Event) -> bool {
        let of_copy = event.event_type == EventType::RETRANSMIT;
        match self {
            Self::Acknowledgement(t1) => event.is_acknowledgement() && event.t1 == t1,
            Self::Copy(reason) => of_copy && reason.is_none_or(|reason| reason == event.retransmit_reason),
            Self::Any => true,
        }
    }

    /// Takes the reason of an event from a list.
    ///
    /// # Panics
    /// If it has none.
    pub(in crate::simulation) fn take(list: &mut Vec<Self>, event: &Event) {
        let place = list.iter().position(|expected| expected.is(event));
        let place = place.unwrap_or_else(|| {
            panic!(
                "congestion control is told what did not happen (F-10.6.2.1-2): {event:?}; known: {list:?}"
            )
        });
        list.swap_remove(place);
    }
}
