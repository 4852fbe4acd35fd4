//! The inputs and outputs of the cache.

use core::fmt::Debug;

use clocked::Cycle;
use serde::{Deserialize, Serialize};
use transport_common::ids::Cid;

use super::entry::{Event, State};

/// A connection context as the cache sees it. The cache stores it and merges results of congestion control into
/// it.
pub trait Context: Clone {
    /// The part of the context that the rate update engine writes.
    type Result: Clone + Debug;

    /// Writes a result into the context. The rest of the context does not change.
    fn merge(&mut self, result: &Self::Result);
}

/// The empty context, for uses where only hits and misses matter.
impl Context for () {
    type Result = ();
    fn merge(&mut self, _result: &()) {}
}

/// The source of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A transaction of the upper-layer protocol. The transactions of a connection are processed in order.
    Ulp,
    /// A packet. If its connection is in the cache, the packet overtakes the commands in the miss queue.
    Network,
}

/// The engine that reports when a command's work is done. Until then the connection is not evicted.
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
    /// The pending counter that the command raises when it is processed.
    pub pending: Option<Counter>,
    /// A value of the caller. The cache returns it with the command.
    pub tag: T,
}

/// What a flush does in addition to updating the cached context (if the context is cached).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushMode {
    /// Writes the context to memory. If the context was not cached before, it does not stay in the cache.
    Through,
    /// Installs the context in the cache. It reaches memory when it is evicted.
    Install,
}

/// A write of the flush control register by software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush<C> {
    /// The connection.
    pub cid: Cid,
    /// Its new context.
    pub context: C,
    /// What to do with it.
    pub mode: FlushMode,
}

/// The inputs in one cycle. An input that is not accepted has to stay for the next cycle.
#[derive(Clone, Debug)]
pub struct CacheInput<C: Context, T> {
    /// From the ULP.
    pub ulp: Option<Command<T>>,
    /// From the packet pipeline.
    pub network: Option<Command<T>>,
    /// From the rate update engine.
    pub result: Option<(Cid, C::Result)>,
    /// From software. The cache accepts it if the previous flush is complete.
    pub flush: Option<Flush<C>>,
    /// The new context after a command. It belongs to the command that was in [`CacheOutput::processed`]
    /// [`command_cycles`](super::Parameters::command_cycles) minus 1 cycles ago, and this is the last cycle of its
    /// processing. `None` leaves the context unchanged.
    pub update: Option<C>,
    /// The retransmission engine reports that work is done. The report may come as soon as the context is updated.
    pub transmit_done: Option<Cid>,
    /// The reorder engine reports that work is done.
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

/// The inputs that the cache accepted in this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// [`CacheInput::ulp`] was accepted.
    pub ulp: bool,
    /// [`CacheInput::network`] was accepted.
    pub network: bool,
    /// [`CacheInput::result`] was accepted.
    pub result: bool,
    /// [`CacheInput::flush`] was accepted.
    pub flush: bool,
}

/// A command whose context is cached. Its processing begins in this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processed<T> {
    /// The command.
    pub command: Command<T>,
    /// The source of the command.
    pub source: Source,
    /// The cache entry. [`context`](super::ContextCache::context) returns the context in it.
    pub entry: u32,
    /// The cycle in which the command was accepted.
    pub accepted: Cycle,
    /// True if the command did not wait in the miss queue.
    pub first_pass: bool,
}

/// The work that enters the lookup pipeline in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The connection.
    pub cid: Cid,
    /// The kind of work.
    pub event: Event,
    /// True if the work comes from a miss queue.
    pub second_pass: bool,
}

/// The state change of an entry at the end of processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The connection.
    pub cid: Cid,
    /// The entry. `None` if the connection has no entry and could not take one.
    pub entry: Option<u32>,
    /// The event.
    pub event: Event,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// True if the work waits in the miss queue and is tried again later.
    pub waits: bool,
}

/// A memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A read of a whole context.
    Read,
    /// A write of a context or a part of it.
    Write,
}

/// The outputs in one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOutput<T> {
    /// The inputs that were accepted.
    pub accepted: Accepted,
    /// The lookup that begins.
    pub issued: Option<Issued>,
    /// The command whose processing begins.
    pub processed: Option<Processed<T>>,
    /// A dropped command: a packet that missed while the miss queues were full, or a command of a connection that
    /// does not exist.
    pub dropped: Option<Command<T>>,
    /// The state change of the entry whose work ends its processing in this cycle.
    pub transition: Option<Transition>,
    /// The requests that the memories take in this cycle: first on-chip, then off-chip.
    pub memory: [Option<(Cid, Operation)>; 2],
    /// The flush status register. True while a flush is not complete.
    pub flush_busy: bool,
}
