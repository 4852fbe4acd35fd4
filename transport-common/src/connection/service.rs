//! The service of a connection by the engine: the steps of the transmit pipeline.

use super::application::Application;
use super::outgoing::{address, earliest_deadline, report_deadline};
use super::{Outgoing, Parts, Service, Serviced, State, Step, Whole, sender};
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{Delivery, Window};
use crate::queues::{Command, Queues};
use crate::transaction::CompletionCode;
use crate::units::{Deadline, PicosecondSpan, Picoseconds, Ticks};
use crate::verifier::forget;
use crate::wire::PacketType;

/// The longest time between two runs of the timers of a connection: a quarter of the wrap of their times, 141 s. So what is
/// due, which may wait for half a wrap, is never confused with what is not.
const LONGEST_GAP: PicosecondSpan = Ticks(1 << 30).as_picos();
/// Units of [`Service::since`] in [`LONGEST_GAP`].
const GAP_UNITS: i32 = (LONGEST_GAP.0 >> Service::UNIT_SHIFT) as i32;

impl Service {
    /// `since` is in units of 2 to this power picoseconds, 4.3 ms, and wraps with the clock.
    const UNIT_SHIFT: u32 = 32;
    /// It only needs some of these bits: it changes every 17.6 s.
    const FINE_BITS: u32 = 12;

    /// Returns a time as [`Self::since`] has it, rounded down. The lowest bit is set, so it is not 0.
    #[inline(always)]
    pub const fn coarse(time: Picoseconds) -> u32 {
        let unit = Self::UNIT_SHIFT + Self::FINE_BITS;
        ((time.0 >> unit) << Self::FINE_BITS) as u32 | 1
    }

    /// Returns whether timers run that no service has seen to for too long: the node was stopped.
    #[inline(always)]
    pub(super) fn is_behind(&self, now: Picoseconds) -> bool {
        // Read back each time, so that the verifier walks what follows once and not for each result.
        let since = forget(&self.since);
        since != 0 && Self::coarse(now).wrapping_sub(since) as i32 > GAP_UNITS
    }

    /// Returns the time by which the timers go in a service at `now`: now, but at most a quarter of a wrap after
    /// [`Self::since`]. Their times are compared modulo 563 s, and a node may be stopped for longer, while its wire program
    /// goes on or not. Then the timers catch up in such steps, a step or a part of one in each service.
    #[inline(always)]
    pub fn timers_run_at(&self, now: Picoseconds) -> Picoseconds {
        if !self.is_behind(now) {
            return now;
        }
        Picoseconds((self.since as u64) << Self::UNIT_SHIFT).after(LONGEST_GAP)
    }
}

impl Whole<'_> {
    /// Services this connection. `fired` is true if the timing wheel caused the service. At most one packet
    /// results, or one held request to deliver. `report.wake` asks for another service, `report.file` for a place
    /// in the wheel.
    #[inline(always)]
    pub fn on_service<Q: Queues>(
        mut self,
        s: &mut Step,
        queues: &Q,
        now: Picoseconds,
        fired: bool,
    ) -> Serviced {
        s.begin();
        let c = self.by_ref().parts().hot;
        if fired {
            c.service.filed = Deadline::NONE;
        }
        // A failed connection is closed like any other. Otherwise its slot would stay in use.
        let command = queues.command();
        if c.state != State::Closed && command == Command::CLOSE {
            c.state = State::Closing;
        }
        c.service.dropping = (command == Command::DROP_REQUESTS) as u8;
        if c.state != State::Open {
            sender::wind_up(self.by_ref(), s, queues);
            self.parts().hot.service.fruitless = (s.output.report.wake == 0) as u8;
            return Serviced::Done;
        }
        let serviced = sender::service_open(self.by_ref(), s, queues, now);
        let Parts { hot, statistics, settings, .. } = self.by_ref().parts();
        hot.flow.decide(statistics, s, &settings.in_force, now);
        let Parts { hot: c, cold, .. } = self.parts();
        address(&mut s.output.packet, c.generation, &cold.tunnel);
        if c.state == State::Open {
            let deadline = (earliest_deadline(&c.flow, &c.target, &c.initiator), false);
            let deadline = report_deadline(&mut s.output.report, &mut c.service, deadline, now);
            if deadline.is_armed() {
                c.service.filed = deadline;
            }
        }
        serviced
    }

    /// Ends the request whose packet is in the step's output, because the key of its local buffer gives no access to it. The
    /// packet has its PSN: a Resync takes its place. This follows [`on_service`](Self::on_service) in the same lock hold.
    #[inline(never)]
    pub fn denied(mut self, s: &mut Step, queues: &impl Queues) {
        let Parts { hot, transactions, .. } = self.by_ref().parts();
        let (rsn, application) = (Rsn(s.output.packet.rsn), Application(queues));
        hot.initiator.complete(transactions, application, rsn, (CompletionCode::LocalProtection, 0, false));
        hot.initiator.flush(transactions, application);
        self.not_sent(&s.output.packet);
        s.output.packet.present = 0;
        s.output.report.raised.raise(Counter::LocalProtection);
        s.output.report.wake = 1;
    }

    /// Records that a packet could not be built. The engine sends a reliable packet again as soon as possible. In
    /// place of an ACK or NACK an ACK is sent. A NACK is not repeated: nothing was marked for its packet, so the
    /// next copy is refused in the same way (D-39). If the connection was closed and opened again since then,
    /// nothing changes.
    #[inline(always)]
    pub fn not_sent(self, packet: &Outgoing) {
        let Parts { hot: c, packets, statistics, .. } = self.parts();
        if c.state != State::Open || c.generation != packet.generation {
            return;
        }
        let (nack, eack, back) = (
            packet.kind == PacketType::Nack,
            packet.kind == PacketType::Eack,
            packet.kind == PacketType::Back,
        );
        if !nack && !eack && !back {
            let request = packet.window == Window::Request as u8;
            let window = if request { Window::Request } else { Window::Data };
            let mut delivery = Delivery::new(&mut c.flow.delivery, packets);
            return delivery.not_sent(window, Psn(packet.psn));
        }
        // Without branches: the compiler would turn them into a table, and the verifier cannot see the bounds of
        // its index.
        statistics.nacks_sent = statistics.nacks_sent.wrapping_sub(nack as u64);
        statistics.eacks_sent = statistics.eacks_sent.wrapping_sub(eack as u64);
        statistics.backs_sent = statistics.backs_sent.wrapping_sub(back as u64);
        c.flow.delivery.request_ack();
    }
}
