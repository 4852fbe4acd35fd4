//! Waiting for the answer to a request: what it waits for, how long it may take, and what an interrupt leaves behind.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tiercel::InitiatorState;
use tiercel::control::Client;
use tiercel::control::answer::ShownConnection;
use tiercel::control::request::{self, Request};
use tokio::time::{interval_at, sleep};

use crate::exit::Exit;
use crate::interrupt::interrupted;

/// Time between two looks at an operation. After two of them the user is told what it waits for.
const LOOK: Duration = Duration::from_secs(1);

/// The wait for the answer to a request.
pub(crate) struct Wait {
    socket: PathBuf,
    what: What,
    timeout: Option<Duration>,
    /// What it waits for, as far as it is known.
    reason: Option<&'static str>,
}

/// A request, as the user knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// An operation on a connection, by name. It stays outstanding if nobody waits for it.
    Operation { name: &'static str, cid: u32, needs_receive: bool },
    /// A copy, which the node gives up if nobody waits for it.
    Copy { cid: u32 },
    /// Waiting for messages. The receives stay posted.
    Receive { cid: u32 },
    /// Setting a connection up. The node goes on with it if nobody waits for it.
    Connect,
    /// A trace, which has its own way to be ended.
    Trace,
    /// Anything else.
    Other,
}

impl What {
    fn of(request: &Request) -> Self {
        let operation = |name, cid, needs_receive| Self::Operation { name, cid, needs_receive };
        match request {
            Request::Write(call) => operation("WRITE", call.cid, call.immediate.is_some()),
            Request::Read(call) => operation("READ", call.cid, false),
            Request::Send(call) => operation("SEND", call.cid, true),
            Request::Atomic(call) => operation("atomic", call.cid, false),
            Request::Copy(call) => Self::Copy { cid: call.cid },
            Request::PostReceive(call) if call.wait => Self::Receive { cid: call.cid },
            Request::Connect(_) => Self::Connect,
            Request::Trace(_) | Request::StopTrace(_) => Self::Trace,
            _ => Self::Other,
        }
    }

    /// Says what is left when nobody waits any more.
    fn left_behind(self) -> String {
        match self {
            Self::Operation { name, cid, .. } => format!(
                "the {name} is still outstanding and may be performed later; `tiercel conn close {cid}` ends it"
            ),
            Self::Copy { cid } => {
                format!("the copy over connection {cid} is stopped, and the destination is as it was before")
            }
            Self::Receive { cid } => {
                format!("the receives stay posted: `tiercel recv list {cid}` shows what arrives")
            }
            Self::Connect => {
                "the connection may still be set up: `tiercel conn list` shows it, and `tiercel conn close` ends it".to_owned()
            }
            Self::Trace | Self::Other => {
                "the node may still carry the command out: see `tiercel status`".to_owned()
            }
        }
    }
}

impl Wait {
    /// Begins to wait for the answer of the node at `socket` to a request.
    pub(crate) fn new(socket: &Path, request: Request, timeout: Option<Duration>) -> Self {
        Self { socket: socket.to_owned(), what: What::of(&request), timeout, reason: None }
    }

    /// Returns when nobody waits for the answer any more: the time is over, or the user has interrupted. Meanwhile it
    /// says what the operation waits for.
    pub(crate) async fn end(&mut self) -> Exit {
        let what = self.what;
        let timeout = self.timeout;
        let over = async {
            match timeout {
                Some(timeout) => sleep(timeout).await,
                None => pending().await,
            }
        };
        let interrupted = async {
            // A trace has its own way to be ended.
            if what == What::Trace { pending().await } else { interrupted().await }
        };
        tokio::select! {
            () = interrupted => Exit::interrupted(format!("interrupted: {}", what.left_behind())),
            () = over => self.timed_out(),
            never = self.explain() => match never {},
        }
    }

