//! A runner over HTTP: how often it asks for jobs, how it executes one, and how it stops.

mod pair;

use host_runtime::clock::Clock;
use host_testing::{FakeExecutor, Refusals, Run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;

/// Reads a request and answers it immediately. Returns the request.
async fn answer(stream: &mut TcpStream, answer: &[u8]) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let read = stream.read_buf(&mut request).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&request));
    }
    stream.write_all(answer).await.unwrap();
    String::from_utf8(request).unwrap()
}

fn peer(listener: &TcpListener) -> Peer {
    Peer {
        url: format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap(),
        runner_id: "r1".to_owned(),
        token: None,
        capabilities: BTreeSet::new(),
        concurrency: 1,
    }
}

fn ports(execute: &Arc<FakeExecutor>, stopping: &CancellationToken) -> Ports {
    let execute = Arc::clone(execute);
    Ports {
        clock: Arc::new(Clock::start()),
        counters: Refusals::of(crate::NAME),
        execute: Arc::new(move || Arc::<FakeExecutor>::clone(&execute)),
        leases: None,
        stopping: stopping.clone(),
    }
}

/// Returns the seconds between requests to an orchestrator that answers immediately.
async fn asked(answered: &[u8], times: usize) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let peer = peer(&listener);
    let executor = FakeExecutor::new(|_, _| panic!("there is no job"));
    let ports = ports(&executor, &stopping);
    let start = Instant::now();
    let playing = async {
        let mut seconds = Vec::new();
        while seconds.len() < times {
            let (mut stream, _) = listener.accept().await.unwrap();
            answer(&mut stream, answered).await;
            seconds.push(start.elapsed().as_secs());
        }
        stopping.cancel();
        seconds
    };
    tokio::join!(peer.work(&ports), playing).1
}

#[tokio::test(start_paused = true)]
async fn an_orchestrator_that_lets_no_request_wait_is_asked_ever_less_often() {
    let empty = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
    let broken = b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    for (answered, least) in [
        (&empty[..], [1, 2, 4, 5, 5]),
        (&broken[..], [1, 2, 4, 8, 16]),
    ] {
        let seconds = asked(answered, least.len() + 1).await;
        let pauses = seconds.windows(2).map(|pair| pair[1] - pair[0]);
        let is_least = pauses.zip(least).all(|(pause, least)| pause >= least);
        assert!(is_least, "asked after {seconds:?} s");
    }
}

#[test]
fn a_lease_file_without_an_end_is_refused() {
    let endless = FileJob {
        lease: "/dev/zero".into(),
        log: None,
    };
    let refused = endless.open().unwrap_err().to_string();
    assert!(refused.contains("more than 9437184 bytes"), "{refused}");
}

#[tokio::test]
async fn a_lease_over_the_network_is_executed_to_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let executor = FakeExecutor::new(|job, _| Run::echo(job));
    let (peer, ports) = (peer(&listener), ports(&executor, &stopping));
    let lease = r#"{"job_id":"j","lease_id":"l","job_spec":{"steps":["wasm:a","wasm:b"]}}"#;
    let length = lease.len();
    let granted =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{lease}");
    let accepted = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let playing = async {
        for (path, answered) in [
            ("lease", granted.as_str()),
            ("ack-lease", accepted),
            ("heartbeat", accepted),
            ("complete", accepted),
            (
                "lease",
                "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
            ),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = answer(&mut stream, answered.as_bytes()).await;
            let line = format!("POST /api/v1/internal/{path} HTTP/1.1\r\n");
            assert!(request.starts_with(&line), "{path}: {request}");
            assert_eq!(path == "complete", request.contains("\"SUCCEEDED\""));
        }
        stopping.cancel();
    };
    tokio::join!(peer.work(&ports), playing);
    let jobs = executor.jobs.borrow();
    let handlers = jobs.iter().map(|job| job.handler.as_str());
    assert_eq!(handlers.collect::<Vec<_>>(), ["a", "b"]);
}

/// Its orchestrator would give it to one runner after the other.
#[tokio::test]
async fn a_lease_that_cannot_be_executed_is_acknowledged_and_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let executor = FakeExecutor::new(|_, _| panic!("nothing is executed"));
    let (peer, ports) = (peer(&listener), ports(&executor, &stopping));
    let large = "x".repeat(7 << 20);
    let lease = format!(
        r#"{{"job_id":"j","lease_id":"l","job_spec":{{"steps":["wasm:a"],"env":{{"PORT":8080}},"x":"{large}"}}}}"#
    );
    let length = lease.len();
    let granted =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{lease}");
    let accepted = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let playing = async {
        for (path, answered) in [
            ("lease", granted.as_str()),
            ("ack-lease", accepted),
            ("heartbeat", accepted),
            ("complete", accepted),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = answer(&mut stream, answered.as_bytes()).await;
            let line = format!("POST /api/v1/internal/{path} HTTP/1.1\r\n");
            assert!(request.starts_with(&line), "{path}: {request}");
            if path == "complete" {
                let fault = r#""summary":"env.PORT: expected a string, found a number""#;
                assert!(
                    request.contains("\"FAILED\"") && request.contains(fault),
                    "{request}"
                );
            }
        }
        stopping.cancel();
    };
    tokio::join!(peer.work(&ports), playing);
}

/// An orchestrator that knows fewer fields refuses one message, and none of later leases.
#[tokio::test]
async fn the_dialect_of_an_orchestrator_is_remembered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let executor = FakeExecutor::new(|job, _| Run::echo(job));
    let (peer, ports) = (peer(&listener), ports(&executor, &stopping));
    let answered = |status: u16, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let lease = r#"{"job_id":"j","lease_id":"l","job_spec":{"steps":["wasm:a"]}}"#;
    let (granted, accepted) = (answered(200, lease), answered(200, "{}"));
    let refused = answered(400, r#"{"error":"json: unknown field \"timings\""}"#);
    let playing = async {
        let mut ends = Vec::new();
        for (path, answered) in [
            ("lease", &granted),
            ("ack-lease", &accepted),
            ("heartbeat", &accepted),
            ("complete", &refused),
            ("complete", &accepted),
            ("lease", &granted),
            ("ack-lease", &accepted),
            ("heartbeat", &accepted),
            ("complete", &accepted),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = answer(&mut stream, answered.as_bytes()).await;
            let line = format!("POST /api/v1/internal/{path} HTTP/1.1\r\n");
            assert!(request.starts_with(&line), "{path}: {request}");
            if path == "complete" {
                ends.push(request.contains("\"timings\""));
            }
        }
        stopping.cancel();
        ends
    };
    let ((), with_timings) = tokio::join!(peer.work(&ports), playing);
    assert_eq!(with_timings, [true, false, false]);
}

#[tokio::test]
async fn a_guest_is_stopped_when_the_host_stops() {
    let text = r#"{"job_id":"j","lease_id":"l","job_spec":{"steps":["wasm:hang"]}}"#;
    let lease = lease::read(text.as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let executor = FakeExecutor::new(|_, _| Run::Hangs);
    let (orchestrator, ports) = (
        peer(&listener).orchestrator(true),
        ports(&executor, &stopping),
    );
    let accepted = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let playing = async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            answer(&mut stream, accepted).await;
        }
        let mut running = executor.running.subscribe();
        running.wait_for(|running| *running == 1).await.unwrap();
        stopping.cancel();
    };
    let executing = host::execute(&orchestrator, &ports, lease, None);
    let (done, ()) = tokio::join!(executing, playing);
    assert_eq!(done, Done::ShutDown);
    let stops = executor.stops.borrow();
    assert_eq!(stops.len(), 1, "{stops:?}");
}
