//! Clients that send or read slowly, over connections in memory with paused time.

use std::sync::Arc;
use std::time::Duration;

use host_runtime::tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::fixture::{Counted, LARGE_BYTES, admitted, served};
use crate::peer::Peer;
use crate::serve::connection;

/// The time limit of headers, bodies, idle connections and clients that do not read.
const TIMEOUT: Duration = Duration::from_secs(30);

const LARGE: &[u8] = b"GET /api/large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fn open(tasks: &Tasks) -> (DuplexStream, Arc<Counted>) {
    let (ours, theirs) = duplex(64 << 10);
    let metrics = Arc::<Counted>::default();
    let (served, stopping) = (served(&metrics), tasks.stopping().clone());
    let peer = Peer::default();
    tasks.spawn(async move { connection(theirs, peer, served, stopping, admitted()).await });
    (ours, metrics)
}

/// Sends `first` and then one byte every five seconds until the connection is closed. Returns the
/// answer and how long this took.
async fn drip(first: &str) -> (String, Duration) {
    let (tasks, began) = (Tasks::default(), Instant::now());
    let (stream, _) = open(&tasks);
    let (mut read, mut write) = tokio::io::split(stream);
    let sending = async {
        write.write_all(first.as_bytes()).await.unwrap();
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if write.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut answer = String::new();
    tokio::select! {
        () = sending => {}
        read = read.read_to_string(&mut answer) => { read.unwrap(); }
    }
    (answer, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_header_that_drips_in_ends_its_connection() {
    for first in ["", "GET /api/ping HTTP/1.1\r\nhost:"] {
        let (answer, took) = drip(first).await;
        assert_eq!(answer, "", "{first:?}");
        assert!(
            took <= TIMEOUT + Duration::from_secs(6),
            "{first:?}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_in_is_refused() {
    let first = "POST /api/echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\
        content-type: application/json\r\n\r\n{";
    let (answer, took) = drip(first).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("\"body_timeout\""), "{answer}");
    assert!(took <= TIMEOUT + Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed() {
    let tasks = Tasks::default();
    let (mut stream, metrics) = open(&tasks);
    let ping = b"GET /api/ping HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(ping).await.unwrap();
    let (began, mut answer) = (Instant::now(), String::new());
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(began.elapsed().as_secs(), TIMEOUT.as_secs());
    let answered = metrics.answered.lock().unwrap().clone();
    assert_eq!(answered, [("GET", "/api/ping", 200)]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_ends_its_connection() {
    let tasks = Tasks::default();
    let (mut stream, metrics) = open(&tasks);
    stream.write_all(LARGE).await.unwrap();
    let began = Instant::now();
    // The tasks are not stopped, so the only one ends with its connection.
    tasks.join().await;
    assert_eq!(began.elapsed().as_secs(), TIMEOUT.as_secs());
    assert_eq!(*metrics.open.lock().unwrap(), 0);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < LARGE_BYTES, "{} bytes", rest.len());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_all() {
    let tasks = Tasks::default();
    let (mut stream, _) = open(&tasks);
    stream.write_all(LARGE).await.unwrap();
    let (mut total, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        tokio::time::sleep(Duration::from_secs(29)).await;
        let read = stream.read(&mut buffer).await.unwrap();
        total += read;
        if read == 0 {
            break;
        }
    }
    assert!(total > LARGE_BYTES, "{total} bytes with the header");
}
