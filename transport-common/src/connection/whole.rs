//! A connection as a whole: who holds it, its parts, and copies of it.

use super::{Cold, Connection, Statistics, TRANSACTIONS, Tables};
use crate::congestion::settings::CurrentSettings;
use crate::packet_delivery::DeliveryTables;
use crate::transaction::{Responses, TargetRequest, Transaction};
use crate::ulp::Answer;
use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};

/// A whole connection in one piece: what the node and the datapath exchange, what traces and tests keep. The owner of a
/// connection's memory stores it like this as well; nothing else relies on that (see [`Whole`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Snapshot {
    /// The context.
    pub connection: Connection,
    /// The tables.
    pub tables: Tables,
    /// Settings of congestion control. The node requests others.
    pub settings: CurrentSettings,
    /// What is rarely used.
    pub cold: Cold,
}

impl Snapshot {
    /// Lends the connection to its steps.
    #[inline(always)]
    pub const fn whole(&mut self) -> Whole<'_> {
        Whole(self)
    }
}

/// A connection whose lock is held, for one step. It yields the [`Parts`].
///
/// It is one pointer, because a function of a BPF program takes at most five arguments, and a struct of references would
/// be on the stack. Only this file relies on the parts being in one piece; a function that the verifier walks once takes the
/// pointer and makes a `Whole` of it again. If tables come from elsewhere, this type gets a second pointer.
#[derive(Debug)]
#[repr(transparent)]
pub struct Whole<'a>(pub(super) &'a mut Snapshot);

/// The parts of a connection. A function takes those that it needs.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The context.
    pub hot: &'a mut Connection,
    /// What is rarely used.
    pub cold: &'a mut Cold,
    /// Packets, RACK-TLP, NACK generation.
    pub packets: &'a mut DeliveryTables,
    /// Our transactions.
    pub transactions: &'a mut [Transaction; TRANSACTIONS],
    /// The peer's unfinished requests.
    pub requests: &'a mut [TargetRequest; TRANSACTIONS],
    /// Responses that are not acknowledged yet.
    pub responses: &'a mut Responses<Answer>,
    /// Counters for people.
    pub statistics: &'a mut Statistics,
    /// Steps recorded (see [`tape`](crate::tape)).
    pub steps: &'a mut u64,
    /// Settings of congestion control.
    pub settings: &'a mut CurrentSettings,
}

impl<'a> Whole<'a> {
    /// Returns the parts.
    #[inline(always)]
    pub const fn parts(self) -> Parts<'a> {
        let Snapshot { connection, tables, settings, cold } = self.0;
        Parts {
            hot: connection,
            cold,
            packets: &mut tables.delivery,
            transactions: &mut tables.transactions,
            requests: &mut tables.requests,
            responses: &mut tables.responses,
            statistics: &mut tables.statistics,
            steps: &mut tables.steps,
            settings,
        }
    }

    /// Lends it on.
    #[inline(always)]
    pub const fn by_ref(&mut self) -> Whole<'_> {
        Whole(self.0)
    }

    /// Returns the whole connection, for tests, models and tools that read it.
    #[cfg(not(target_arch = "bpf"))]
    pub const fn inspect(&self) -> &Snapshot {
        self.0
    }
}

const _: () = assert!(align_of::<Snapshot>() == 8);
