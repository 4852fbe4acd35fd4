//! The elements against slow oracles.

mod clock;
mod memories;
mod queues;
mod ring_bitmap;
mod trace;
