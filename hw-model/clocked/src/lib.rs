//! A small simulation kernel for clocked (synchronous) hardware.
//!
//! The models of cards are built from this crate: `tonic_model`, `context_cache` and `falcon_nic`. It knows
//! nothing about transports. It has no experiments of its own.
//!
//! # Cycles and edges
//!
//! The unit of time is the [`Cycle`], one period of the clock, counted from reset. The user of the crate decides
//! how many picoseconds a period has. Each cycle ends with a rising edge of the clock.
//!
//! A [`Block`] is a pure function: it computes its outputs and its next state from its inputs and its state. The
//! state changes only at the clock edge. A block therefore cannot observe in which order its neighbours are
//! computed. The type system enforces this: [`Block::evaluate`] gets the state by shared reference, and nothing in
//! this crate has interior mutability. The next state is passed as [`Block::Next`], which holds only what changes.
//! A memory of a thousand contexts is therefore not copied in every cycle.
//!
//! # Main types
//!
//! | type | what it models |
//! |---|---|
//! | [`Block`], [`Clock`] | a clocked block, and the clock that drives it and skips idle cycles |
//! | [`Fifo`] | a first-in first-out queue in registers |
//! | [`Memory`] | an ideal memory with a fixed number of ports per cycle; the ports are checked |
//! | [`BankedMemory`] | a memory with many ports, built from dual-ported RAMs (Tonic, section 4) |
//! | [`ContextStore`] | a memory with a pipelined lookup and bypass |
//! | [`DelayLine`], [`Divider`] | a row of registers, a pipelined divider |
//! | [`Timers`] | one timer per id |
//! | [`RingBitmap`] | a bitmap used as a ring, with a search for the first set bit (Tonic, appendix C) |
//! | [`trace`] | writes a block's outputs as text or as a Value Change Dump (VCD) |
//!
//! "Tonic" is Arashloo et al., "Enabling Programmable Transport Protocols in High-Speed NICs", NSDI 2020.
//!
//! The elements that hold state show the state that the last edge left. A call of `commit`, of
//! [`Memory::write_ports`] or of [`BankedMemory::cycle`] performs the next edge.
//!
//! # Example
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
//! assert_eq!(clock.step(&true), 0, "the counter is a register: it changes at the edge");
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
