//! What a program can do about an error.

/// The kind of an error, for a program that acts on it. The error itself has the details, and its text is for people.
/// [`Error`](crate::Error), [`OperationError`](crate::OperationError), [`PostError`](crate::PostError) and the errors of
/// `tiercel-node` have a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is out of its range, or does not fit another one. The same call fails again.
    Invalid,
    /// There is no connection, algorithm, interface or route of this name.
    NotFound,
    /// Somebody else has it: another connection the CID, another region the key, another program the interface.
    InUse,
    /// Every slot, entry or byte is in use. It succeeds after something was given back.
    Exhausted,
    /// This process lacks a privilege.
    NotPermitted,
    /// The kernel, the driver, the build or the peer's release cannot do it.
    Unsupported,
    /// The peer, or the function behind one of the ends, refuses it.
    Refused,
    /// Nothing arrived in time. An operation may still take effect.
    TimedOut,
    /// The connection has failed or was closed. [`Connection::state`](crate::Connection::state) says which of them; operations
    /// need another connection.
    ConnectionLost,
    /// The node was brought down. All of its connections have ended.
    NodeDown,
    /// A system call failed. [`source`](std::error::Error::source) returns the kernel's reason.
    Io,
}
