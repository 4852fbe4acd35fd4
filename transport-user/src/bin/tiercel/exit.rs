//! How the program ends when something went wrong.

use std::process::ExitCode;

use transport_user::control::service::ServeError;
use transport_user::control::{ClientError, FailureKind, SocketError};

/// A sentence for stderr, and an exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    code: u8,
    text: String,
}

impl Exit {
    /// The node could not do it.
    pub(crate) fn node(text: impl ToString) -> Self {
        Self { code: 1, text: text.to_string() }
    }

    /// Wrong usage.
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self { code: 2, text: text.to_string() }
    }

    /// A file could not be read, written or verified.
    pub(crate) fn file(text: impl ToString) -> Self {
        Self { code: 5, text: text.to_string() }
    }

    /// Prints the sentence.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("error: {}", self.text);
        ExitCode::from(self.code)
    }
}

impl From<ClientError> for Exit {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::Failed(failure) => match failure.kind {
                FailureKind::Node => 1,
                FailureKind::Invalid => 2,
                FailureKind::Operation => 3,
                FailureKind::Connect => 4,
                FailureKind::File => 5,
            },
            ClientError::NoNode(_) | ClientError::NotAllowed(_) | ClientError::Lost { .. } => 6,
        };
        Self { code, text: error.to_string() }
    }
}

impl From<SocketError> for Exit {
    fn from(error: SocketError) -> Self {
        Self { code: 6, text: error.to_string() }
    }
}

impl From<ServeError> for Exit {
    fn from(error: ServeError) -> Self {
        // A socket as well: not 6, for nobody was to answer there.
        Self::node(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_user::control::Failure;

    #[test]
    fn exit_codes_tell_failures_apart() {
        let code = |kind| Exit::from(ClientError::Failed(Failure::new(kind, "x"))).code;
        assert_eq!(code(FailureKind::Invalid), 2);
        assert_eq!(code(FailureKind::Operation), 3);
        assert_eq!(code(FailureKind::Connect), 4);
        assert_eq!(code(FailureKind::File), 5);
        assert_eq!(code(FailureKind::Node), 1);
        let taken = || SocketError::Live("/run/x.sock".into());
        assert_eq!(Exit::from(ServeError::Socket(taken())).code, 1);
        assert_eq!(Exit::from(ClientError::NoNode("/run/x.sock".into())).code, 6);
    }
}
