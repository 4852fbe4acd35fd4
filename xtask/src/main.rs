//! The commands for developers: `cargo xtask setup · run · test · bench · experiment · sim · build · dist · package · fmt ·
//! lint · doc · clauses · conformance · figures · matrix · defects · threads · mutants · miri · fuzz`.

mod ahead;
mod bpf;
mod checks;
mod clauses;
mod defects;
mod dist;
mod figures;
mod git;
mod links;
mod matrix;
mod packages;
mod preflight;
mod programs;
mod proof;
mod setup;
mod shell;
mod test;
mod tested;
mod words;

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::{
    ahead::BuildAhead,
    programs::build_programs,
    setup::Scope,
    shell::{Progress, cargo, find_workspace, run, workspace},
};

/// Build, test, measure and demonstrate Tiercel.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Find or install the toolchain, bpf-linker and the tools of the tests; quick if everything is installed
    Setup,
    /// Move a real file between two hosts through a lossy fabric and show what happened (needs root)
    #[command(disable_help_flag = true)]
    Run(Passed),
    /// Run every check and every test, including those that need root (needs root)
    Test(test::Options),
    /// Measure Tiercel and the raw limit of this machine in the same run (needs root)
    #[command(disable_help_flag = true)]
    Bench(Passed),
    /// Show congestion control and loss recovery in a simulated data centre: numbers, plots, a report
    #[command(disable_help_flag = true)]
    Experiment(Passed),
    /// Play whole networks on virtual time, each decided by a seed, and check them after every event
    #[command(disable_help_flag = true)]
    Sim(Passed),
    /// Put defects back, one at a time, and let the simulation or a test find them; takes an hour
    Defects(defects::Options),
    /// Try other kernels and network cards in QEMU guests, and write docs/platforms.md (needs root)
    Matrix(matrix::Options),
    /// Print the BPF objects of this machine's kernel as JSON; guests of the matrix run it
    #[command(hide = true)]
    BpfInventory,
    /// Build the XDP programs and the workspace, optimised
    Build,
    /// Build the Debian package of the node program, with its manual, completions and systemd unit
    Dist(dist::Options),
    /// Pack the crates for crates.io, and compile each from its package
    Package,
    /// Format all crates
    Fmt,
    /// Check the format, citations, links and what crates.io wants, and run clippy over all crates, including the XDP programs
    Lint,
    /// Check that the library and the node program compile for arm64 (needs a nightly toolchain)
    Arm64,
    /// Build the documentation; warnings are errors
    Doc,
    /// Check every citation of the specification and write docs/spec/coverage.md: clause, code, test
    Clauses,
    /// Run the simulated experiments and draw the pictures of docs/experiments again
    Figures,
    /// Try every order of the accesses to the memory that CPUs share; part of `cargo xtask test`
    Threads,
    /// Change the core in one place at a time, and list the changes that no test notices; takes hours
    Mutants(proof::Mutants),
    /// Run the core's tests in Miri, which finds undefined behaviour; takes half an hour
    Miri,
    /// Run the fuzz targets, each for some time
    Fuzz(proof::Fuzz),
    /// Count the requirements that a test shows, with the reasons for the others; write docs/conformance.md
    Conformance(clauses::conformance::Options),
}

/// The program behind `cargo xtask run`.
const DEMO: &str = "demo";

/// The program behind `cargo xtask sim`.
const SIM: &str = "sim";

/// The arguments for the program that is started.
#[derive(Args)]
struct Passed {
    /// Arguments of the program; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Passed {
    /// Returns whether the arguments ask for help. Help needs neither root nor a suitable machine.
    fn asks_for_help(&self) -> bool {
        self.args.iter().any(|arg| arg == "--help" || arg == "-h")
    }
}

