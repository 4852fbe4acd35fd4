//! `cargo xtask matrix` runs Tiercel on other kernels and other network cards, in QEMU guests.

mod accelerator;
mod evidence;
mod guest;
mod initrd;
mod inside;
mod install;
mod kernel;
mod lab;
mod network;
mod nic;
mod packages;
mod patience;
mod refusals;
mod report;
mod row;
mod said;
mod scenario;
mod scratch;
mod verifier;

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;

pub(crate) use inside::print_inventory;

use self::{
    accelerator::choose_accelerator,
    guest::{Accelerator, QEMU},
    kernel::{Kernel, Wanted},
    nic::Nic,
    packages::Archive,
    patience::Patience,
    report::{Results, Verified},
    row::{Row, RowResults},
    scenario::Scenario,
    scratch::Scratch,
};
use crate::{
    ahead::BuildAhead,
    git,
    programs::build_programs,
    setup::{self, Scope},
    shell::{Progress, cargo, is_root, run, target_dir, workspace},
};

/// Required programs, and the packages that contain them.
const TOOLS: [(&str, &str); 4] =
    [(QEMU, "qemu-system-x86"), ("ip", "iproute2"), ("busybox", "busybox-static"), ("xz", "xz-utils")];
/// The kernels of a complete run.
const KERNELS: [Wanted; 4] =
    [Wanted::Series(6, 1), Wanted::Series(6, 12), Wanted::Series(6, 16), Wanted::Newest];
const NICS: [Nic; 4] = [Nic::VirtioNet, Nic::VirtioNetQueues, Nic::VirtioNetGeneric, Nic::E1000e];
/// The scenarios of `--quick`, and how long they may take after the first boot.
const QUICK: [Scenario; 6] =
    [Scenario::Start, Scenario::Connect, Scenario::Cp, Scenario::Loss, Scenario::Trace, Scenario::CleanUp];
const QUICK_LIMIT: Duration = Duration::from_secs(8 * 60);
/// The files that are written: the results, and the page that is made from them.
const RESULTS: &str = "docs/platforms.json";
const PAGE: &str = "docs/platforms.md";

/// Options of `cargo xtask matrix`.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Only this kernel: a series such as 6.12, or newest. May be repeated
    #[arg(long, value_name = "SERIES")]
    kernel: Vec<Wanted>,
    /// Only this network card. May be repeated
    #[arg(long, value_enum)]
    nic: Vec<Nic>,
    /// Only this scenario. May be repeated
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// The newest kernel and virtio_net with the most important scenarios, in less than ten minutes; writes no page
    #[arg(long)]
    quick: bool,
    /// Install this Debian package in a guest with Debian and systemd, use it, remove it and purge it; nothing else
    #[arg(long, value_name = "DEB", conflicts_with_all = ["nic", "scenario", "quick", "tiercel", "json"])]
    install: Option<PathBuf>,
    /// Write the results of this run to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run this program in place of the one that is built
    #[arg(long, value_name = "FILE")]
    tiercel: Option<PathBuf>,
}

impl Options {
    fn kernels(&self) -> Vec<Wanted> {
        let one = self.quick || self.install.is_some();
        let all: &[Wanted] = if one { &[Wanted::Newest] } else { &KERNELS };
        if self.kernel.is_empty() { all.to_vec() } else { self.kernel.clone() }
    }

    fn nics(&self) -> Vec<Nic> {
        let all: &[Nic] = if self.quick { &[Nic::VirtioNet] } else { &NICS };
        if self.nic.is_empty() { all.to_vec() } else { self.nic.clone() }
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let all: &[Scenario] = if self.quick { &QUICK } else { &Scenario::ALL };
        if self.scenario.is_empty() { all.to_vec() } else { self.scenario.clone() }
    }
}

