//! Congestion control (section 10): entries, measurements, admission, the algorithms with test vectors and against
//! references.

mod admission;
mod algorithms;
mod dcqcn;
mod entries;
mod fixed_point;
mod guard;
mod input;
mod newreno;
mod nic_time;
mod parameters;
mod plb;
mod reference;
mod retransmission;
mod sanitize;
mod swift;
mod swift_reference;
