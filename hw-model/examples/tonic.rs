//! Makes experiments with Tonic and prints their results as JSON.
//!
//! `cargo run --release -p hw-model --example tonic -- [NAME ...]`; without a name, all of them.

use std::io::{self, IsTerminal, Write};

use hw_model::tonic::experiments::{ExperimentError, NAMES, run};

fn main() -> Result<(), ExperimentError> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names.extend(NAMES.map(str::to_owned));
    }
    let terminal = io::stderr().is_terminal();
    for name in names {
        let report = run(&name, &mut |done, all| {
            if terminal {
                eprint!("\r{name}: {done} of {all} ");
            }
        })?;
        if terminal {
            eprintln!();
        }
        let json = serde_json::to_string_pretty(&report).expect("numbers and names");
        // A reader that has seen enough is no error.
        let _ = writeln!(io::stdout(), "{json}");
    }
    Ok(())
}