    fn timed_out(&self) -> Exit {
        let waited = self.timeout.unwrap_or_default();
        let reason = self.reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let text = format!("no answer within {waited:?}{reason}; {}", self.what.left_behind());
        match self.what {
            What::Operation { .. } | What::Copy { .. } | What::Receive { .. } => Exit::operation(text),
            What::Connect => Exit::connect(text),
            What::Trace | What::Other => Exit::node(text),
        }
    }

    /// Looks at the connection of an operation that does not end, and says once what it waits for.
    async fn explain(&mut self) -> std::convert::Infallible {
        let What::Operation { name, cid, needs_receive } = self.what else { return pending().await };
        let mut looks = interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        let mut nacks = None;
        loop {
            looks.tick().await;
            // Without an answer there is nothing to say. The next look may have one.
            let Some(shown) = look(&self.socket, cid).await else { continue };
            let now = shown.info.statistics.nacks_received;
            // Earlier operations may have had NACKs as well, so the first check only counts them.
            let Some(before) = nacks else {
                nacks = Some(now);
                continue;
            };
            let oldest = shown.transactions.initiator.first().map(|oldest| oldest.state);
            let reason = waits_for(oldest, needs_receive && now > before);
            if self.reason.replace(reason) != Some(reason) {
                eprintln!("waiting: the {name} on connection {cid} has not completed: {reason}");
            }
        }
    }
}

/// Says what the oldest operation of a connection waits for, by its state.
fn waits_for(oldest: Option<InitiatorState>, not_ready: bool) -> &'static str {
    match oldest {
        _ if not_ready => "the peer has posted no receive for it; post one there with `tiercel recv post`",
        Some(InitiatorState::PushDataTx | InitiatorState::PullReqTx) => {
            "the peer does not acknowledge it; see `tiercel conn show`"
        }
        Some(InitiatorState::PullReqAckd) => "the peer has not answered it yet",
        Some(_) => "it waits for its turn; see `tiercel conn show`",
        None => "its completion is on the way",
    }
}

