//! How the program reports a failure: a text, an exit code, and JSON.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde::Serialize;
use tiercel::control::{ClientError, Failure, FailureKind, SocketError};
use tiercel_node::control::service::ServeError;

use crate::stdout::print_json_of_failure;

/// A failure: a sentence for stderr, an exit code, and both for `--json`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    kind: Kind,
    text: String,
    /// Falcon completion code and the peer ULP's code of an operation that completed in error.
    codes: (Option<u8>, Option<u8>),
    /// Whether the JSON on stdout already has it.
    reported: bool,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Node,
    Usage,
    Invalid,
    Operation,
    Connect,
    File,
    NoNode,
    Violation,
    Interrupted,
}

impl Kind {
    fn exit_code(self) -> u8 {
        match self {
            Self::Node => 1,
            Self::Usage | Self::Invalid => 2,
            Self::Operation => 3,
            Self::Connect => 4,
            Self::File => 5,
            Self::NoNode => 6,
            Self::Violation => 7,
            // As a shell reports a program that SIGINT ended.
            Self::Interrupted => 130,
        }
    }
}

/// A failure as `--json` prints it.
#[derive(Serialize)]
struct Report<'e> {
    error: Error<'e>,
}

#[derive(Serialize)]
struct Error<'e> {
    kind: Kind,
    exit_code: u8,
    text: &'e str,
    status: Option<u8>,
    ulp_code: Option<u8>,
}

impl Exit {
    fn new(kind: Kind, text: impl ToString) -> Self {
        Self { kind, text: text.to_string(), codes: (None, None), reported: false }
    }

    /// Makes a failure of the node.
    pub(crate) fn node(text: impl ToString) -> Self {
        Self::new(Kind::Node, text)
    }

    /// Makes a failure for a wrong command line.
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self::new(Kind::Usage, text)
    }

    /// Makes a failure for an operation that has not completed.
    pub(crate) fn operation(text: impl ToString) -> Self {
        Self::new(Kind::Operation, text)
    }

    /// Makes a failure for a command that the user interrupted.
    pub(crate) fn interrupted(text: impl ToString) -> Self {
        Self::new(Kind::Interrupted, text)
    }

    /// Makes a failure for a peer that cannot be reached.
    pub(crate) fn connect(text: impl ToString) -> Self {
        Self::new(Kind::Connect, text)
    }

    /// Makes a failure for a peer that violates the specification. The report on it is printed already.
    pub(crate) fn violation(text: impl ToString) -> Self {
        Self::new(Kind::Violation, text)
    }

    /// Makes a failure for a file that could not be read, written or verified.
    pub(crate) fn file(text: impl ToString) -> Self {
        Self::new(Kind::File, text)
    }

    /// Makes a failure for output that stdout did not take.
    pub(crate) fn output(error: &io::Error) -> Self {
        Self::file(format!("cannot write to stdout: {error}"))
    }

    /// Prints the sentence to stderr and, with `json`, the whole failure to stdout. Returns the exit code. The report of
    /// a violation is on stdout already, and a program reads one JSON value.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let code = self.tell();
        if json
            && self.kind != Kind::Violation
            && !self.reported
            && let Err(error) = print_json_of_failure(&self.for_programs())
        {
            Self::output(&error).tell();
        }
        ExitCode::from(code)
    }

    /// Prints the sentence to stderr. Returns the exit code.
    pub(crate) fn tell(&self) -> u8 {
        eprintln!("error: {}", self.text);
        self.kind.exit_code()
    }

    /// Returns the failure as `--json` prints it, without the word `error` around it.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::to_value(self.for_programs().error).expect("a failure is plain data")
    }

    /// Returns whether the failure concerns one file of several, and the next one may succeed.
    pub(crate) fn concerns_one_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Invalid)
    }

    /// Marks the failure as one that the JSON on stdout already has.
    pub(crate) fn reported(self) -> Self {
        Self { reported: true, ..self }
    }

    /// Marks the failure as reported, and gives it another text.
    pub(crate) fn about(self, text: String) -> Self {
        Self { text, reported: true, ..self }
    }

    fn for_programs(&self) -> Report<'_> {
        let (status, ulp_code) = self.codes;
        let Self { kind, text, .. } = self;
        Report { error: Error { kind: *kind, exit_code: kind.exit_code(), text, status, ulp_code } }
    }
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Node => Kind::Node,
            FailureKind::Invalid => Kind::Invalid,
            FailureKind::Operation => Kind::Operation,
            FailureKind::Connect => Kind::Connect,
            FailureKind::File => Kind::File,
        };
        Self { kind, codes: (failure.status, failure.ulp_code), text: failure.text, reported: false }
    }
}

impl From<ClientError> for Exit {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Failed(failure) => failure.into(),
            ClientError::NoNode(_) | ClientError::NotAllowed(_) | ClientError::Lost { .. } => {
                Self::new(Kind::NoNode, error)
            }
            error => Self::node(error),
        }
    }
}

impl From<SocketError> for Exit {
    fn from(error: SocketError) -> Self {
        Self::new(Kind::NoNode, error)
    }
}

impl From<ServeError> for Exit {
    fn from(error: ServeError) -> Self {
        // This includes errors of the socket. They do not get exit code 6, because `up` asks no other node.
        Self::node(error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exit_codes_tell_failures_apart() {
        let code = |exit: Exit| exit.kind.exit_code();
        let failed = |kind| code(Exit::from(ClientError::Failed(Failure::new(kind, "x"))));
        assert_eq!(failed(FailureKind::Invalid), 2);
        assert_eq!(failed(FailureKind::Operation), 3);
        assert_eq!(failed(FailureKind::Connect), 4);
        assert_eq!(failed(FailureKind::File), 5);
        assert_eq!(failed(FailureKind::Node), 1);
        let taken = || SocketError::Live("/run/x.sock".into());
        assert_eq!(code(ServeError::Socket(taken()).into()), 1);
        assert_eq!(code(ClientError::NoNode("/run/x.sock".into()).into()), 6);
    }

    #[test]
    fn programs_get_the_codes_of_an_operation() {
        let failure = Failure {
            kind: FailureKind::Operation,
            text: "denied".to_owned(),
            status: Some(5),
            ulp_code: Some(2),
        };
        let expected = json!({ "error": {
            "kind": "operation", "exit_code": 3, "text": "denied", "status": 5, "ulp_code": 2,
        }});
        assert_eq!(serde_json::to_value(Exit::from(failure).for_programs()).expect("JSON"), expected);
        let usage = json!({ "error": {
            "kind": "usage", "exit_code": 2, "text": "no", "status": null, "ulp_code": null,
        }});
        assert_eq!(serde_json::to_value(Exit::usage("no").for_programs()).expect("JSON"), usage);
    }
}
