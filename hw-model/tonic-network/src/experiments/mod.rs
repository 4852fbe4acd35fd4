//! Experiments with Tonics on the network, as section 6.2 of the paper has them.
//!
//! | name | question |
//! |---|---|
//! | `tonic-new-reno` | does Tonic's NewReno lose and recover as the RFCs' does? |
//! | `tonic-new-reno-flows` | do 200 flows share a link as with the RFCs' sender? |
//! | `tonic-new-reno-ns3` | and as with ns-3's? |
//! | `tonic-dcqcn` | do two flows take the rates of the paper's reaction point? |
//! | `tonic-dcqcn-flows` | how evenly do 200 flows share a link? |
//! | `tonic-network-delivery` | does every protocol deliver every segment over a bad fabric? |

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

/// All of them.
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
