//! The program `tiercel-model` (started as `tiercel model`), which runs the experiments with the hardware models.
//!
//! Each model is a crate of its own, in a directory below `hw-model`. Its landing page says what it models and how
//! to start. A crate in this table uses only crates above it:
//!
//! | crate | directory | what it is |
//! |---|---|---|
//! | `clocked` | `clocked` | registers, memories, queues and timers in cycles; the models of cards are built from them |
//! | `fabric_model` | `fabric` | links and switches that carry frames on virtual time, with impairments |
//! | `p4_subset` | `p4` | a subset of P4-16: compiler, machine, cost in hardware; independent of Falcon |
//! | `model_experiment` | `experiment` | the interface of an experiment: its options and its result |
//! | `host_nic` | `host-nic` | the datapath over plain memory: one node, on a clock that the caller sets |
//! | `reference_senders` | `reference-senders` | TCP and DCQCN, written from their RFCs and papers, for comparison |
//! | `swift_p4` | `swift-p4` | Swift as a P4 program, compared bit by bit with the datapath's Swift |
//! | `context_cache` | `context-cache` | a cache of connection contexts in front of memory, in cycles |
//! | `tonic_model` | `tonic` | Tonic, programmable transport logic, in cycles |
//! | `datacentre` | `datacentre` | hosts that run the datapath, and switches between them, on virtual time |
//! | `falcon_nic` | `falcon-nic` | a card that runs the datapath block by block, in cycles |
//! | `tonic_network` | `tonic-network` | hosts with one Tonic each on the fabric, compared with the reference senders |
//! | `trace_replay` | `replay` | replays a recorded trace of the real datapath and compares every decision |
//!
//! This crate itself contains only the list of all [`experiments`] and the program:
//!
//! ```text
//! tiercel model experiment                          list the experiments
//! tiercel model experiment tonic-hardware           run one
//! tiercel model experiment --all --out target/model run all, and write a report with plots
//! tiercel model replay run.trace --rate 200Gbps     replay a trace of the real datapath
//! ```
//!
//! The pages below `docs/model` have what every experiment promises and what was measured; `docs/model.md` lists them.

pub mod experiments;
