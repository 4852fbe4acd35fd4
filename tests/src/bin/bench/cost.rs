//! The cost of the programs: the kernel's own count of their runs and of the time in them.

use anyhow::{Context, Result};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;
use tiercel_tests::Host;

/// Time in one host's program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Runs of the program per operation. At the sender they include the engine's idle runs.
    pub(crate) runs_per_operation: f64,
    /// Mean time of a run, including the kernel's two reads of the clock.
    pub(crate) nanoseconds_per_run: f64,
    pub(crate) nanoseconds_per_operation: f64,
}

/// Runs `work`, which returns the number of its operations, and returns their cost in each of the programs.
///
/// The kernel counts only during this call. If another process has enabled the count, it continues.
pub(crate) fn of(programs: [u32; 2], work: impl FnOnce() -> Result<u64>) -> Result<[Cost; 2]> {
    let counting =
        enable_stats(Stats::RunTime).context("the kernel cannot count the runs of BPF programs")?;
    let before = [Runs::of(programs[0])?, Runs::of(programs[1])?];
    let operations = work()?;
    let after = [Runs::of(programs[0])?, Runs::of(programs[1])?];
    drop(counting);
    Ok([0, 1].map(|n| after[n].cost_since(before[n], operations)))
}

/// Returns the XDP program attached to a host's interface.
pub(crate) fn attached(host: &Host) -> Result<u32> {
    let links = host.command("ip", ["-json", "link", "show", "dev", Host::INTERFACE])?;
    let links: serde_json::Value = serde_json::from_str(&links)?;
    let id = links[0]["xdp"]["prog"]["id"].as_u64();
    Ok(id.context("the interface has no XDP program")?.try_into()?)
}

#[derive(Clone, Copy, Debug)]
struct Runs {
    count: u64,
    nanoseconds: u64,
}

impl Runs {
    fn of(program: u32) -> Result<Self> {
        // Programs of other processes may disappear during the search.
        let info = loaded_programs().flatten().find(|info| info.id() == program);
        let info = info.with_context(|| format!("BPF program {program} is gone"))?;
        Ok(Self { count: info.run_count(), nanoseconds: u64::try_from(info.run_time().as_nanos())? })
    }

    fn cost_since(self, before: Self, operations: u64) -> Cost {
        let runs = (self.count - before.count) as f64;
        let nanoseconds = (self.nanoseconds - before.nanoseconds) as f64;
        let operations = operations.max(1) as f64;
        Cost {
            runs_per_operation: runs / operations,
            nanoseconds_per_run: nanoseconds / runs.max(1.0),
            nanoseconds_per_operation: nanoseconds / operations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_of_the_time_between() {
        let before = Runs { count: 100, nanoseconds: 5_000 };
        let after = Runs { count: 400, nanoseconds: 35_000 };
        let cost = after.cost_since(before, 200);
        assert_eq!(
            (cost.runs_per_operation, cost.nanoseconds_per_run, cost.nanoseconds_per_operation),
            (1.5, 100.0, 150.0)
        );
    }
}
