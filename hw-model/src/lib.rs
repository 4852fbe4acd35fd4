//! The hardware models, and what is done with them: the program `tiercel-model`, reached as `tiercel model`.
//!
//! The models are crates of their own; each of them can be used without those below it in this list, and its first page
//! says what it is for. Arrows point up only: a crate uses those above it.
//!
//! | crate | directory | what it is |
//! |---|---|---|
//! | `clocked` | `clocked` | registers, memories, queues and timers in cycles: what the cards are made of |
//! | `fabric_model` | `fabric` | frames through links and switches on virtual time, with impairments |
//! | `p4_subset` | `p4` | a subset of P4-16: compiler, machine, cost in hardware; knows nothing of Falcon |
//! | `model_experiment` | `experiment` | what an experiment is told and gives |
//! | `host_nic` | `host-nic` | the datapath over plain memory: one node, on a clock that is told |
//! | `reference_senders` | `reference-senders` | TCP and DCQCN from their RFCs and papers, to compare with |
//! | `swift_p4` | `swift-p4` | Swift in P4, compared with the datapath's, bit for bit |
//! | `context_cache` | `context-cache` | a cache of connection contexts in front of memory, in cycles |
//! | `tonic_model` | `tonic` | Tonic, programmable transport logic, in cycles |
//! | `datacentre` | `datacentre` | hosts that run the datapath and switches between them, on virtual time |
//! | `falcon_nic` | `falcon-nic` | a card that runs the datapath block by block, in cycles |
//! | `tonic_network` | `tonic-network` | hosts with a Tonic each on the fabric, beside the reference senders |
//! | `trace_replay` | `replay` | a recorded trace of the real datapath, decided again and compared |
//!
//! Here are only the list of all [`experiments`] and the program.

pub mod experiments;
