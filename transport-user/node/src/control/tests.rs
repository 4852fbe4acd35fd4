//! Tests of the control protocol on real sockets, with a fake node that only answers.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel::control::{
    Call, Client, ClientError, Failure, FailureKind, Reply, Request, SocketError, find, request,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A fake node. It returns the CID of `Close`, fails for CID 404, panics for CID 500 and reports progress for
/// `Down`. It answers `Reset` with what the files have that came with it. It runs `Stats` until the client disconnects, and answers `Regions` with another type.
#[derive(Default)]
struct FakeNode {
    noticed_departure: AtomicBool,
}

impl Handler for FakeNode {
    async fn handle(
        &self,
        request: Request,
        files: Vec<OwnedFd>,
        progress: ProgressSender,
    ) -> Result<Value, Failure> {
        match request {
            Request::Connection(request::Connection { cid: 404 }) => Err(Failure {
                kind: FailureKind::Operation,
                text: "no answer".into(),
                status: Some(8),
                ulp_code: None,
            }),
            Request::Connection(request::Connection { cid: 500 }) => panic!("a bug of the node"),
            Request::Close(request::Close { cid }) => Ok(json!({ "closed": cid })),
            Request::Down(_) => {
                progress.report(1, Some(2));
                progress.report(2, Some(2));
                Ok(json!({ "down": "veth0" }))
            }
            Request::Stats(_) => {
                while progress.is_wanted() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                self.noticed_departure.store(true, Ordering::Relaxed);
                Ok(Value::Null)
            }
            Request::Reset(_) => {
                let mut text = String::new();
                for file in files {
                    File::from(file)
                        .read_to_string(&mut text)
                        .map_err(|e| Failure::invalid(e.to_string()))?;
                }
                Err(Failure::invalid(text))
            }
            Request::Regions(_) => Ok(json!([{ "r_key": 1 }])),
            Request::Connections(_) => {
                tokio::time::sleep(Duration::from_millis(150)).await;
                Ok(json!([]))
            }
            other => Err(Failure::invalid(format!("{other:?}"))),
        }
    }
}

fn start(directory: &TempDir) -> (Server, std::path::PathBuf, Arc<FakeNode>) {
    let path = directory.path().join("deep/node.sock");
    let node = Arc::new(FakeNode::default());
    (Server::start(bind(&path).unwrap(), path.clone(), Arc::clone(&node)), path, node)
}

async fn ask<C: Call>(path: &Path, call: C) -> Result<C::Answer, ClientError> {
    timeout(PATIENCE, Client::connect(path).await?.ask(call, drop)).await.expect("an answer")
}

#[tokio::test]
async fn clients_ask_one_after_the_other_and_side_by_side() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let mut first = Client::connect(&path).await.unwrap();
    let mut second = Client::connect(&path).await.unwrap();
    for cid in 0..3 {
        assert_eq!(first.ask(request::Close { cid }, drop).await.unwrap().closed, cid);
        assert_eq!(second.ask(request::Close { cid: 9 }, drop).await.unwrap().closed, 9);
    }
    let mut steps = Vec::new();
    let down = first.ask(request::Down {}, |step| steps.push((step.done, step.total))).await.unwrap();
    assert_eq!((down.down.as_str(), steps), ("veth0", vec![(1, Some(2)), (2, Some(2))]));
}

/// The node reads the file that the client opened. A file belongs to one request.
#[tokio::test]
async fn files_come_with_their_request() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let file = directory.path().join("file");
    let mut client = Client::connect(&path).await.unwrap();
    for text in ["first", "second"] {
        std::fs::write(&file, text).unwrap();
        let opened = File::open(&file).unwrap();
        std::fs::remove_file(&file).unwrap(); // the path means nothing to the node
        let asked = client.ask_with_file(request::Reset { cid: 1 }, opened.as_fd(), drop).await;
        assert_eq!(asked.unwrap_err().to_string(), text);
        client.ask_with_file(request::Close { cid: 1 }, opened.as_fd(), drop).await.unwrap();
        assert_eq!(client.ask(request::Reset { cid: 1 }, drop).await.unwrap_err().to_string(), "");
    }
    // A client that sends files without end does not use up the node's.
    let own = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, opened) = (own(), File::open(directory.path()).unwrap());
    for _ in 0..100 {
        client.ask_with_file(request::Close { cid: 1 }, opened.as_fd(), drop).await.unwrap();
    }
    assert!(own() < before + 50, "other tests of this process open some as well");
}

#[tokio::test]
async fn an_answer_of_another_shape_is_no_answer() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let misunderstood = ask(&path, request::Regions {}).await.unwrap_err();
    assert!(matches!(misunderstood, ClientError::Misunderstood { .. }), "{misunderstood}");
    let text = misunderstood.to_string();
    assert!(text.contains("missing field `key`") && text.contains("the same release as the node"), "{text}");
}

