//! The connection-context cache: thousands of connections on the chip, a million and more behind it.
//!
//! After EP 4 145 803 A1, "Off-chip memory backed reliable transport connection cache hardware architecture"
//! (figures 7 to 9); "patent" is that text here. A command of the ULP or the network looks its connection up. If
//! the context is cached it is processed at once. Else an entry is taken, the context is read from memory, and the
//! command waits in the miss queue of its connection for a second pass through the pipeline. Entries whose
//! connections are idle are evicted while too many are occupied. An entry has four states ([`ARCS`]); of no
//! connection are two memory operations under way at once, as the memories keep no order.
//!
//! [`ContextCache`] is a [`Block`](clocked::Block). An input stands until it is accepted. When a command's
//! context is there it comes out as [`Processed`], and [`ContextCache::context`] shows the context; the logic beside
//! the cache gives the new one back with [`CacheInput::update`] in the last cycle of processing. A command that raised a
//! pending counter keeps its connection in the cache until [`CacheInput::transmit_done`] or
//! [`CacheInput::reorder_done`]. [`solicitation`] is an option of the transport above, [`experiments`] measure.
//!
//! Where the patent is silent:
//!
//! - One command enters the pipeline in a cycle. Completions of the memory come first, then second passes, flushes,
//!   results, evictions, and last, in turn, network and ULP.
//! - A miss that finds no free entry waits in its miss queue until one is freed, in the order of coming. So a
//!   packet for a cached connection is never held up by those that are not: without its ACK no entry would become
//!   idle.
//! - The miss queues share a pool of slots. When it is full the ULP is stalled, and packets that miss are dropped.
//! - Flushes and results that stall wait in the miss queue too, and are processed serially.
//! - A flush that finds its context cached updates it in either mode, and in [`FlushMode::Through`] writes it too.
//! - The six cycles' stall begins when the write completion enters the pipeline. What is ahead of it turns the
//!   entry back to `Allocated` before it is freed, and what is behind it sees it freed: no lookup of the
//!   connection is under way meanwhile.
//!
//! ```
//! use clocked::{Clock, Cycle};
//! use context_cache::{CacheInput, Command, ContextCache, Parameters, Source};
//! use transport_common::ids::Cid;
//!
//! let cache = ContextCache::<(), u32>::new(&Parameters::default(), ()).expect("the defaults are possible");
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