async fn look(socket: &Path, cid: u32) -> Option<ShownConnection> {
    let mut client = Client::connect(socket).await.ok()?;
    client.ask(request::Connection { cid }, |_| ()).await.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiercel::control::Hex;
    use tiercel::control::request::{AtomicOperation, CopyDirection, Data, Place, Via};

    use super::*;

    fn operation(name: &'static str, needs_receive: bool) -> What {
        What::Operation { name, cid: 5, needs_receive }
    }

    fn data() -> Data {
        Data::Hex(Hex(vec![1]))
    }

    fn write(immediate: Option<u32>) -> Request {
        request::Write { cid: 5, rkey: 1, address: 0, data: data(), immediate }.into()
    }

    fn receive(wait: bool) -> Request {
        request::PostReceive { cid: 5, length: 64, count: 2, wait }.into()
    }

    /// The operations, and what each is to the user.
    fn operations() -> [(Request, What); 5] {
        let read = request::Read { cid: 5, rkey: 1, address: 0, length: 8, to: Place::Reply };
        let send = request::Send { cid: 5, data: data(), immediate: None };
        let add = AtomicOperation::FetchAdd { add: 1 };
        let atomic = request::Atomic { cid: 5, rkey: 1, address: 0, operation: add };
        [
            (write(None), operation("WRITE", false)),
            (write(Some(1)), operation("WRITE", true)),
            (read.into(), operation("READ", false)),
            (send.into(), operation("SEND", true)),
            (atomic.into(), operation("atomic", false)),
        ]
    }

    fn copy(direction: CopyDirection) -> Request {
        let (file, name) = ("/x/file".into(), "file".into());
        request::Copy { cid: 5, direction, file, name, via: Via::Send, overwrite: true }.into()
    }

    fn connect() -> Request {
        let connect = json!({
            "request": "connect", "address": "10.7.0.2", "port": 4792, "ordered": true, "congestion": {},
        });
        serde_json::from_value(connect).expect("a request")
    }

    /// The requests that are no operations, what each is to the user, what it leaves behind, and the exit code of its timeout.
    fn others() -> [(Request, What, &'static str, u8); 8] {
        const COPY: &str = "the copy over connection 5 is stopped, and the destination is as it was before";
        const RECEIVE: &str = "the receives stay posted: `tiercel recv list 5` shows what arrives";
        const CONNECT: &str = "the connection may still be set up: `tiercel conn list` shows it, and \
                               `tiercel conn close` ends it";
        const OTHER: &str = "the node may still carry the command out: see `tiercel status`";
        let trace = request::Trace { file: "/x/trace".into(), runs: None, duration_ms: None };
        [
            (copy(CopyDirection::ToPeer), What::Copy { cid: 5 }, COPY, 3),
            (copy(CopyDirection::FromPeer), What::Copy { cid: 5 }, COPY, 3),
            (receive(true), What::Receive { cid: 5 }, RECEIVE, 3),
            (connect(), What::Connect, CONNECT, 4),
            (trace.into(), What::Trace, OTHER, 1),
            (request::StopTrace {}.into(), What::Trace, OTHER, 1),
            (receive(false), What::Other, OTHER, 1),
            (request::Status {}.into(), What::Other, OTHER, 1),
        ]
    }

    #[test]
    fn what_is_left_behind_is_said() {
        for (request, what) in operations() {
            assert_eq!(What::of(&request), what);
            let What::Operation { name, .. } = what else { panic!("{what:?}") };
            let left = format!(
                "the {name} is still outstanding and may be performed later; `tiercel conn close 5` ends it"
            );
            assert_eq!(what.left_behind(), left);
        }
        for (request, what, left, _) in others() {
            assert_eq!(What::of(&request), what);
            assert_eq!(what.left_behind(), left);
        }
    }

    #[test]
    fn a_timeout_has_the_exit_code_of_what_was_waited_for() {
        let operations = operations().map(|(request, what)| (request, what, 3));
        let others = others().map(|(request, what, _, exit_code)| (request, what, exit_code));
        for (request, what, exit_code) in operations.into_iter().chain(others) {
            let timeout = Some(Duration::from_secs(1));
            let mut wait = Wait::new(Path::new("/run/tiercel/a.sock"), request, timeout);
            let exit = wait.timed_out();
            assert_eq!(exit.value()["exit_code"], exit_code, "{exit}");
            assert_eq!(exit.to_string(), format!("no answer within 1s; {}", what.left_behind()));
            // What is known of the cause is said as well.
            wait.reason = Some("the peer sleeps");
            let text = wait.timed_out().to_string();
            assert_eq!(text, format!("no answer within 1s: the peer sleeps; {}", what.left_behind()));
        }
    }

    #[test]
    fn an_operation_says_what_it_waits_for() {
        use InitiatorState::{
            PullDataRx, PullDataUlpTx, PullReqAckd, PullReqTx, PullReqUlpRx, PushCplTx, PushDataAckd,
            PushDataTx, PushReqUlpRx,
        };
        let says = |states: &[InitiatorState], said: &str| {
            for state in states {
                let text = waits_for(Some(*state), false);
                assert!(text.starts_with(said), "{state:?}: {text}");
            }
        };
        says(&[PushDataTx, PullReqTx], "the peer does not acknowledge it");
        says(&[PullReqAckd], "the peer has not answered it yet");
        says(&[PushReqUlpRx, PullReqUlpRx], "it waits for its turn");
        says(&[PushDataAckd, PushCplTx, PullDataRx, PullDataUlpTx], "it waits for its turn");
        assert_eq!(waits_for(None, false), "its completion is on the way");
        // A NACK says more than the state.
        for oldest in [None, Some(PushDataTx), Some(PushReqUlpRx)] {
            let text = waits_for(oldest, true);
            assert!(text.starts_with("the peer has posted no receive for it"), "{oldest:?}: {text}");
        }
    }
}