#[tokio::test]
async fn a_client_that_ends_its_own_side_still_gets_its_answer() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let mut stream = BufReader::new(UnixStream::connect(&path).await.unwrap());
    stream.write_all(b"{\"version\":2,\"request\":{\"request\":\"connections\"}}\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_line(&mut answer)).await.expect("an answer").unwrap();
    assert!(matches!(serde_json::from_str(&answer).unwrap(), Reply::Done { .. }), "{answer}");
}

#[tokio::test]
async fn failures_keep_their_codes_and_a_panic_is_one_client_s_failure() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let Err(ClientError::Failed(failure)) = ask(&path, request::Connection { cid: 404 }).await else {
        panic!()
    };
    assert_eq!((failure.kind, failure.status, failure.ulp_code), (FailureKind::Operation, Some(8), None));
    let Err(ClientError::Failed(failure)) = ask(&path, request::Connection { cid: 500 }).await else {
        panic!()
    };
    assert_eq!(failure.kind, FailureKind::Node);
    ask(&path, request::Close { cid: 1 }).await.unwrap();
}

#[tokio::test]
async fn garbage_gets_an_answer_and_the_node_goes_on_serving() {
    let directory = TempDir::new().unwrap();
    let (_server, path, _) = start(&directory);
    let mut stream = BufReader::new(UnixStream::connect(&path).await.unwrap());
    let lines: [(&[u8], &str); 5] = [
        (b"\xff\xfe\n", "not a request of the control protocol"),
        (b"{}\n", "the node uses version 2 of the control protocol, this client null"),
        (b"{\"version\":1,\"request\":{}}\n", "this client 1: use the same release as the node"),
        (b"{\"version\":2,\"request\":{\"request\":\"fly\"}}\n", "unknown variant `fly`"),
        (b"{\"version\":2,\"request\":{\"request\":\"close\",\"cid\":-1}}\n", "invalid value"),
    ];
    for (line, expected) in lines {
        stream.write_all(line).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_line(&mut answer)).await.expect("an answer").unwrap();
        assert!(answer.contains(expected), "{answer}");
        assert!(matches!(serde_json::from_str(&answer).unwrap(), Reply::Failed(_)));
    }
    // The server disconnects a client whose line does not end. Other clients are not affected.
    let mut endless = UnixStream::connect(&path).await.unwrap();
    while endless.write_all(&[b'x'; 65536]).await.is_ok() {}
    ask(&path, request::Close { cid: 1 }).await.unwrap();
}

#[tokio::test]
async fn an_operation_learns_that_its_client_left() {
    let directory = TempDir::new().unwrap();
    let (_server, path, node) = start(&directory);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"{\"version\":2,\"request\":{\"request\":\"stats\"}}\n").await.unwrap();
    drop(stream);
    let noticed = async {
        while !node.noticed_departure.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, noticed).await.expect("it is told");
}

#[tokio::test]
async fn stale_sockets_are_replaced_and_live_ones_are_not() {
    let directory = TempDir::new().unwrap();
    let (server, path, _) = start(&directory);
    assert!(matches!(bind(&path), Err(SocketError::Live(_))));
    drop(server);
    assert!(!path.exists(), "a node that goes down removes its socket");

    // A killed node leaves its socket behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    assert!(matches!(Client::connect(&path).await, Err(ClientError::NoNode(_))));
    drop(bind(&path).unwrap());

    let file = directory.path().join("file.sock");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(bind(&file), Err(SocketError::Occupied(_))));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[tokio::test]
async fn the_only_live_node_is_found_by_itself() {
    let directory = TempDir::new().unwrap();
    assert!(matches!(find(directory.path()), Err(SocketError::None(_))));
    assert!(matches!(find(&directory.path().join("absent")), Err(SocketError::None(_))));
    drop(std::os::unix::net::UnixListener::bind(directory.path().join("stale.sock")).unwrap());
    let one = directory.path().join("one.sock");
    let _one = bind(&one).unwrap();
    assert_eq!(find(directory.path()).unwrap(), one);
    let _two = bind(&directory.path().join("two.sock")).unwrap();
    let several = find(directory.path()).unwrap_err().to_string();
    assert_eq!(several, "several nodes are running (one, two): choose one with --node NAME or --socket PATH");
}

#[test]
fn sockets_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("n.sock");
    let _listener = bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn requests_are_written_as_documented() {
    let request = Request::Write(request::Write {
        cid: 5,
        rkey: 1,
        address: 64,
        data: request::Data::Region { rkey: 2, offset: 0, length: 8 },
        immediate: None,
    });
    let expected = json!({
        "request": "write", "cid": 5, "rkey": 1, "address": 64,
        "data": { "region": { "rkey": 2, "offset": 0, "length": 8 } }, "immediate": null,
    });
    assert_eq!(serde_json::to_value(&request).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Request>(expected).unwrap(), request);
}
