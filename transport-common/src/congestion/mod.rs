//! Congestion control (section 10): the input and the output of the rate update engine, and its algorithms.
//!
//! | module | contents |
//! |---|---|
//! | [`nic_time`] | 24-bit event time and the four delays of T1 to T4 (10.1) |
//! | [`event`], [`result`] | the entries of the two queues, unpacked and as 64 bytes (10.6.2) |
//! | [`admission`] | which events enter the queue (10.6.1) |
//! | [`parameters`] | settings of the engine with their ranges and defaults (10.5) |
//! | [`range`] | checks of a parameter against its range |
//! | [`state`] | what the algorithms keep of a connection in addition to the event |
//! | [`algorithm`] | the trait of an algorithm, the list of the built-in ones, the choice among them |
//! | [`swift`], [`plb`] | Swift with PLB (10.3, 10.4) |
//! | [`dcqcn`], [`newreno`], [`fixed`] | further algorithms |
//! | [`control`] | a connection's windows, timeout and pacing; its events and results |
//! | [`settings`] | where the events of a connection are handled, and how |
//! | [`queues`] | the memory that datapath and user-space engine share |
//! | [`window`] | the parts that algorithms share: smoothing, NIC window, pacing gap, timeout |
//!
//! An algorithm is a pure function of an event, its own small state and the parameters. The kernel and the
//! user-space engine run the same code. All of it is integer arithmetic: [`fixed_point`] describes the formats.

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
pub mod range;
pub mod result;
pub mod settings;
pub mod state;
pub mod swift;
pub mod window;
