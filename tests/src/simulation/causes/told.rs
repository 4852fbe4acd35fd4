//! What congestion control must be told, and what it is: each event has one reason, and each sign of loss and each
//! acknowledgement that measures something is told once.
//!
//! Whether it must be told of an acknowledgement follows from the frame, from the windows and the timeout before the step, and
//! from what arrived earlier. This uses nothing that the connection has noted about the acknowledgement, so a note that is
//! missing is found.

use transport_common::congestion::event::RetransmitReason;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::settings::Placement;
use transport_common::connection::Snapshot;
use transport_common::ids::Psn;
use transport_common::packet_delivery::{PACKETS, PacketFlags, Window};

use super::arrived::Arrived;
use super::news::{Expected, News};
use super::{Causes, Counts, Look, Why};

impl Causes {
    /// Whether congestion control must be told of the acknowledgement of a step (F-10.6.2.1-1). `None` if nothing says so.
    ///
    /// # Panics
    /// If the acknowledgement was taken although it may not be, or the other way round.
    pub(super) fn must_be_told(&mut self, look: &Look<'_>, arrived: Option<&Arrived>) -> Option<bool> {
        let config = &look.entry.connection.flow.endpoint;
        let accepted = arrived.filter(|arrived| arrived.cid == config.local_cid && !look.refused);
        let taken = accepted.filter(|arrived| arrived.fits(&self.transmit));
        assert_eq!(
            look.counts.acks,
            u64::from(taken.is_some()),
            "only an acknowledgement that is neither stale nor invalid counts (D-19, D-35): {arrived:?}"
        );
        let Some(taken) = taken else { return Some(false) };
        let repeats = taken.t1 == self.last_t1;
        self.last_t1 = taken.t1;
        // The times of both are of the peer's clock. One that seems to be before the other was not kept.
        let was_kept = taken.kept.0 as i32 > 0 && taken.kept > self.rto;
        let first = match taken.not_ready {
            Some(at) => self.is_first_refusal(look, at),
            None => Some(true),
        };
        // "Waiting for a receive is no congestion" in docs/decisions/protocol.md.
        if repeats || was_kept { Some(false) } else { first }
    }

    /// Notes an RNR NACK. Returns whether it is the first one for its packet, or names none that waits.
    fn is_first_refusal(&mut self, look: &Look<'_>, (window, psn): (Window, Psn)) -> Option<bool> {
        let w = window as usize;
        let (old, new) = (self.transmit[w], look.entry.connection.flow.delivery.lanes[w].tx);
        let place = psn.distance_from(new.base);
        let was_sent = psn.distance_from(old.base) < old.in_flight();
        if !was_sent || place >= new.in_flight() || new.acknowledged.get(place) {
            return Some(true);
        }
        let index = psn.0 as usize % PACKETS;
        if look.entry.tables.delivery.packets[w][index].flags.contains(PacketFlags::RESYNC) {
            // A Resync does not wait for the ULP. Nothing says whether such a NACK counts as one for the packet that the
            // Resync stands for.
            return None;
        }
        let again = self.refused[w].get(index as u32);
        self.refused[w].set(index as u32);
        Some(!again)
    }

    /// Returns what congestion control was told in the step that ended the connection.
    pub(in crate::simulation) fn last(&self, entry: &Snapshot) -> News {
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
