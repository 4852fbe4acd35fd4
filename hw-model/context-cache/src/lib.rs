//! A cycle-accurate model of a cache for connection contexts. The cache holds thousands of contexts on the chip.
//! The contexts of all other connections (a million or more) are in memory.
//!
//! # Source
//!
//! The source is EP 4 145 803 A1, "Off-chip memory backed reliable transport connection cache hardware
//! architecture" (figures 7 to 9). "The patent" means that text in the whole crate.
//!
//! # What it models
//!
//! The ULP (upper-layer protocol) or the network gives the cache a command. The cache looks up the connection of
//! the command.
//!
//! - Hit: the context is cached. The command is processed at once.
//! - Miss: the cache takes an entry and reads the context from memory. The command waits in the miss queue of its
//!   connection. When the context has arrived, the command goes through the pipeline a second time.
//! - Eviction: while more entries are occupied than a threshold allows, the cache evicts idle connections.
//!
//! An entry has four states. [`ARCS`] is the table of the state machine. The memories do not keep requests in
//! order, so a connection never has two memory operations in progress at the same time.
//!
//! # Where to start
//!
//! - [`ContextCache`] is the cache, a [`Block`](clocked::Block) of the clocked kernel.
//! - [`Parameters`] are the sizes and latencies, with the source of each number.
//! - [`CacheInput`] and [`CacheOutput`] are the signals of one cycle. An input has to stay until it is accepted.
//! - [`Processed`] is the output for a command whose context is available. [`ContextCache::context`] returns that
//!   context. The logic beside the cache returns the new context as [`CacheInput::update`] in the last cycle of
//!   processing.
//! - A command can raise a pending counter. Its connection then stays in the cache until
//!   [`CacheInput::transmit_done`] or [`CacheInput::reorder_done`] reports that the work is done.
//! - [`Statistics`] are the counters.
//! - [`solicitation`] models the patent's solicited push, an option of the transport above the cache.
//! - [`experiments`] measure the cache.
//!
//! # Units
//!
//! The model counts clock cycles. One step of [`clocked::Clock`] is one cycle. The experiments convert cycles to
//! time at 1 GHz, so one cycle is 1 ns there.
//!
//! # Where the patent is silent
//!
//! - One command enters the pipeline per cycle. The order of priority is: completions of the memory, second
//!   passes, flushes, results, evictions. The network and the ULP come last and alternate.
//! - A miss that finds no free entry waits in its miss queue until an entry is freed. Connections get entries in
//!   the order in which they started to wait. So an uncached connection never delays a packet for a cached one.
//!   This matters because such packets carry the ACKs that make entries idle.
//! - The miss queues share a pool of slots. When the pool is full, the ULP is stalled and packets that miss are
//!   dropped.
//! - Flushes and results that stall also wait in the miss queue. They are processed one at a time.
//! - A flush whose context is cached updates the cached context in both modes. [`FlushMode::Through`] also writes
//!   it to memory.
//! - The stall of six cycles begins when the write completion enters the pipeline. A command ahead of the
//!   completion turns the entry back to `Allocated` before it is freed. A command behind it sees the entry freed.
//!   No lookup of the connection is in progress during the stall.
//!
//! # Experiments
//!
//! `tiercel model experiment` lists the experiments. `tiercel model experiment cache-skew cache-latency` runs two
//! of them. `docs/model/context-cache.md` describes the measured results.
//!
//! # Example
//!
//! ```
//! use clocked::{Clock, Cycle};
//! use context_cache::{CacheInput, Command, ContextCache, Parameters, Source};
//! use transport_common::ids::Cid;
//!
//! let cache = ContextCache::<(), u32>::new(&Parameters::default(), ()).expect("the defaults are valid");
//! let mut clock = Clock::new(cache);
//! let packet = Command { cid: Cid(7), pending: None, tag: 1 };
//! let first = clock.step(&CacheInput { network: Some(packet), ..CacheInput::default() });
//! assert!(first.accepted.network);
//! let processed = loop {
//!     clock.skip_idle(Cycle(10_000));
//!     if let Some(processed) = clock.step(&CacheInput::default()).processed {
//!         break processed;
//!     }
//! };
//! assert_eq!((processed.command.tag, processed.first_pass), (1, false), "a miss");
//! ```

mod arbiter;
mod cache;
mod choice;
mod command;
mod decision;
mod effects;
mod entries;
mod entry;
pub mod experiments;
mod memory;
mod miss_queue;
mod parameters;
mod pipeline;
pub mod solicitation;
mod statistics;
#[cfg(test)]
mod tests;
mod trace;

pub use cache::{CacheNext, ContextCache, EntryStatus};
pub use command::{
    Accepted, CacheInput, CacheOutput, Command, Context, Counter, Flush, FlushMode, Issued, Operation,
    Processed, Source, Transition,
};
pub use entry::{ARCS, Arc, Event, State};
pub use parameters::{Eviction, MemoryParameters, ParameterError, Parameters};
pub use statistics::Statistics;
