//! What a connection does when the engine services it: the steps of the transmit pipeline.

use super::{Entry, Outgoing, State, Step, sender};
use crate::ids::Psn;
use crate::packet_delivery::Window;
use crate::queues::{Command, Queues};
use crate::units::{Deadline, Picoseconds};
use crate::wire::PacketType;

/// What came of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Serviced {
    /// There was nothing to do.
    Nothing,
    /// Something was done, and a packet may stand in the step's output.
    Done,
    /// A held request has to be delivered: see [`Entry::next_held`].
    Held,
}

impl Entry {
    /// The engine services this connection; `fired` when the timing wheel sent it. At most one packet comes of it, or a held
    /// request is to be delivered; `report.wake` asks for another service, `report.file` for a place in the wheel.
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
        // A connection that failed is closed like any other, or its slot would stay taken.
        if c.state != State::Closed && queues.command() == Command::CLOSE {
            c.state = State::Closing;
        }
        if c.state != State::Open {
            sender::wind_up(self, s, queues);
            self.connection.service.fruitless = (s.output.report.wake == 0) as u32;
            return Serviced::Done;
        }
        let serviced = sender::service_open(self, s, queues, now);
        let Self { connection: c, tables } = self;
        c.decide(&mut tables.statistics, s, queues, now);
        c.file_deadline(s, now.ticks());
        serviced
    }

    /// The packet that was booked could not be built. A reliable one is sent again by the engine as soon as possible; in
    /// place of an ACK or NACK an ACK leaves: a NACK is not repeated, nothing was marked for its packet, so that the next
    /// copy is refused likewise (D-39). Of a connection that was closed and opened since then nothing is changed.
    #[inline(always)]
    pub fn not_sent(&mut self, packet: &Outgoing) {
        let Self { connection: c, tables } = self;
        if c.state != State::Open || c.generation != packet.generation {
            return;
        }
        let (nack, eack, back) = (
            packet.kind == PacketType::Nack as u8,
            packet.kind == PacketType::Eack as u8,
            packet.kind == PacketType::Back as u8,
        );
        if !nack && !eack && !back {
            let request = packet.window == Window::Request as u8;
            let window = if request { Window::Request } else { Window::Data };
            return c.delivery.not_sent(&mut tables.packets, window, Psn(packet.psn));
        }
        // Without branches: the compiler would make a table of them, whose bounds the verifier does not see.
        let statistics = &mut tables.statistics;
        statistics.nacks_sent = statistics.nacks_sent.wrapping_sub(nack as u64);
        statistics.eacks_sent = statistics.eacks_sent.wrapping_sub(eack as u64);
        statistics.backs_sent = statistics.backs_sent.wrapping_sub(back as u64);
        c.delivery.request_ack();
    }
}
