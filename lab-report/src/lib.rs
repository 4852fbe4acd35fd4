//! The results of an experiment: the numbers of its runs, promises and whether they were kept, and figures.
//!
//! A promise is an expected bound of a measured number. The simulated and the live experiments of the tests and
//! those of the hardware model all report with these types. So they have the same JSON, the same table on the
//! terminal, the same figures and the same page.

mod figure;
mod html;
mod markdown;
mod plot;
mod result;
mod rows;
mod statistics;
mod table;
mod write;

pub use figure::{Axis, Figure, Line, Look, Scale, difference};
pub use html::page;

pub use plot::{DrawError, number, svg};
pub use result::{Bound, Case, Experiment, Report, Value, Verdict, World};
pub use statistics::{jain, mean, quantile};
pub use table::show;
pub use write::WriteError;
