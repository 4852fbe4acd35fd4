//! Experiments with Tonic. Each returns results that can be serialised, and claims about them.
//!
//! | name | question |
//! |---|---|
//! | `tonic-hardware` | does the model behave like the published hardware in every cycle? |
//! | `tonic-saturation` | how many segments per second, with how many flows and outstanding addresses? |
//! | `tonic-rate-limiter` | how precise is a rate limiter with integers? |
//! | `tonic-conflicts` | what happens when several events of one flow occur in one cycle? |
//! | `tonic-protocols` | what does a protocol cost, and does it fit? |
//! | `tonic-delivery` | does every protocol deliver every segment? |
//! | `tonic-speed` | how fast is the model itself? |
//!
//! `tiercel model experiment NAME` runs one from the command line, [`run()`] from a program. [`ALL`] lists them in
//! the form of the common report. `docs/model/tonic.md` describes the results.

mod claim;
mod conflicts;
mod delivery;
mod rate_limiter;
mod saturation;
mod speed;
mod tables;
mod trace;

use serde::{Deserialize, Serialize};

use super::published::{self, Comparison, Data, DataError};
use super::report::{self, ProtocolReport};

pub use claim::{Claim, Progress};
pub use conflicts::{Conflicts, TimeoutRace};
pub use delivery::{Delivery, DeliveryRow};
pub use rate_limiter::{RateLimiter, RateRow};
pub use saturation::{RateLimitedRow, Saturation, SaturationRow};
pub use speed::{Speed, SpeedRow};
pub use tables::ALL;
pub use trace::record;

/// The names of the experiments.
pub const NAMES: [&str; 7] = [
    "tonic-hardware",
    "tonic-saturation",
    "tonic-rate-limiter",
    "tonic-conflicts",
    "tonic-protocols",
    "tonic-delivery",
    "tonic-speed",
];

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// `tonic-hardware`
    Hardware(Comparison),
    /// `tonic-saturation`
    Saturation(Saturation),
    /// `tonic-rate-limiter`
    RateLimiter(RateLimiter),
    /// `tonic-conflicts`
    Conflicts(Conflicts),
    /// `tonic-protocols`
    Protocols(Vec<ProtocolReport>),
    /// `tonic-delivery`
    Delivery(Delivery),
    /// `tonic-speed`
    Speed(Speed),
}

/// The report of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The name of the experiment.
    pub experiment: String,
    /// The claims, and whether they hold.
    pub claims: Vec<Claim>,
    /// The numbers.
    pub results: Results,
}

/// The reason why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// There is no experiment with this name.
    #[error("there is no experiment `{0}`: choose from {known}", known = NAMES.join(", "))]
    Unknown(String),
    /// The data for the comparison cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Runs an experiment. `seed` is the seed of the impaired paths. Nothing else is random.
///
/// # Errors
/// Returns [`ExperimentError::Unknown`] if there is no experiment `name`, or [`ExperimentError::Data`] if the data
/// that comes with the model cannot be used.
pub fn run(name: &str, seed: u64, progress: Progress<'_>) -> Result<Report, ExperimentError> {
    let (claims, results) = match name {
        "tonic-hardware" => hardware(published::OPEN_SET)?,
        "tonic-saturation" => wrap(saturation::run(progress), Results::Saturation),
        "tonic-rate-limiter" => wrap(rate_limiter::run(progress), Results::RateLimiter),
        "tonic-conflicts" => wrap(conflicts::run(), Results::Conflicts),
        "tonic-protocols" => protocols(),
        "tonic-delivery" => wrap(delivery::run(seed, progress), Results::Delivery),
        "tonic-speed" => wrap(speed::run(progress), Results::Speed),
        unknown => return Err(ExperimentError::Unknown(unknown.to_owned())),
    };
    Ok(Report { experiment: name.to_owned(), claims, results })
}

/// Converts the results of an experiment to [`Results`].
fn wrap<T>((claims, found): (Vec<Claim>, T), results: fn(T) -> Results) -> (Vec<Claim>, Results) {
    (claims, results(found))
}

/// Compares the model with the text of a file of measured data.
///
/// # Errors
/// Returns [`ExperimentError::Data`] if the data cannot be used.
pub fn compare_with(text: &str) -> Result<Report, ExperimentError> {
    let (claims, results) = hardware(text)?;
    Ok(Report { experiment: NAMES[0].to_owned(), claims, results })
}

fn hardware(text: &str) -> Result<(Vec<Claim>, Results), ExperimentError> {
    let comparison = published::compare(&Data::parse(text)?)?;
    let claims = vec![
        Claim::new("every latency and every event of a single segment equals the hardware's", {
            let equal = comparison.latency.cycles.values().all(|(model, data)| model == data);
            equal && comparison.latency.difference.is_none()
        }),
        Claim::new(
            "one, two and four flows send as many segments as the hardware, in the same order and cycles",
            comparison
                .rates
                .iter()
                .all(|run| run.digest_equal && run.segments.values().all(|(model, data)| model == data)),
        ),
        Claim::new(
            "every row of every trace equals the hardware's, in the same cycle",
            comparison.traces.iter().all(|trace| trace.digest_equal && trace.difference.is_none()),
        ),
    ];
    Ok((claims, Results::Hardware(comparison)))
}

fn protocols() -> (Vec<Claim>, Results) {
    let reports = report::reports();
    let claims = vec![
        Claim::new("each protocol has less than 200 lines", reports.iter().all(|of| of.lines < 200)),
        Claim::new(
            "each user state is within table 4",
            reports.iter().all(|of| of.state_bytes <= of.state_limit),
        ),
    ];
    (claims, Results::Protocols(reports))
}
