//! A small kernel for clocked hardware.
//!
//! A [`Block`] is a pure function: from its inputs and its state it computes its outputs and its next state. The
//! state changes at the clock edge and nowhere else, so a block cannot tell in which order its neighbours are
//! computed. The type system holds blocks to it: [`Block::evaluate`] has the state by shared reference, and
//! nothing here has interior mutability. The next state is handed over as [`Block::Next`], what changes, so that
//! a memory of a thousand contexts is not copied every cycle.
//!
//! State is kept in elements that show what they held at the last edge and change at the next one:
//! [`Fifo`], [`Memory`] and [`BankedMemory`] with their port-use checks, [`ContextStore`] with bypass,
//! [`DelayLine`], [`Divider`], [`Timers`], [`RingBitmap`]. [`Clock`] drives a block and passes over idle cycles.
//! [`trace`] writes what happened as text or as VCD.
//!
//! ```
//! use clocked::{Block, Clock, Cycle};
//!
//! /// Counts the cycles in which its input is high.
//! struct Counter(u64);
//!
//! impl Block for Counter {
//!     type Input = bool;
//!     type Output = u64;
//!     type Next = u64;
//!     fn evaluate(&self, _now: Cycle, input: &bool) -> (u64, u64) {
//!         (self.0, self.0 + u64::from(*input))
//!     }
//!     fn commit(&mut self, _now: Cycle, next: &u64) {
//!         self.0 = *next;
//!     }
//!     fn next_event(&self, _now: Cycle) -> Option<Cycle> {
//!         None
//!     }
//! }
//!
//! let mut clock = Clock::new(Counter(0));
//! assert_eq!(clock.step(&true), 0, "registered: the input is seen behind the edge");
//! assert_eq!(clock.step(&false), 1);
//! ```

mod banked_memory;
mod block;
mod context_store;
mod delay_line;
mod divider;
mod fifo;
mod memory;
mod ring_bitmap;
#[cfg(test)]
mod tests;
mod timers;
pub mod trace;

pub use banked_memory::BankedMemory;
pub use block::{Block, Clock, Cycle};
pub use context_store::ContextStore;
pub use delay_line::DelayLine;
pub use divider::{Divider, Division, Quotient};
pub use fifo::{Fifo, FifoOverflow};
pub use memory::{Memory, PortConflict, Ports, ReadPorts, WritePorts};
pub use ring_bitmap::RingBitmap;
pub use timers::Timers;
