//! Congestion control between two nodes on real hosts: in the kernel, in user space, changed while traffic
//! flows, and with an engine in user space that is slow, dead or returns nonsense.

mod algorithms;
mod engine;
mod nic_time;
mod program;
mod receive_timestamps;
mod switching;
mod traffic;
