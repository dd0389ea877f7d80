//! Malformed requests, and connections when the process stops.

use std::net::SocketAddr;
use std::sync::Arc;

use host_runtime::tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::fixture::{Counted, SOON, served};
use crate::serve::{ConnectionLimits, accept, serve};

pub(super) const PING: &str = "GET /api/ping HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Starts a listener and returns its address.
pub(super) async fn start(
    tasks: &Tasks,
    metrics: &Arc<Counted>,
    connections_max: Option<usize>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = served(metrics);
    let theirs = tasks.clone();
    tasks.spawn(async move {
        let Some(max) = connections_max else {
            let (router, metrics) = (served.router, served.metrics);
            let gate = Arc::clone(&served.gate);
            let transport = served.transport;
            return serve(listener, transport, router, gate, metrics, &theirs, &[]).await;
        };
        let limits = ConnectionLimits {
            max,
            handshakes_max: max,
        };
        accept(&listener, &served, &theirs, limits).await;
    });
    address
}

/// Sends bytes, closes the sending half and reads until the server closes the connection.
pub(super) async fn exchange(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(sent.as_bytes()).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(SOON, read).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Opens a connection, sends a request and reads the first line of its answer.
pub(super) async fn open(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn malformed_requests_get_one_clear_answer() {
    let tasks = Tasks::default();
    let address = start(&tasks, &Arc::default(), None).await;
    let get = "GET /api/ping HTTP/1.1\r\nhost: localhost\r\n";
    let long = |bytes: usize| format!("{get}connection: close\r\nx: {}\r\n\r\n", "x".repeat(bytes));
    let fields: Vec<String> = (0..200).map(|n| format!("x{n}: y")).collect();
    let many = format!("{get}{}\r\n\r\n", fields.join("\r\n"));
    let open = "POST /api/echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let post = format!("{open}connection: close\r\n");
    let huge = format!("{open}content-length: 99999999999\r\n\r\n");
    let cut_off = format!("{post}content-length: 100\r\n\r\n{{");
    let accepted = format!("{post}content-length: 2\r\n\r\n{{}}");
    let twice = format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}");
    let same_twice = format!("{open}content-length: 2\r\ncontent-length: 2\r\n\r\n{{}}{PING}");
    let both =
        format!("{open}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{PING}");
    let coded = format!("{open}transfer-encoding: gzip, chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let chunked =
        format!("{open}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{same_twice}");
    let overflow = format!("{post}transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n");
    let no_chunk = format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n");
    for (sent, status) in [
        ("\x16\x03\x01\x02\x00\x01\x00\x01", "400"),
        ("*1\r\n$4\r\nPING\r\n", "400"),
        ("SSH-2.0-x\r\n", "400"),
        ("GET /api/ping HTTP/9.9\r\n\r\n", "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
        (&long(30_000), "200"),
        (&long(33_000), "431"),
        (&long(70_000), "431"),
        (&many, "431"),
        (
            &format!(
                "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
                "x".repeat(70_000)
            ),
            "4",
        ),
        (&huge, "413"),
        (&twice, "400"),
        (&same_twice, "400"),
        (&both, "400"),
        (&coded, "400"),
        (&chunked, "200"),
        (&overflow, "4"),
        (&no_chunk, "4"),
        (&cut_off, "422"),
        (&accepted, "200"),
        ("GET /api/ping HTTP/1.1\r\nconnection: close\r\n\r\n", "403"),
        (PING, "200"),
    ] {
        let answer = exchange(address, sent).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{sent:?}: {answer}");
        let statuses = answer.split("HTTP/1.1 ").skip(1);
        let answers = statuses.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(answers.count(), 1, "{sent:?}: {answer}");
        if status != "200" {
            let documented = answer.contains("content-type: application/problem+json");
            assert!(documented, "{sent:?}: {answer}");
            let body = answer.split("\r\n\r\n").nth(1).unwrap();
            let document: serde_json::Value = serde_json::from_str(body).unwrap();
            let stated = document["status"].to_string();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {stated}")),
                "{answer}"
            );
        }
    }
    tasks.stop();
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_lets_requests_end() {
    let (tasks, metrics) = (Tasks::default(), Arc::default());
    let address = start(&tasks, &metrics, None).await;
    let mut idle = open(address, PING).await;
    let mut busy = TcpStream::connect(address).await.unwrap();
    let header = "POST /api/echo HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n";
    busy.write_all(header.as_bytes()).await.unwrap();
    // The handler asks for the body, so it has started.
    let mut go_on = [0; 25];
    let read = busy.read_exact(&mut go_on);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    tasks.stop();

    let mut rest = Vec::new();
    let read = idle.read_to_end(&mut rest);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&rest).ends_with("pong"));

    busy.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    let read = busy.read_to_string(&mut answer);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("{}"), "{answer}");
    tokio::time::timeout(SOON, tasks.join()).await.unwrap();
    assert!(
        TcpStream::connect(address).await.is_err(),
        "no server listens"
    );
}
