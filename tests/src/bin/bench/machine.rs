//! The machine: its type, how busy other processes keep it, and its CPUs.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

/// The application's CPU.
pub(crate) const APPLICATION_CPU: usize = 0;
/// The busy engine's CPU.
pub(crate) const ENGINE_CPU: usize = 1;
/// The time for which the CPUs are observed before the first measurement.
const WATCHED: Duration = Duration::from_millis(300);
/// Share of the CPUs' time that other processes may take. Above it, the bench warns.
const QUIET: f64 = 0.05;

/// The machine and its load.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) cpus: usize,
    /// Share of all CPUs' time in use before the bench began, 0 to 1.
    pub(crate) busy_before: f64,
    /// Load average of the last minute.
    pub(crate) load_average_before: f64,
    /// The same at the end. It includes the bench's own two threads.
    pub(crate) load_average_after: f64,
}

impl Machine {
    /// Observes the CPUs for a moment.
    pub(crate) fn look() -> Result<Self> {
        let before = CpuTime::now()?;
        thread::sleep(WATCHED);
        let load = load_average()?;
        Ok(Self {
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            processor: processor(&read("/proc/cpuinfo")?),
            cpus: thread::available_parallelism()?.into(),
            busy_before: CpuTime::now()?.busy_since(before),
            load_average_before: load,
            load_average_after: load,
        })
    }

    /// Reads the load again. Must be called after all measurements.
    pub(crate) fn look_again(&mut self) -> Result<()> {
        self.load_average_after = load_average()?;
        Ok(())
    }

    /// Returns whether other processes used the machine.
    pub(crate) fn was_busy(&self) -> bool {
        self.busy_before > QUIET
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

fn load_average() -> Result<f64> {
    let text = read("/proc/loadavg")?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.context("/proc/loadavg does not start with a number")
}

fn processor(cpuinfo: &str) -> String {
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Time of all CPUs since boot, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTime {
    all: u64,
    idle: u64,
}

impl CpuTime {
    fn now() -> Result<Self> {
        Self::parse(&read("/proc/stat")?).context("/proc/stat does not start with the sum over all CPUs")
    }

    /// Parses `cpu  user nice system idle iowait irq softirq steal …`. The guests' times after that are
    /// included in user's.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        Some(Self { all: times.iter().sum(), idle: times.get(3)? + times.get(4)? })
    }

    fn busy_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64
    }
}

/// Checks that the machine has the two CPUs that the bench needs.
///
/// # Errors
/// If it has only one.
pub(crate) fn check_cpus() -> Result<()> {
    let cpus = thread::available_parallelism()?.get();
    ensure!(
        cpus > ENGINE_CPU,
        "the bench needs two CPUs, one for the application and one for the engine, but there is only one; use a \
         machine with two"
    );
    Ok(())
}

/// Binds the calling thread to a CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    // SAFETY: zero bytes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPU is within the set's 1024.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: 0 is the calling thread, and the length is that of the set.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    ensure!(result == 0, "cannot bind a thread to CPU {cpu}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Runs `work` on a thread of its own on the application's CPU.
pub(crate) fn as_application<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let bound = || {
        pin(APPLICATION_CPU)?;
        work()
    };
    thread::scope(|scope| scope.spawn(bound).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_use_is_what_is_not_idle() {
        let before =
            CpuTime::parse("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2 3").expect("a line of the kernel");
        assert_eq!(before, CpuTime { all: 100, idle: 80 });
        let after = CpuTime { all: 200, idle: 155 };
        assert!((after.busy_since(before) - 0.25).abs() < 1e-9);
        assert_eq!(CpuTime::parse("intr 1 2"), None);
    }

    #[test]
    fn the_processor_is_named_if_the_kernel_names_it() {
        assert_eq!(processor("vendor_id : X\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert_eq!(processor("BogoMIPS : 50\n"), std::env::consts::ARCH);
    }
}
