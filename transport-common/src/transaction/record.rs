//! What the initiator keeps of each of our transactions.

use crate::ids::WorkPosition;
use crate::units::FalconTime;
use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};

/// State of one of our transactions (F-8.4.1-3, F-8.4.1-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum TransactionState {
    /// Not sent yet: PullReqUlpRx, PushReqUlpRx. Also: the table entry is free.
    #[default]
    Submitted = 0,
    /// PullReqTx, PushDataTx.
    Sent = 1,
    /// PullReqAckd.
    Acknowledged = 2,
    /// Ended, but not reported to the application.
    Done = 3,
    /// PullDataUlpTx, PushCplTx: reported. An older transaction is still open, or its packet is not acknowledged
    /// yet.
    Reported = 4,
}

/// One of our transactions, found by its RSN.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Transaction {
    /// Time when its first packet was sent. Before that, the time when it was first seen waiting.
    pub since: FalconTime,
    /// Bytes placed or sent, for the completion.
    pub length: u32,
    /// Where its work request is.
    pub work: WorkPosition,
    /// State.
    pub state: TransactionState,
    /// [`CompletionCode`](super::CompletionCode) once done. Before that: the code of its Resync if the Resync is exhausted, otherwise 0.
    pub code: u8,
    /// The target ULP's code.
    pub ulp_code: u8,
    /// The ULP's operation code at the time of sending.
    pub opcode: u8,
    /// The ULP's flags at the time of sending.
    pub flags: u8,
    /// 1: a pull.
    pub pull: u8,
    /// 1: its packet may have to be built again from the application's work request, whose queue slot is kept
    /// (F-9-6).
    pub retained: u8,
    /// 1: it ended before it was sent. An ordered connection still has to send the target a Resync for its RSN
    /// (D-47).
    pub skipped: u8,
}

impl Transaction {
    /// Returns whether it was sent and has not ended.
    #[inline(always)]
    pub(super) fn is_outstanding(&self) -> bool {
        self.state != TransactionState::Submitted && self.state < TransactionState::Done
    }
}
