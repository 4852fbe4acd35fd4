//! The elements, compared with slow reference implementations.

mod clock;
mod memories;
mod queues;
mod ring_bitmap;
mod trace;
