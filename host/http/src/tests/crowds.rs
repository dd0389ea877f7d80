//! Too many connections: who gets in, and who gives way.

use std::net::SocketAddr;
use std::sync::Arc;

use host_runtime::tasks::Tasks;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::connections::{PING, exchange, open, start};
use super::fixture::SOON;

const WAIT: &[u8] = b"GET /api/wait HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LIST: &str = "GET /api/list?limit=3 HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Lets this process open many files.
pub(super) fn allow_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, most).unwrap();
}

/// Connects from one of the addresses of this machine, and sends some bytes.
async fn connect_from(from: [u8; 4], to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    // It may have given way already.
    let _ = stream.write_all(bytes).await;
    stream
}

/// Waits until the server has closed a connection without an answer.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(SOON, stream.read(&mut [0])).await;
    matches!(read.unwrap(), Ok(0) | Err(_))
}

#[tokio::test]
async fn thousands_of_unfinished_heads_keep_out_no_one() {
    allow_many_files();
    let (tasks, metrics) = (Tasks::default(), Arc::default());
    let max = 1_000;
    let address = start(&tasks, &metrics, Some(max)).await;
    let mut patient = connect_from([127, 0, 0, 3], address, b"GET /api/ping HTTP/1.1\r\n").await;
    let mut crowd = Vec::new();
    for number in 0..3 * max {
        let begun = if number % 2 == 0 {
            &b""[..]
        } else {
            b"GET /api/ping HTTP/1.1\r\nhost:"
        };
        crowd.push(connect_from([127, 0, 0, 2], address, begun).await);
        if number % (max / 4) == 0 {
            for request in [PING, LIST] {
                let answer = exchange(address, request).await;
                assert!(answer.starts_with("HTTP/1.1 200"), "{number}: {answer}");
            }
        }
    }
    // A client that shares the address of the crowd gets in, too.
    let mut neighbor = connect_from([127, 0, 0, 2], address, PING.as_bytes()).await;
    let mut first = [0; 12];
    neighbor.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    for stream in &mut crowd[..max] {
        assert!(is_closed(stream).await, "the oldest gave way");
    }
    // What another address has begun long before them continues.
    patient.write_all(b"host: localhost\r\n\r\n").await.unwrap();
    patient.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    tasks.stop();
}

#[tokio::test]
async fn one_address_uses_half_of_the_connections_and_some_are_reserved() {
    let (tasks, metrics) = (Tasks::default(), Arc::default());
    let address = start(&tasks, &metrics, Some(4)).await;
    let idle = open(address, PING).await;
    let mut waiting = Vec::new();
    for (n, request) in [(2, WAIT), (2, WAIT), (3, WAIT)] {
        waiting.push(connect_from([127, 0, 0, n], address, request).await);
    }
    // One more of the second address is refused, and may ask for what is always answered.
    let mut more = connect_from([127, 0, 0, 2], address, WAIT).await;
    let mut answer = vec![0; 4_096];
    let length = more.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("half of the connections"), "{answer}");
    more.write_all(LIST.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    more.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    drop((idle, more));
    // All connections have requests: the reserve answers one request of those that are always answered.
    let refusal = async {
        for n in 4.. {
            // It may give way before its request has arrived.
            waiting.push(connect_from([127, 0, 0, n], address, WAIT).await);
            let answer = exchange(address, PING).await;
            if answer.starts_with("HTTP/1.1 503") {
                return answer;
            }
        }
        unreachable!("an address of its own for each attempt")
    };
    let refused = tokio::time::timeout(SOON, refusal).await.unwrap();
    assert!(refused.contains("retry-after: 1"), "{refused}");
    let always = exchange(address, &format!("{LIST}{LIST}")).await;
    assert!(
        always.starts_with("HTTP/1.1 200") && always.ends_with("\r\n\r\n3"),
        "{always}"
    );
    // Unfinished heads do not use up the reserve.
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(connect_from([127, 0, 0, 2], address, b"").await);
    }
    assert!(exchange(address, LIST).await.starts_with("HTTP/1.1 200"));
    drop(waiting);
    let again = async {
        while !exchange(address, PING).await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, again).await.unwrap();
    tasks.stop();
    tokio::time::timeout(SOON, tasks.join()).await.unwrap();
    assert_eq!(*metrics.open.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_body_from_an_unknown_client_holds_no_place() {
    let (tasks, metrics) = (Tasks::default(), Arc::default());
    let address = start(&tasks, &metrics, Some(2)).await;
    let head = b"POST /api/echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: 100\r\nexpect: 100-continue\r\n\r\n";
    let mut slow = connect_from([127, 0, 0, 2], address, head).await;
    // The handler reads the body.
    let mut interim = [0; 25];
    slow.read_exact(&mut interim).await.unwrap();
    let waiting = connect_from([127, 0, 0, 3], address, WAIT).await;
    let mut another = connect_from([127, 0, 0, 4], address, PING.as_bytes()).await;
    let mut first = [0; 12];
    let read = another.read_exact(&mut first);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    assert!(is_closed(&mut slow).await);
    drop(waiting);
    tasks.stop();
}

#[tokio::test]
async fn a_client_that_has_closed_its_side_gives_way() {
    let (tasks, metrics) = (Tasks::default(), Arc::default());
    let address = start(&tasks, &metrics, Some(1)).await;
    let mut gone = connect_from([127, 0, 0, 2], address, WAIT).await;
    gone.shutdown().await.unwrap();
    let again = async {
        while !exchange(address, PING).await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, again).await.unwrap();
    assert!(is_closed(&mut gone).await);
    tasks.stop();
}
