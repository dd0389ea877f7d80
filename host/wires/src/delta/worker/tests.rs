//! How often an orchestrator is asked that has no job, and how much of a lease file is read.

mod pair;

use host_runtime::clock::Clock;
use host_testing::{FakeExecutor, Refusals};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;

/// Reads a request and answers it at once.
async fn answer(stream: &mut TcpStream, answer: &[u8]) {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let read = stream.read_buf(&mut request).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&request));
    }
    stream.write_all(answer).await.unwrap();
}

/// Returns the seconds after which an orchestrator was asked that answers at once.
async fn asked(answered: &[u8], times: usize) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopping = CancellationToken::new();
    let peer = Peer {
        url: format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap(),
        runner_id: "r1".to_owned(),
        token: None,
        capabilities: BTreeSet::new(),
        concurrency: 1,
    };
    let ports = Ports {
        clock: Arc::new(Clock::start()),
        counters: Refusals::of(crate::delta::NAME),
        execute: Arc::new(|| FakeExecutor::new(|_, _| panic!("there is no job"))),
        leases: None,
        stopping: stopping.clone(),
    };
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
    assert!(refused.contains("more than 1048576 bytes"), "{refused}");
}
