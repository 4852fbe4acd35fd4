//! Runs `tiercel-model` as a user does.

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
