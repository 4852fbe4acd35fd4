//! How the peer is made to submit operations of its own.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use transport_common::ids::Cid;

/// An operation of RDMA that is one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A push.
    Write,
    /// A pull.
    Read,
}

impl Operation {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the peer has to submit. The R_Key and the address do not matter: the tester looks at neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The operation.
    pub operation: Operation,
    /// Bytes of user data.
    pub bytes: u32,
    /// The connection, by the CID that the peer has for it.
    pub cid: Cid,
}

/// Names a submitted operation. [`Trigger::submit`] counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub usize);

/// How an operation ended for the peer's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It succeeded.
    Success,
    /// It completed in error.
    Error,
}

/// Makes the peer submit operations.
pub trait Trigger {
    /// Makes the peer submit an operation. Does not wait for anything.
    ///
    /// # Errors
    /// If the peer cannot be told.
    fn submit(&mut self, wanted: &Wanted) -> io::Result<Ticket>;

    /// Returns how an operation ended, or `None` if it has not, or if completions are not seen.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn completion(&mut self, ticket: Ticket) -> io::Result<Option<Completion>>;

    /// Returns how the trigger itself failed, if an operation ended in error and that is known.
    fn failure(&self, _: Ticket) -> Option<String> {
        None
    }

    /// Returns whether the trigger sees completions.
    fn sees_completions(&self) -> bool;
}

/// Runs a command of the user for each operation. The command ends when the operation has completed, with exit
/// code 0 if it succeeded.
///
/// The command is run by `sh -c`. These variables of its environment say what is wanted: `FALCON_OPERATION`
/// (`write` or `read`), `FALCON_BYTES`, and `FALCON_CID`, the CID that the peer has for the connection.
#[derive(Debug)]
pub struct CommandTrigger {
    command: OsString,
    children: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    ended: Option<ExitStatus>,
}

impl CommandTrigger {
    /// Takes the command.
    pub const fn new(command: OsString) -> Self {
        Self { command, children: Vec::new() }
    }
}

impl Trigger for CommandTrigger {
    fn submit(&mut self, wanted: &Wanted) -> io::Result<Ticket> {
        let child = Command::new("sh")
            .arg("-c")
            .arg(&self.command)
            .env("FALCON_OPERATION", wanted.operation.to_string())
            .env("FALCON_BYTES", wanted.bytes.to_string())
            .env("FALCON_CID", wanted.cid.0.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Operations that complete in error are part of the checks, so what the command says is of no use.
            .stderr(Stdio::null())
            // A group of its own, so that all of a pipeline can be ended.
            .process_group(0)
            .spawn()?;
        self.children.push(Running { child, ended: None });
        Ok(Ticket(self.children.len() - 1))
    }

    fn completion(&mut self, ticket: Ticket) -> io::Result<Option<Completion>> {
        let Some(running) = self.children.get_mut(ticket.0) else { return Ok(None) };
        if running.ended.is_none()
            && let Some(status) = running.child.try_wait()?
        {
            running.ended = Some(status);
        }
        let completion = |status: ExitStatus| {
            if status.success() { Completion::Success } else { Completion::Error }
        };
        Ok(running.ended.map(completion))
    }

    fn failure(&self, ticket: Ticket) -> Option<String> {
        let ended = self.children.get(ticket.0)?.ended?;
        (!ended.success()).then(|| ended.to_string())
    }

    fn sees_completions(&self) -> bool {
        true
    }
}

impl Drop for CommandTrigger {
    /// Ends the commands that still run.
    fn drop(&mut self) {
        for running in self.children.iter_mut().filter(|running| running.ended.is_none()) {
            if let Ok(None) = running.child.try_wait() {
                // SAFETY: takes no pointer. The group is that of a child that has not been waited for, so its
                // number is not yet that of another process.
                unsafe { libc::kill(-(running.child.id() as libc::pid_t), libc::SIGKILL) };
                let _ = running.child.wait();
            }
        }
    }
}

/// Asks the user to submit the operations by hand.
#[derive(Debug, Default)]
pub struct ByHand {
    asked: usize,
}

impl Trigger for ByHand {
    fn submit(&mut self, wanted: &Wanted) -> io::Result<Ticket> {
        use std::io::Write;
        let Wanted { operation, bytes, cid } = wanted;
        writeln!(
            io::stderr(),
            "submit now at the peer: {operation} of {bytes} bytes on its connection {}",
            cid.0
        )?;
        self.asked += 1;
        Ok(Ticket(self.asked - 1))
    }

    fn completion(&mut self, _: Ticket) -> io::Result<Option<Completion>> {
        Ok(None)
    }

    fn sees_completions(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn ended(trigger: &mut CommandTrigger, ticket: Ticket) -> Completion {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(completion) = trigger.completion(ticket).expect("a child can be waited for") {
                return completion;
            }
            assert!(Instant::now() < until, "the command does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_command_learns_what_is_wanted_and_tells_how_it_ended() {
        let test = "test $FALCON_OPERATION.$FALCON_BYTES.$FALCON_CID = read.64.5";
        let mut trigger = CommandTrigger::new(test.into());
        let read = Wanted { operation: Operation::Read, bytes: 64, cid: Cid(5) };
        let tickets = [read, Wanted { operation: Operation::Write, ..read }]
            .map(|wanted| trigger.submit(&wanted).expect("sh runs"));
        assert_eq!(tickets, [Ticket(0), Ticket(1)]);
        assert_eq!(ended(&mut trigger, tickets[0]), Completion::Success);
        assert_eq!(ended(&mut trigger, tickets[1]), Completion::Error);
        assert_eq!(tickets.map(|ticket| trigger.failure(ticket)), [None, Some("exit status: 1".to_owned())]);
    }

    #[test]
    fn commands_that_still_run_are_ended_with_the_trigger() {
        let mut trigger = CommandTrigger::new("sleep 600 | sleep 600".into());
        let wanted = Wanted { operation: Operation::Write, bytes: 8, cid: Cid(5) };
        let ticket = trigger.submit(&wanted).expect("sh runs");
        assert_eq!(trigger.completion(ticket).expect("a child can be waited for"), None);
        let group = trigger.children[0].child.id() as libc::pid_t;
        drop(trigger);
        let until = Instant::now() + Duration::from_secs(20);
        // SAFETY: takes no pointer; signal 0 only asks whether the group exists.
        while unsafe { libc::kill(-group, 0) } == 0 {
            assert!(Instant::now() < until, "a process of the command still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
