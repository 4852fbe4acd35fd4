//! The service of a connection by the engine: the steps of the transmit pipeline.

use super::outgoing::report_deadline;
use super::{Entry, Outgoing, Serviced, State, Step, sender};
use crate::ids::Psn;
use crate::packet_delivery::{Delivery, Window};
use crate::queues::{Command, Queues};
use crate::units::{Deadline, Picoseconds};
use crate::wire::PacketType;

impl Entry {
    /// Services this connection. `fired` is true if the timing wheel caused the service. At most one packet
    /// results, or one held request to deliver. `report.wake` asks for another service, `report.file` for a place
    /// in the wheel.
    #[inline(always)]
    pub fn on_service<Q: Queues>(
        &mut self,
        s: &mut Step,
        queues: &Q,
        now: Picoseconds,
        fired: bool,
    ) -> Serviced {
        s.begin();
        let c = &mut self.connection;
        if fired {
            c.service.filed = Deadline::NONE;
        }
        // A failed connection is closed like any other. Otherwise its slot would stay in use.
        let command = queues.command();
        if c.state != State::Closed && command == Command::CLOSE {
            c.state = State::Closing;
        }
        c.service.dropping = (command == Command::DROP_REQUESTS) as u16;
        if c.state != State::Open {
            sender::wind_up(self, s, queues);
            self.connection.service.fruitless = (s.output.report.wake == 0) as u16;
            return Serviced::Done;
        }
        let serviced = sender::service_open(self, s, queues, now);
        let Self { connection: c, tables } = self;
        c.decide(&mut tables.statistics, s, queues, now);
        if c.state == State::Open {
            let at = (c.service.filed, false);
            let deadline = report_deadline(&mut s.output.report, c.earliest_deadline(), at, now.ticks());
            if deadline.is_armed() {
                c.service.filed = deadline;
            }
        }
        serviced
    }

    /// Records that a packet could not be built. The engine sends a reliable packet again as soon as possible. In
    /// place of an ACK or NACK an ACK is sent. A NACK is not repeated: nothing was marked for its packet, so the
    /// next copy is refused in the same way (D-39). If the connection was closed and opened again since then,
    /// nothing changes.
    #[inline(always)]
    pub fn not_sent(&mut self, packet: &Outgoing) {
        let Self { connection: c, tables } = self;
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
            let mut delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
            return delivery.not_sent(window, Psn(packet.psn));
        }
        // Without branches: the compiler would turn them into a table, and the verifier cannot see the bounds of
        // its index.
        let statistics = &mut tables.statistics;
        statistics.nacks_sent = statistics.nacks_sent.wrapping_sub(nack as u64);
        statistics.eacks_sent = statistics.eacks_sent.wrapping_sub(eack as u64);
        statistics.backs_sent = statistics.backs_sent.wrapping_sub(back as u64);
        c.delivery.request_ack();
    }
}
