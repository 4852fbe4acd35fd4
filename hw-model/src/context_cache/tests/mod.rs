//! The cache against a slow oracle, and by hand.

mod bench;
mod checker;
mod latencies;
mod model_check;
mod parameters;
mod policy;
mod table;
mod writes;

use bench::{Bench, Load};
use checker::{Log, command};
