//! Tests of frames, drop patterns, and whole networks for a few milliseconds.

mod experiments;
mod frames;
mod networks;
