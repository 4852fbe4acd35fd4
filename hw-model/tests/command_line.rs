//! Runs `tiercel-model` as a user does.

use std::fs::File;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tiercel-model")).args(arguments).output().expect("the program runs")
}

/// Runs a command that fails. Returns its exit code, its standard output, and its last line of messages.
fn failed(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_failure_is_json_on_request() {
    let replay = ["replay", "/nowhere/run.trace"];
    let (code, printed, said) = failed(&[&replay[..], &["--json"]].concat());
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let text = printed["error"]["text"].as_str().expect("a text");
    assert!(text.contains("/nowhere/run.trace"), "{text}");
    let expected = json!({"kind": "model", "exit_code": 1, "text": text, "status": null, "ulp_code": null});
    assert_eq!((code, &printed["error"]), (Some(1), &expected));
    assert_eq!(said, format!("error: {text}\n"));
    assert_eq!(failed(&replay), (Some(1), String::new(), said), "only on request");
}

#[test]
fn a_wrong_command_line_is_json_on_request() {
    let wrong = ["experiment", "nothing-of-this-name"];
    let (code, printed, _) = failed(&[&wrong[..], &["--json"]].concat());
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(
        (code, &printed["error"]["kind"], &printed["error"]["exit_code"]),
        (Some(2), &json!("usage"), &json!(2))
    );
    assert!(printed["error"]["text"].as_str().is_some_and(|text| text.contains("no such experiment")));
    let (code, printed, said) = failed(&wrong);
    assert_eq!((code, printed), (Some(2), String::new()));
    assert!(said.starts_with("error: "), "{said}");
}

/// Commands that print something at once.
const PRINTING: [&[&str]; 3] = [&["--help"], &["experiment"], &["experiment", "--json"]];

#[test]
fn lost_output_is_a_failure() {
    for arguments in PRINTING {
        let full_disk = File::options().write(true).open("/dev/full").expect("a device of every Linux");
        let output = Command::new(env!("CARGO_BIN_EXE_tiercel-model"))
            .args(arguments)
            .stdout(full_disk)
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to stdout: No space left"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_tiercel-model"))
            .args(arguments)
            .stdout(writer)
            .output()
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