/// Runs the matrix, or the requested part of it. The exit code reports whether something failed.
///
/// # Errors
/// If the guests, the kernels or the program are not available.
pub(crate) fn matrix(options: &Options, progress: &Progress) -> Result<ExitCode> {
    let kernels = prepare(options, progress).context("the matrix cannot be run")?;
    if let Some(package) = &options.install {
        return install::try_all(package, &kernels, progress);
    }
    let mut results = Results::default();
    let patience = Patience::new(options.quick.then_some(QUICK_LIMIT))?;
    let ended = run_all(options, &kernels, &patience, progress, &mut results);
    print!("{}", results.page());
    if let Some(file) = &options.json {
        fs::write(file, results.to_json()?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if !options.quick {
        write_page(&results)?; // Also includes what ran before an interruption.
    }
    ended?;
    let faults = results.faults();
    for fault in &faults {
        eprintln!("error: {fault}");
    }
    progress.say(&format!("done: {} tried, {} failed", results.cells.len(), faults.len()));
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of `--quick`.
pub(crate) enum Quick {
    /// It ran. There is one sentence for each failure.
    Ran(Vec<String>),
    /// It cannot run on this machine, for this reason.
    NotHere(String),
}

/// What the scenarios of `--quick` need: its options and kernels, or why they cannot run on this machine.
pub(crate) struct QuickNeeds(Result<(Options, Vec<Kernel>), String>);

impl QuickNeeds {
    /// Installs QEMU and fetches the kernel. `tiercel` is the program to try; it need not exist yet.
    pub(crate) fn get(tiercel: PathBuf, progress: &Progress) -> Self {
        let options = Options { quick: true, tiercel: Some(tiercel), ..Options::default() };
        Self(match prepare(&options, progress) {
            Ok(kernels) => Ok((options, kernels)),
            Err(reason) => Err(format!("{reason:#}")),
        })
    }
}

/// Runs the scenarios of `--quick` with a program that is already built. `cargo xtask test` calls it.
///
/// # Errors
/// If it was interrupted, or could not continue.
pub(crate) fn quick(needs: QuickNeeds, progress: &Progress) -> Result<Quick> {
    let (options, kernels) = match needs.0 {
        Ok(needs) => needs,
        Err(reason) => return Ok(Quick::NotHere(reason)),
    };
    let mut results = Results::default();
    let patience = Patience::new(Some(QUICK_LIMIT))?;
    let ended = run_all(&options, &kernels, &patience, progress, &mut results);
    let faults = results.faults();
    match ended {
        Err(reason) if patience.is_over() && faults.is_empty() => {
            Ok(Quick::NotHere(format!("this machine is too slow or too busy: {reason:#}")))
        }
        _ => ended.map(|()| Quick::Ran(faults)),
    }
}

/// Gets QEMU, the tools and the kernels.
fn prepare(options: &Options, progress: &Progress) -> Result<Vec<Kernel>> {
    if !is_root() {
        bail!("only root may make taps and network namespaces: run `cargo xtask matrix` as root");
    }
    setup::programs(&TOOLS, progress).context("guests need QEMU and some tools")?;
    let folder = target_dir().join("matrix");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let archive = Archive::open(&folder.join("apt"), progress)?;
    let kernels = options.kernels().into_iter();
    kernels.map(|wanted| kernel::fetch(&archive, wanted, &folder.join("kernels"), progress)).collect()
}

/// Runs everything that was requested on the kernels.
fn run_all(
    options: &Options,
    kernels: &[Kernel],
    patience: &Patience,
    progress: &Progress,
    results: &mut Results,
) -> Result<()> {
    let tiercel = program(options, progress)?;
    let scratch = Scratch::new()?;
    // A copy of the running program. A build may have replaced its file since it started.
    let own = scratch.path().join("xtask");
    fs::copy("/proc/self/exe", &own).context("cannot copy this program")?;
    let programs = [("tiercel", tiercel), ("xtask", own)];
    let commit = match &options.tiercel {
        Some(program) => format!("program {}", program.file_name().unwrap_or_default().display()),
        None => commit(),
    };
    let mut run = Run { options, progress, patience, scratch, programs, accelerator: None, commit };
    for kernel in kernels {
        run.kernel(kernel, results)?;
    }
    Ok(())
}

/// Returns the program that runs in the guests.
fn program(options: &Options, progress: &Progress) -> Result<PathBuf> {
    if let Some(program) = &options.tiercel {
        return fs::canonicalize(program).with_context(|| format!("no program {}", program.display()));
    }
    let build = ["build", "--release", "--package", "tiercel-cli", "--bin", "tiercel"];
    let mut ahead = BuildAhead::of(&build);
    setup::setup(Scope::Build, &mut ahead, progress)?;
    build_programs(ahead, progress)?;
    progress.say("building the program `tiercel`");
    run(cargo().args(build))?;
    Ok(target_dir().join("release/tiercel"))
}

/// One run of the command.
struct Run<'a> {
    options: &'a Options,
    progress: &'a Progress,
    patience: &'a Patience,
    scratch: Scratch,
    /// What the guests have in `/usr/bin`.
    programs: [(&'static str, PathBuf); 2],
    /// Known after a guest has been booted.
    accelerator: Option<Accelerator>,
    commit: String,
}

impl Run<'_> {
    /// Runs everything that was requested on one kernel.
    fn kernel(&mut self, kernel: &Kernel, results: &mut Results) -> Result<()> {
        initrd::pack(kernel, &self.programs, &self.scratch.path().join("initrd"))?;
        let accelerator = match self.accelerator {
            Some(accelerator) => accelerator,
            None => *self.accelerator.insert(choose_accelerator(
                kernel,
                self.scratch.path(),
                self.patience,
                self.progress,
            )?),
        };
        for nic in self.options.nics() {
            let row = Row {
                kernel,
                nic,
                scenarios: self.options.scenarios(),
                accelerator,
                folder: self.scratch.path(),
                evidence: &target_dir().join("matrix/failed"),
                patience: self.patience,
                progress: self.progress,
                date: today(),
                commit: &self.commit,
            };
            // The network is in a network namespace that disappears with the thread.
            let done =
                thread::scope(|scope| scope.spawn(|| row.run()).join()).expect("a row does not panic")?;
            self.add(kernel, done, results);
            if kernel.is_too_old() {
                break; // The refusal does not depend on the card.
            }
        }
        Ok(())
    }

    fn add(&self, kernel: &Kernel, done: RowResults, results: &mut Results) {
        let verified = Verified {
            kernel: kernel.series(),
            release: kernel.release.to_string(),
            date: today(),
            programs: done.verified,
        };
        results.merge(&Results { cells: done.cells, verified: vec![verified] });
    }
}

/// Updates the page and the results that an earlier run wrote.
fn write_page(results: &Results) -> Result<()> {
    let file = workspace().join(RESULTS);
    let mut all = Results::read(&file)?;
    all.merge(results);
    fs::write(file, all.to_json()?).with_context(|| format!("cannot write {RESULTS}"))?;
    fs::write(workspace().join(PAGE), all.page()).with_context(|| format!("cannot write {PAGE}"))
}

/// Returns the date in UTC.
fn today() -> String {
    said(Command::new("date").args(["-u", "+%F"])).unwrap_or_default()
}

/// Returns the commit, with a `+` if the sources have changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| git::said(workspace(), arguments).ok();
    let changes = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"];
    let changed = git(&changes).is_some_and(|changes| !changes.is_empty());
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    commit + if changed { "+" } else { "" }
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_narrows_what_quick_or_the_whole_run_tries() {
        let whole = Options::default();
        assert_eq!(whole.kernels(), KERNELS);
        assert_eq!(whole.scenarios(), Scenario::ALL);
        let quick = Options { scenario: vec![Scenario::Mtu], quick: true, ..Options::default() };
        assert_eq!((quick.kernels(), quick.nics()), (vec![Wanted::Newest], vec![Nic::VirtioNet]));
        assert_eq!(quick.scenarios(), [Scenario::Mtu]);
    }

    #[test]
    fn the_page_is_made_of_the_results() {
        let results = Results::read(&workspace().join(RESULTS)).unwrap();
        let page = fs::read_to_string(workspace().join(PAGE)).unwrap();
        assert_eq!(page, results.page(), "run `cargo xtask matrix`, or take back what was changed by hand");
    }
}
