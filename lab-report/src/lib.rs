//! What an experiment showed, however it was made: numbers of its runs, promises and whether they were kept, figures.
//!
//! The simulated and the live experiments of the tests and those of the hardware model report with these types; so
//! there is one JSON, one table on the terminal, one kind of picture and one page.

mod figure;
mod html;
mod plot;
mod result;
mod statistics;
mod table;

pub use figure::{Axis, Figure, Line, Look, Scale};
pub use html::page;
pub use plot::{DrawError, number, svg};
pub use result::{Bound, Case, Experiment, Report, Value, Verdict, World, WriteError};
pub use statistics::{jain, mean, quantile};
pub use table::show;
