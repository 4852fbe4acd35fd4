//! Tests the cache against a slow reference model, and against numbers calculated by hand.

mod bench;
mod checker;
mod experiments;
mod latencies;
mod model_check;
mod parameters;
mod policy;
mod table;
mod trace;
mod writes;

use bench::{Bench, Load};
use checker::{Log, command};
