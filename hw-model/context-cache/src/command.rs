//! What goes into the cache and what comes out.

use core::fmt::Debug;

use clocked::Cycle;
use serde::{Deserialize, Serialize};
use transport_common::ids::Cid;

use super::entry::{Event, State};

/// A connection context as the cache sees it: something to keep, and to merge results of congestion control into.
pub trait Context: Clone {
    /// What the rate update engine writes.
    type Result: Clone + Debug;

    /// Takes over a result. The rest of the context stays as it is.
    fn merge(&mut self, result: &Self::Result);
}

/// Where only hits and misses are of interest.
impl Context for () {
    type Result = ();
    fn merge(&mut self, _result: &()) {}
}

/// Where a command comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A transaction of the upper-layer protocol. Those of a connection are processed in their order.
    Ulp,
    /// A packet. If its connection is in the cache it overtakes what waits in the miss queue.
    Network,
}

/// Who will say that a command's work is done; until then its connection is not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The retransmission engine, when the peer has acknowledged the packet.
    Transmit,
    /// The reorder engine, when the transaction is complete for the ULP.
    Reorder,
}

/// A transaction or packet in the fixed format of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<T> {
    /// Its connection.
    pub cid: Cid,
    /// The pending counter it raises when it is processed.
    pub pending: Option<Counter>,
    /// Comes out with it.
    pub tag: T,
}

/// What a flush does besides updating the cached context, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushMode {
    /// Writes the context to memory. A context that is not cached does not stay in the cache.
    Through,
    /// Installs the context in the cache. It reaches memory when it is evicted.
    Install,
}

/// Software's write of the flush control register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush<C> {
    /// The connection.
    pub cid: Cid,
    /// Its new context.
    pub context: C,
    /// What to do with it.
    pub mode: FlushMode,
}

/// What stands on the inputs in a cycle. What is not accepted has to stay there.
#[derive(Clone, Debug)]
pub struct CacheInput<C: Context, T> {
    /// From the ULP.
    pub ulp: Option<Command<T>>,
    /// From the packet pipeline.
    pub network: Option<Command<T>>,
    /// From the rate update engine.
    pub result: Option<(Cid, C::Result)>,
    /// From software. Accepted if the last flush is complete.
    pub flush: Option<Flush<C>>,
    /// The context behind the command that came out [`command_cycles`](super::Parameters::command_cycles) less one
    /// cycles ago, the last one of its processing. `None` leaves it as it is.
    pub update: Option<C>,
    /// Work done, from the retransmission engine. May come as soon as the context is updated.
    pub transmit_done: Option<Cid>,
    /// Work done, from the reorder engine.
    pub reorder_done: Option<Cid>,
}

impl<C: Context, T> Default for CacheInput<C, T> {
    fn default() -> Self {
        Self {
            ulp: None,
            network: None,
            result: None,
            flush: None,
            update: None,
            transmit_done: None,
            reorder_done: None,
        }
    }
}

/// Inputs that were taken in this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// [`CacheInput::ulp`]
    pub ulp: bool,
    /// [`CacheInput::network`]
    pub network: bool,
    /// [`CacheInput::result`]
    pub result: bool,
    /// [`CacheInput::flush`]
    pub flush: bool,
}

/// A command whose context is there: processing begins in this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processed<T> {
    /// The command.
    pub command: Command<T>,
    /// Where it came from.
    pub source: Source,
    /// The entry; [`context`](super::ContextCache::context) shows what it holds.
    pub entry: u32,
    /// When the command was accepted.
    pub accepted: Cycle,
    /// It did not go through the miss queue.
    pub first_pass: bool,
}

/// What enters the lookup pipeline in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The connection.
    pub cid: Cid,
    /// What it is.
    pub event: Event,
    /// From a miss queue.
    pub second_pass: bool,
}

/// What became of an entry at the end of a command's processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The connection.
    pub cid: Cid,
    /// The entry; `None` if there is none, and none could be taken.
    pub entry: Option<u32>,
    /// What happened.
    pub event: Event,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// It has to be tried again: what happened waits in the miss queue.
    pub waits: bool,
}

/// A memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Of a whole context.
    Read,
    /// Of a context or a part of it.
    Write,
}

/// What happens in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOutput<T> {
    /// Inputs taken.
    pub accepted: Accepted,
    /// The lookup that begins.
    pub issued: Option<Issued>,
    /// The command whose processing begins.
    pub processed: Option<Processed<T>>,
    /// A packet that found neither its context nor room in the miss queues, or whose connection does not exist.
    pub dropped: Option<Command<T>>,
    /// The entry at whose end of processing something happened.
    pub transition: Option<Transition>,
    /// Requests the memories take: on-chip, off-chip.
    pub memory: [Option<(Cid, Operation)>; 2],
    /// The flush status register: a flush is not complete.
    pub flush_busy: bool,
}
