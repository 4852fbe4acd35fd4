//! The kind of a run, given by its packet and by its effect.

use serde::{Deserialize, Serialize};
use transport_common::datapath::{Scratch, Verdict};
use transport_common::ulp::OperationKind;
use transport_common::wire::PacketType;

use super::task::Task;
use super::work::StepWork;

/// The kind of a run. The statistics are kept by this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A received frame that was rejected or passed on before it reached a connection, or that changed nothing
    /// there.
    Refused,
    /// A WRITE segment received.
    WriteReceived,
    /// A SEND segment received.
    SendReceived,
    /// A READ request received.
    ReadRequestReceived,
    /// An atomic request received.
    AtomicRequestReceived,
    /// A READ response received.
    ReadResponseReceived,
    /// An atomic response received.
    AtomicResponseReceived,
    /// Another reliable packet received, including malformed ones and error responses.
    OtherReceived,
    /// A received request that is held for its order.
    HeldReceived,
    /// A Resync received.
    ResyncReceived,
    /// A BACK received.
    BackReceived,
    /// An EACK received.
    EackReceived,
    /// A NACK received.
    NackReceived,
    /// A turn that sent a request for the first time.
    RequestSent,
    /// A turn that sent a response for the first time.
    ResponseSent,
    /// A turn that retransmitted a packet, or sent a Resync.
    SentAgain,
    /// A turn that sent an ACK or NACK.
    AckSent,
    /// A turn that sent nothing. It handled a timer or a result, filed a deadline, or delivered a request from its
    /// cell.
    ServiceWithoutPacket,
    /// A turn that found no connection with work.
    ServiceOfNoConnection,
}

impl Event {
    /// All kinds.
    pub const ALL: [Self; 19] = [
        Self::Refused,
        Self::WriteReceived,
        Self::SendReceived,
        Self::ReadRequestReceived,
        Self::AtomicRequestReceived,
        Self::ReadResponseReceived,
        Self::AtomicResponseReceived,
        Self::OtherReceived,
        Self::HeldReceived,
        Self::ResyncReceived,
        Self::BackReceived,
        Self::EackReceived,
        Self::NackReceived,
        Self::RequestSent,
        Self::ResponseSent,
        Self::SentAgain,
        Self::AckSent,
        Self::ServiceWithoutPacket,
        Self::ServiceOfNoConnection,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::WriteReceived => "WRITE received",
            Self::SendReceived => "SEND received",
            Self::ReadRequestReceived => "READ request received",
            Self::AtomicRequestReceived => "atomic received",
            Self::ReadResponseReceived => "READ response received",
            Self::AtomicResponseReceived => "atomic response received",
            Self::OtherReceived => "other packet received",
            Self::HeldReceived => "request held",
            Self::ResyncReceived => "Resync received",
            Self::BackReceived => "BACK received",
            Self::EackReceived => "EACK received",
            Self::NackReceived => "NACK received",
            Self::RequestSent => "request sent",
            Self::ResponseSent => "response sent",
            Self::SentAgain => "sent again",
            Self::AckSent => "ACK sent",
            Self::ServiceWithoutPacket => "service without packet",
            Self::ServiceOfNoConnection => "service of no connection",
        }
    }

    /// Returns the kind of a finished run.
    pub(super) fn of(task: Task, s: &Scratch, work: &StepWork, steps: u32, verdict: Verdict) -> Self {
        match task {
            Task::Receive if steps == 0 || *work == StepWork::default() => Self::Refused,
            Task::Receive if work.held => Self::HeldReceived,
            Task::Receive => Self::received(s),
            Task::Turn { .. } if steps == 0 => Self::ServiceOfNoConnection,
            Task::Turn { .. } if verdict != Verdict::Transmit => Self::ServiceWithoutPacket,
            Task::Turn { .. } => Self::sent(s, work),
        }
    }

    const fn received(s: &Scratch) -> Self {
        match s.step.input.packet.kind {
            PacketType::Back => Self::BackReceived,
            PacketType::Eack => Self::EackReceived,
            PacketType::Nack => Self::NackReceived,
            PacketType::Resync => Self::ResyncReceived,
            _ => match s.step.input.operation.kind {
                OperationKind::Write => Self::WriteReceived,
                OperationKind::Send => Self::SendReceived,
                OperationKind::Read => Self::ReadRequestReceived,
                OperationKind::CompareSwap | OperationKind::FetchAdd => Self::AtomicRequestReceived,
                OperationKind::ReadResponse => Self::ReadResponseReceived,
                OperationKind::AtomicResponse => Self::AtomicResponseReceived,
                _ => Self::OtherReceived,
            },
        }
    }

    const fn sent(s: &Scratch, work: &StepWork) -> Self {
        match s.step.output.packet.kind {
            PacketType::PullData | PacketType::PushData | PacketType::PullRequest if work.sent_again => {
                Self::SentAgain
            }
            PacketType::PullData => Self::ResponseSent,
            PacketType::PushData | PacketType::PullRequest => Self::RequestSent,
            _ if work.sent_new || work.sent_again => Self::SentAgain,
            _ => Self::AckSent,
        }
    }
}
