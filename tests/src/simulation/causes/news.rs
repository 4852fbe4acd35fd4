//! What congestion control is told: each event has one reason, and each sign of loss and each acknowledgement that
//! measures something is told once.

use transport_common::congestion::event::{Event, EventType, RetransmitReason};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::settings::Placement;
use transport_common::connection::Entry;

use super::{Causes, Counts, Look, Why};

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

impl Causes {
    /// Returns what congestion control was told in the step that ended the connection.
    pub(in crate::simulation) fn last(&self, entry: &Entry) -> News {
        let told = self.generation == entry.connection.generation
            && Counts::of(&entry.tables.statistics).events != self.counts.events;
        News { told: told.then_some(Expected::Any), untold: [0, 1] }
    }

    /// Checks the events of a step against what happened in it. `sent`: why a packet was sent again, if one was. `due`:
    /// whether an acknowledgement must be told.
    pub(super) fn check_events(
        &self,
        look: &Look<'_>,
        placement: u32,
        sent: Option<Why>,
        due: Option<bool>,
    ) -> News {
        let told = look.counts.events;
        assert!(told <= 1, "one step raises {told} events");
        let in_datapath = placement == Placement::Kernel as u32;
        let goes_to_user = placement == Placement::User as u32;
        assert!(told == 0 || in_datapath || goes_to_user, "constant windows, and an event (F-10.6.2.1-1)");
        let news = |expected: Expected, least: bool, most: bool| News {
            told: (told != 0).then_some(expected),
            // The admission to the queues may refuse what is due.
            untold: [least, most]
                .map(|due| if goes_to_user { u64::from(due) - told.min(u64::from(due)) } else { 0 }),
        };
        let Some(why) = sent else {
            let (least, most) = (due == Some(true), due != Some(false));
            assert!(told == 0 || most, "an event, and no acknowledgement that measures anything (F-10.1-3)");
            assert!(
                !in_datapath || !least || told == 1,
                "congestion control does not learn of an acknowledgement with T1 {:?} (F-10.6.2.1-1)",
                self.last_t1
            );
            let t1 = NicTime::from_falcon_time(self.last_t1);
            return news(Expected::Acknowledgement(t1), least, most);
        };
        let reason = if look.counts.early != 0 { RetransmitReason::EARLY } else { RetransmitReason::TIMEOUT };
        if look.counts.resyncs != 0 {
            return news(Expected::Copy(None), false, true);
        }
        let asked = why.intersects(Why::ASKED | Why::UNSENT);
        let is_loss = look.counts.probes == 0 && look.counts.copies() != 0 && !asked;
        assert!(told == 0 || is_loss, "{why:?} is told as a sign of loss (F-10.6.2.1-2, D-40)");
        assert!(!in_datapath || !is_loss || told == 1, "congestion control does not learn of {why:?} (D-68)");
        news(Expected::Copy(Some(reason)), is_loss, is_loss)
    }
}
