//! The Falcon transport (OCP rev 0.9) as pure functions over plain data.
//!
//! No clock, no allocation, no I/O, no randomness, no floats. Time, packets and random numbers are arguments. The
//! actions to take are return values. The XDP programs, the host simulation and the hardware model compile this
//! same crate. Differential tests compare the three.
//!
//! Requirements (`F-...`) and decisions (`D-...`) are cited at the code that implements them. `docs/spec` lists
//! them. `docs/architecture.md` describes which module owns what, and follows two packets through this crate.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
#![forbid(unsafe_op_in_unsafe_fn)]

// The kernel's programs and the processes share pages of integers in the machine's order, and a trace, an exchange and a
// snapshot are such bytes. The program reads MAC and IP addresses as words in that order too.
#[cfg(target_endian = "big")]
compile_error!("Tiercel's shared pages and trace files are little-endian");

pub mod bitmap;
pub mod congestion;
pub mod connection;
pub mod counters;
pub mod datapath;
pub mod hardware_clock;
pub mod ids;
pub mod limits;
pub mod memory;
pub mod packet_delivery;
pub mod queues;
pub mod resources;
pub mod ring;
pub mod security;
pub mod shard;
pub mod shared;
pub mod tape;
pub mod timing_wheel;
pub mod transaction;
pub mod ulp;
pub mod units;
pub mod verifier;
pub mod wire;
