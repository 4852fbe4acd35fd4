//! `tiercel`: runs a node of the Falcon transport, and sends commands to running nodes.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};

mod cli;
#[cfg(test)]
mod cli_tests;
mod conformance;
mod connection_arguments;
mod copy;
mod decode;
mod exit;
mod generate;
mod interrupt;
mod model;
mod operate;
mod output;
mod service_manager;
mod show;
mod stdout;
mod talk;
mod trace;
mod up;
mod up_arguments;
mod values;
mod verb_arguments;
mod wait;
mod watch;

use cli::{Cli, Command};
use exit::Exit;
use talk::Node;

/// Lines that wait for a slow reader of the log. Further ones are lost.
const LOG_LINES: usize = 4096;
/// Longest time that work on files has when the program ends.
const LAST_WORK: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let json = cli.json;
    let _log = start_logging(&cli);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::node(format!("cannot start: {error}")).report(json),
    };
    let outcome = runtime.block_on(run(cli));
    // A file system that does not answer does not keep the program.
    runtime.shutdown_timeout(LAST_WORK);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(json),
    }
}

/// Reports a command line that is wrong, or prints the requested help. With `--json`, the error is JSON as well.
fn misused(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() {
        output::print_help(error);
        return ExitCode::SUCCESS;
    }
    if !json {
        error.exit();
    }
    let text = error.render().to_string();
    Exit::usage(text.trim_start_matches("error: ").trim_end()).report(true)
}

/// Starts logging to stderr. A node logs information messages by default, a client only warnings. A thread of its own
/// writes them: whoever reads the log of a node may stop reading, and a full pipe must stop nothing but the log. The
/// guard writes the rest when it is dropped.
fn start_logging(cli: &Cli) -> WorkerGuard {
    // A node says at once what others say on request.
    let said = cli.verbose + u8::from(matches!(cli.command, Command::Up(_)));
    let level = match said {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let writer = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LOG_LINES);
    let (writer, guard) = writer.finish(std::io::stderr());
    tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(level)
        .with_target(false)
        .init();
    guard
}

async fn run(cli: Cli) -> Result<(), Exit> {
    let node = Node::new(cli.socket, cli.node, cli.timeout);
    let json = cli.json;
    match cli.command {
        Command::Up(arguments) => up::up(*arguments, node).await,
        Command::Down => show::down(&node, json).await,
        Command::Status => show::status(&node, json).await,
        Command::Stats { all } => show::stats(&node, all, json).await,
        Command::Conn(command) => show::connections(&node, command, json).await,
        Command::Mr(command) => operate::regions(&node, command, json).await,
        Command::Write { remote, data, immediate } => {
            operate::write(&node, remote, data, immediate, json).await
        }
        Command::Read { remote, length, to } => operate::read(&node, remote, length, to, json).await,
        Command::Send { cid, data, immediate } => operate::send(&node, cid, data, immediate, json).await,
        Command::Recv(command) => operate::receives(&node, command, json).await,
        Command::Atomic(command) => operate::atomic(&node, command, json).await,
        Command::Cp { places, via, overwrite, recursive } => {
            let how = copy::How { via: via.into(), overwrite, recursive };
            copy::copy(&node, places, how, json).await
        }
        Command::Trace { out, runs, duration, command } => {
            trace::trace(&node, &out, trace::Limits { runs, duration, command }, json).await
        }
        Command::Decode { file, hex, falcon } => decode::decode(file, hex, falcon, json),
        Command::Conformance(arguments) => conformance::conformance(&arguments, json),
        Command::Completions { shell } => generate::completions(shell, json),
        Command::Man { directory } => generate::manual(&directory, json),
        Command::Model { arguments } => Err(model::run(arguments, json)),
    }
}
