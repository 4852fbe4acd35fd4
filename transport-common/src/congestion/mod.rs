//! Congestion control (section 10): what the rate update engine is told, what it answers, and how it decides.
//!
//! | module | contents |
//! |---|---|
//! | [`nic_time`] | 24-bit event time and the four delays of T1 to T4 (10.1) |
//! | [`event`], [`result`] | the entries of the two queues, unpacked and as 64 bytes (10.6.2) |
//! | [`admission`] | which events enter the queue (10.6.1) |
//! | [`parameters`] | settings of the engine with their ranges and defaults (10.5) |
//! | [`algorithm`] | the trait of an algorithm, the list of ours, the choice among them |
//! | [`swift`], [`plb`] | Swift with PLB (10.3, 10.4) |
//! | [`dcqcn`], [`newreno`], [`fixed`] | further algorithms |
//! | [`control`] | a connection's windows, timeout and pacing; its events and results |
//! | [`settings`] | who decides for a connection, and how |
//! | [`queues`] | the memory that datapath and user-space engine share |
//! | [`window`] | the parts that algorithms share: smoothing, NIC window, pacing gap, timeout |
//!
//! An algorithm is a pure function of an event, its own small state and the parameters; the kernel and the
//! user-space engine run the same one. All of it is integer: [`fixed_point`] tells the formats.

pub mod admission;
pub mod algorithm;
pub mod control;
pub mod dcqcn;
pub mod entry;
pub mod event;
pub mod fixed;
pub mod fixed_point;
pub mod flow_scaling;
pub mod histogram;
pub mod newreno;
pub mod nic_time;
pub mod parameters;
pub mod path;
pub mod plb;
pub mod queues;
pub mod result;
pub mod settings;
pub mod swift;
pub mod window;
