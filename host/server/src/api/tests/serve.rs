//! Connections: slow, idle, too many, and when the host stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::fixture::{Host, Lines, api};
use crate::api::serve::{accept, connection, serve};
use crate::metrics::Metrics;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;

/// More than any answer needs.
const SOON: Duration = Duration::from_secs(20);

/// Starts a listener and returns where it is.
async fn start(tasks: &Tasks) -> std::net::SocketAddr {
    let clock = Clock::start();
    let dispatch = Host::run_loop(tasks, clock);
    let mut api = api(&dispatch, &Arc::new(Lines::default()), tasks, clock);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    api.listen = address;
    let theirs = tasks.clone();
    tasks.spawn(async move { serve(listener, api, &theirs).await });
    address
}

/// Sends bytes, says that no more will come and reads until the host closes the connection.
async fn exchange(address: std::net::SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The host may answer and close before it has read all.
    let _broken = stream.write_all(sent).await;
    let _closed = stream.shutdown().await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _reset = tokio::time::timeout(SOON, read).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn garbage_gets_one_clear_answer_and_harms_nobody() {
    let tasks = Tasks::default();
    let address = start(&tasks).await;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    let many: Vec<String> = (0..200).map(|n| format!("x{n}: y")).collect();
    let many = many.join("\r\n");
    let many = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n\r\n");
    let post = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\n";
    let huge = post.replace("connection: close\r\n", "") + "content-length: 99999999999\r\n\r\n";
    let cut_off = format!("{post}content-length: 100\r\n\r\n{{");
    let accepted = format!("{post}content-length: 2\r\n\r\n{{}}").replace("jobs", "queues/q/pause");
    let twice = format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}");
    let chunks = format!("{post}transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n");
    let cut = format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n");
    for (sent, status) in [
        ("\x16\x03\x01\x02\x00\x01\x00\x01", "400"),
        ("*1\r\n$4\r\nPING\r\n", "400"),
        ("SSH-2.0-x\r\n", "400"),
        ("GET /healthz HTTP/9.9\r\n\r\n", "400"),
        (&long, "431"),
        (&many, "431"),
        (&huge, "413"),
        (&twice, "400"),
        (&chunks, "4"),
        (&cut, "4"),
        (&cut_off, "4"),
        (&accepted, "200"),
        ("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n", "403"),
        (
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            "200",
        ),
    ] {
        let answer = exchange(address, sent.as_bytes()).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{sent:?}: {answer}");
    }
}

#[tokio::test]
async fn a_host_that_stops_closes_its_connections() {
    let tasks = Tasks::default();
    let address = start(&tasks).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    tasks.stop();
    let mut rest = Vec::new();
    let read = idle.read_to_end(&mut rest);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&rest).contains("uptime_seconds"));
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let host = Host::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (router, tasks) = (host.router.clone(), host.tasks.clone());
    host.tasks.spawn(async move {
        accept(&listener, &router, &Metrics::default(), &tasks, 1).await;
    });
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut one = TcpStream::connect(address).await.unwrap();
    let mut first = [0; 12];
    one.write_all(request).await.unwrap();
    one.read_exact(&mut first).await.unwrap();
    let answer = exchange(address, request).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(one);
    let again = async {
        while !exchange(address, request).await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, again).await.unwrap();
}

/// Sends bytes over a connection in memory whose time is paused; reads until the host closes it.
async fn sent_slowly(sent: &str) -> String {
    let host = Host::start().await;
    let (ours, mut theirs) = duplex(64 << 10);
    let stopping = host.tasks.stopping().clone();
    let (router, metrics) = (host.router.clone(), Metrics::default());
    host.tasks.spawn(async move {
        connection(ours, router, &metrics, stopping).await;
    });
    theirs.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = String::new();
    theirs.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn whoever_is_too_slow_is_closed() {
    let body = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\
        content-type: application/json\r\n\r\n{\"handler\":";
    for (sent, status) in [
        ("", ""),
        ("GET /healthz HTTP/1.1\r\nhost:", ""),
        (body, "HTTP/1.1 408"),
    ] {
        let answer = sent_slowly(sent).await;
        assert!(answer.starts_with(status), "{sent:?}: {answer}");
        assert_eq!(answer.is_empty(), status.is_empty(), "{sent:?}: {answer}");
    }
    let idle = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let answer = sent_slowly(idle).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
