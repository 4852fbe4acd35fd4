//! Experiments with Tonics on a network, after section 6.2 of the paper. `tiercel model experiment NAME` runs
//! them.
//!
//! | name | question |
//! |---|---|
//! | `tonic-new-reno` | does Tonic's NewReno detect and repair losses like a sender written from the RFCs? |
//! | `tonic-new-reno-flows` | do 200 NewReno flows share a link as with a sender written from the RFCs? |
//! | `tonic-new-reno-ns3` | does Tonic's NewReno behave like that of ns-3? |
//! | `tonic-dcqcn` | do two flows get the rates of the reaction point in the DCQCN paper? |
//! | `tonic-dcqcn-flows` | how evenly do 200 DCQCN flows share a link? |
//! | `tonic-network-delivery` | does every protocol deliver every segment over an impaired fabric? |
//!
//! [`ALL`] lists them. `docs/model/tonic-network.md` describes the results.

mod common;
mod compare;
mod dcqcn;
mod dcqcn_flows;
mod dcqcn_free;
mod dcqcn_setting;
mod delivery;
mod new_reno;
mod new_reno_flows;
mod outside;

pub use compare::{binned_mean, kolmogorov_smirnov, root_mean_square};
pub use dcqcn::replayed;

use model_experiment::{Named, Run};

use common::LIST;

/// All experiments of this crate.
pub const ALL: &[Named] = &[
    named(0, new_reno::single),
    named(1, new_reno_flows::run),
    named(2, outside::run),
    named(3, dcqcn::pair),
    named(4, dcqcn_flows::run),
    named(5, delivery::run),
];

const fn named(place: usize, run: Run) -> Named {
    let (name, question) = LIST[place];
    Named { name, question, run }
}