fn main() -> ExitCode {
    match perform(Cli::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<ExitCode> {
    let progress = Progress::start();
    // Guests have this program, and no sources.
    if !matches!(task, Task::BpfInventory) {
        find_workspace()?;
    }
    match task {
        Task::Setup => {
            setup::setup(Scope::Checks, &mut BuildAhead::of(&[]), &progress)?;
        }
        Task::Run(passed) => return start_with_packets(DEMO, &passed, &progress),
        Task::Bench(passed) => return start_with_packets("bench", &passed, &progress),
        Task::Experiment(passed) => return start("experiment", &passed, &progress, || Ok(())),
        Task::Sim(passed) => return start(SIM, &passed, &progress, || Ok(())),
        Task::Defects(options) => return defects::defects(&options, &progress),
        Task::Matrix(options) => return matrix::matrix(&options, &progress),
        Task::BpfInventory => {
            matrix::print_inventory()?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Test(options) => return test::test(&options, &progress),
        Task::Build => {
            let arguments = ["build", "--release", "--workspace"];
            let mut ahead = BuildAhead::of(&arguments);
            setup::setup(Scope::Build, &mut ahead, &progress)?;
            build_programs(ahead, &progress)?;
            progress.say("building the workspace");
            run(cargo().args(arguments))?;
        }
        Task::Dist(options) => dist::dist(&options, &progress)?,
        Task::Package => packages::package(&progress)?,
        Task::Fmt => checks::format(&progress)?,
        Task::Lint => {
            setup::setup(Scope::Checks, &mut BuildAhead::of(&[]), &progress)?;
            let complaints = checks::complaints(checks::LINTS, &progress);
            if !complaints.is_empty() {
                bail!("{}", complaints.join("; "));
            }
        }
        Task::Arm64 => {
            setup::setup(Scope::Build, &mut BuildAhead::of(&[]), &progress)?;
            checks::compiles_for_arm64(&progress)?;
        }
        Task::Doc => {
            setup::setup(Scope::Build, &mut BuildAhead::of(&[]), &progress)?;
            checks::document(&progress)?;
        }
        Task::Figures => {
            setup::setup(Scope::Build, &mut BuildAhead::of(&[]), &progress)?;
            figures::draw(&progress)?;
        }
        Task::Threads => proof::threads(&progress)?,
        Task::Mutants(options) => proof::mutants(&options, &progress)?,
        Task::Miri => proof::miri(&progress)?,
        Task::Fuzz(options) => proof::fuzz(&options, &progress)?,
        Task::Clauses => clauses::write(workspace(), &progress)?,
        Task::Conformance(options) => {
            return clauses::conformance::conformance(workspace(), &options, &progress);
        }
    }
    progress.say("done");
    Ok(ExitCode::SUCCESS)
}

/// Builds and starts a program of the tests crate with the given arguments, and returns its exit code. Calls
/// `fit` as soon as the tools are installed, to check whether the machine can run the program.
fn start(
    program: &'static str,
    passed: &Passed,
    progress: &Progress,
    fit: impl FnOnce() -> Result<()>,
) -> Result<ExitCode> {
    let package = package_of(program);
    let build: Vec<&str> = ["build"].into_iter().chain(package.iter().copied()).collect();
    let mut ahead = BuildAhead::of(&build);
    setup::setup(Scope::Build, &mut ahead, progress)?;
    fit()?;
    build_programs(ahead, progress)?;
    progress.say(&format!("building the program `{program}`"));
    run(cargo().args(build))?;
    progress.say(&format!("starting the program `{program}`"));
    let status = cargo().args(["run", "--quiet"]).args(package).arg("--").args(&passed.args).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { exit_code(status.code()) })
}

/// Returns cargo's arguments for a program of the tests crate. The demo needs only the fabric of the hardware
/// model. The rest of the hardware model is a third of the compiler's work, so it is left out.
fn package_of(program: &'static str) -> Vec<&'static str> {
    // The simulation checks the core's debug assertions too.
    let profile = if program == SIM { "test" } else { "release" };
    let mut package = vec!["--profile", profile, "--package", "tiercel-tests", "--bin", program];
    if program == DEMO {
        package.push("--no-default-features");
    }
    package
}

/// Builds and starts a program that needs root and the features of the kernel that the preflight checks test.
fn start_with_packets(program: &'static str, passed: &Passed, progress: &Progress) -> Result<ExitCode> {
    if passed.asks_for_help() {
        return start(program, passed, progress, || Ok(()));
    }
    preflight::kernel()?;
    start(program, passed, progress, || Ok(preflight::veth()?))
}

/// Returns the exit code of a failed child; 1 if a signal ended it.
fn exit_code(code: Option<i32>) -> ExitCode {
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
