//! What congestion control is told: each event has one reason, and each sign of loss is told once.

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
    pub(in crate::simulation) fn last(&self, entry: &Entry) -> Option<Expected> {
        let told = Counts::of(&entry.tables.statistics).events != self.counts.events;
        (self.generation == entry.connection.generation && told).then_some(Expected::Any)
    }

    /// Checks the events of a step against what happened in it. `sent`: why a packet was sent again, if one was. Returns
    /// the event that was queued for user space, if one was.
    pub(super) fn check_events(
        &self,
        look: &Look<'_>,
        placement: u32,
        sent: Option<Why>,
    ) -> Option<Expected> {
        let (told, last_t1) = (look.counts.events, look.entry.connection.congestion.last_t1);
        assert!(told <= 1, "one step raises {told} events");
        let in_datapath = placement == Placement::Kernel as u32;
        let Some(why) = sent else {
            assert!(
                told <= look.counts.acks && (told == 0 || last_t1 != self.last_t1),
                "an event, and no new acknowledgement (F-10.1-3)"
            );
            return (told != 0).then(|| Expected::Acknowledgement(NicTime::from_falcon_time(last_t1)));
        };
        let reason = if look.counts.early != 0 { RetransmitReason::EARLY } else { RetransmitReason::TIMEOUT };
        if look.counts.resyncs != 0 {
            return (told != 0).then_some(Expected::Copy(None));
        }
        let asked = why.intersects(Why::ASKED | Why::UNSENT);
        let is_loss = look.counts.probes == 0 && look.counts.copies() != 0 && !asked;
        assert!(told == 0 || is_loss, "{why:?} is told as a sign of loss (F-10.6.2.1-2, D-40)");
        assert!(!in_datapath || !is_loss || told == 1, "congestion control does not learn of {why:?} (D-68)");
        (told != 0).then_some(Expected::Copy(Some(reason)))
    }
}
