//! The stream of events of a real host, whose changes are in its store.

use std::io::{Read as _, Write as _};

use host_tests::{Options, Server, raw};
use serde_json::json;

use crate::fixture::own;

/// Reads the stream of one job until it ends.
pub(crate) fn stream(address: &str, job: &str, heard: Option<u64>) -> String {
    let heard = heard.map_or(String::new(), |id| format!("last-event-id: {id}\r\n"));
    let request =
        format!("GET /api/v1/events?job={job} HTTP/1.0\r\nhost: {address}\r\n{heard}\r\n");
    let mut stream = raw::connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (status, events) = answer.split_once("\r\n\r\n").unwrap();
    assert!(status.starts_with("HTTP/1.0 200 "), "{answer}");
    events.to_owned()
}

#[test]
fn a_listener_that_comes_back_hears_what_it_missed() {
    let host = own();
    let client = host.server.client();
    let job = client.run(&json!({"handler": "echo", "params": {}}));
    let id = job["id"].as_str().unwrap();
    // The job has ended, and so has its stream.
    assert_eq!(stream(host.server.address(), id, None), ": listening\n\n");
    let address = host.server.address().to_owned();
    let missed = stream(&address, id, Some(0));
    let told = |to: &str| missed.contains(&format!("\"to\":\"{to}\""));
    assert!(
        told("available") && told("running") && told("completed"),
        "{missed}"
    );
    // An id that this host never gave: what was missed is not known.
    let strange = stream(&address, id, Some(u64::MAX));
    assert!(strange.contains("event: gap"), "{strange}");
    assert_eq!(host.server.stop(), Some(0));
    let again = Server::start(&Options::new(host.data.path()));
    assert_eq!(stream(again.address(), id, Some(0)), missed);
}
