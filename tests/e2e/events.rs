//! The event stream of a real host, whose changes are in its store.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use host_tests::{Options, Server, eventually, raw};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

use crate::fixture::own;

/// Reads the stream of one job until it ends.
pub(crate) fn stream(address: &str, job: &str, last_id: Option<u64>) -> String {
    let last_id = last_id.map_or(String::new(), |id| format!("last-event-id: {id}\r\n"));
    let request =
        format!("GET /api/v1/events?job={job} HTTP/1.0\r\nhost: {address}\r\n{last_id}\r\n");
    let mut stream = raw::connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (status, events) = answer.split_once("\r\n\r\n").unwrap();
    assert!(status.starts_with("HTTP/1.0 200 "), "{answer}");
    events.to_owned()
}

#[test]
fn a_listener_that_comes_back_gets_what_it_missed() {
    let host = own();
    let client = host.server.client();
    let job = client.run(&json!({"handler": "echo", "params": {}}));
    let id = job["id"].as_str().unwrap();
    // The job has ended, and so has its stream.
    let nothing = stream(host.server.address(), id, None);
    let address = host.server.address().to_owned();
    let missed = stream(&address, id, Some(0));
    // It says where it began, so that a listener without an event can come back, too.
    let last = missed
        .rsplit_once("\nid: ")
        .unwrap()
        .1
        .split('\n')
        .next()
        .unwrap();
    assert_eq!(nothing, format!(": listening\nid: {last}\n\n"));
    let told = |to: &str| missed.contains(&format!("\"to\":\"{to}\""));
    assert!(
        told("available") && told("running") && told("completed"),
        "{missed}"
    );
    // An id that this host never issued: what was missed is unknown.
    let strange = stream(&address, id, Some(u64::MAX));
    assert!(strange.contains("event: gap"), "{strange}");
    assert_eq!(host.server.stop(), Some(0));
    let again = Server::start(&Options::new(host.data.path()));
    assert_eq!(stream(again.address(), id, Some(0)), missed);
}

/// How much the host's memory may grow, in bytes.
const MEMORY_SLACK_BYTES: u64 = 24 << 20;

/// Each gets several MB that it never reads.
#[test]
fn listeners_that_never_read_use_little_memory_and_are_closed() {
    const LISTENERS: usize = 50;
    let host = own();
    let client = host.server.client();
    let later = json!({"handler": "noop", "run_at": "2099-01-01T00:00:00Z", "queue": "later"});
    for _ in 0..30 {
        let answer = client
            .post("/api/v1/jobs", &json!(vec![&later; 1_000]))
            .unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let open = || {
        let page = client.get("/metrics").unwrap().body;
        let mut lines = page.as_str().unwrap().lines();
        let value = lines.find_map(|line| line.strip_prefix("host_http_connections "));
        value.unwrap().parse::<usize>().unwrap()
    };
    let (others, before) = (open(), host.server.resident_bytes());
    let address = host.server.address();
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nlast-event-id: 0\r\n\r\n");
    let listener = || {
        let mut stream = raw::connect(address);
        set_socket_recv_buffer_size(&stream, 4_096).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let listeners: Vec<_> = (0..LISTENERS).map(|_| listener()).collect();
    eventually("all to be connected", Duration::from_mins(1), || {
        (open() >= others + LISTENERS).then_some(())
    });
    let mut most = 0;
    eventually("all to be closed", Duration::from_secs(90), || {
        most = most.max(host.server.resident_bytes());
        let job = client.run(&json!({"handler": "noop"}));
        assert_eq!(job["state"], "completed", "{job}");
        (open() <= others).then_some(())
    });
    assert!(
        most <= before + MEMORY_SLACK_BYTES,
        "{before} bytes became {most}"
    );
    drop(listeners);
}
