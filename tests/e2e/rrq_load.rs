//! Load on the RRQ listener: many requests, large frames, slow peers, and peers that disconnect early.

use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host_tests::raw::connect;
use host_tests::rrq::{Connection, PAYLOAD_BYTES_MAX, cancel, frame, request, within_ms};
use host_tests::server::host;
use host_tests::{eventually, guests};
use serde_json::{Value, json};

use crate::fixture::{Own, own};
use crate::rrq_garbage::refusals;

/// The most requests in flight on one connection.
const IN_FLIGHT_MAX: usize = 64;

const SLEEP: &str = "sleep";

/// How long a loaded machine may take for what happens immediately.
const WAIT_MAX: Duration = Duration::from_mins(2);

fn open(own: &Own) -> Connection {
    Connection::open(own.server.rrq_address())
}

/// Waits until all of `ids` are in the history, and returns its jobs with their states.
fn history(own: &Own, ids: &[&str]) -> Vec<(String, String)> {
    let client = own.server.client();
    eventually("the history", WAIT_MAX, || {
        let jobs = client.foreign_jobs();
        ids.iter()
            .map(|id| {
                let external_id = format!("job-{id}");
                let found = jobs.iter().find(|job| job["external_id"] == external_id)?;
                Some(((*id).to_owned(), found["state"].as_str()?.to_owned()))
            })
            .collect()
    })
}

#[test]
fn answers_are_sent_as_soon_as_they_are_ready() {
    let own = own();
    let mut connection = open(&own);
    connection.ask(&request("warm", "noop", &json!({})));
    for (id, ms) in [("slow", 6_000), ("middle", 3_000), ("quick", 0)] {
        connection.send(&request(id, SLEEP, &json!({"ms": ms})));
    }
    let order: Vec<Value> = (0..3)
        .map(|_| connection.answer()["request_id"].clone())
        .collect();
    assert_eq!(order, ["quick", "middle", "slow"]);
}

#[test]
fn a_connection_has_at_most_64_requests_in_flight() {
    let own = own();
    let mut connection = open(&own);
    for n in 0..IN_FLIGHT_MAX {
        connection.send(&request(&n.to_string(), SLEEP, &json!({"ms": 60_000})));
    }
    let busy = connection.ask(&request("64", "noop", &json!({})));
    assert_eq!(busy["request_id"], "64", "{busy}");
    assert_eq!(busy["error"]["type"], "runner_busy", "{busy}");
    assert_eq!(busy["error"]["code"], "E_BUSY", "{busy}");
    assert_eq!(refusals(&own, "E_BUSY"), 1);
    // Another connection still has room, and its cancels reach requests of this one.
    let mut other = open(&own);
    let answer = other.ask(&request("other", "echo", &json!({"a": 1})));
    assert_eq!(answer["result"], json!({"a": 1}), "{answer}");
    other.send(&cancel("7", Some("7"), false));
    let cancelled = connection.answer();
    assert_eq!(cancelled["request_id"], "7", "{cancelled}");
    assert_eq!(cancelled["status"], "error", "{cancelled}");
    assert_eq!(cancelled["error"]["type"], "cancelled", "{cancelled}");
    assert_eq!(
        cancelled["error"]["message"], "Job cancelled",
        "{cancelled}"
    );
    // The answer to a cancel may be faster than the end of the execution, which has its place until then.
    let answer = eventually("a place for another request", WAIT_MAX, || {
        let answer = connection.ask(&request("65", "echo", &json!({"b": 2})));
        (answer["error"]["code"] != "E_BUSY").then_some(answer)
    });
    assert_eq!(answer["result"], json!({"b": 2}), "{answer}");
    // A cancel without a request id cancels all requests of the job; here there is one.
    other.send(&cancel("8", None, true));
    assert_eq!(connection.answer()["request_id"], "8");
    for n in (0..IN_FLIGHT_MAX).filter(|n| ![7, 8].contains(n)) {
        other.send(&cancel(&n.to_string(), None, true));
    }
    for _ in 2..IN_FLIGHT_MAX {
        let answer = connection.answer();
        assert_eq!(answer["error"]["type"], "cancelled", "{answer}");
    }
}

#[test]
fn the_same_request_twice_runs_once_and_is_answered_twice() {
    let own = own();
    let (mut one, mut other) = (open(&own), open(&own));
    let same = request("same", SLEEP, &json!({"ms": 5_000}));
    one.send(&same);
    one.send(&same);
    other.send(&same);
    for connection in [&mut one, &mut other] {
        let answer = connection.answer();
        assert_eq!(answer["request_id"], "same", "{answer}");
        assert_eq!(answer["status"], "success", "{answer}");
    }
    assert_eq!(one.answer()["status"], "success");
    one.ask(&request("last", "noop", &json!({})));
    history(&own, &["same", "last"]);
    let jobs = own.server.client().foreign_jobs();
    let ran = jobs.iter().filter(|job| job["external_id"] == "job-same");
    assert_eq!(ran.count(), 1, "{jobs:?}");
}

#[test]
fn timeouts_are_answered_at_the_deadline() {
    // The answer is sent 1 % of this before the deadline, but a busy machine may be late. The test with RRQ's
    // orchestrator checks that it is in time.
    const BUDGET: Duration = Duration::from_secs(10);
    let own = own();
    let mut connection = open(&own);
    connection.ask(&request("warm", "noop", &json!({})));
    let start = Instant::now();
    for function in ["spin", SLEEP, "cooperate"] {
        let sent = request(function, function, &json!({"ms": 60_000}));
        connection.send(&within_ms(sent, 10_000));
    }
    for _ in 0..3 {
        let answer = connection.answer();
        let took = start.elapsed();
        assert_eq!(answer["status"], "timeout", "{answer}");
        assert_eq!(answer["error"]["type"], "timeout", "{answer}");
        assert!(
            took < BUDGET * 3 && took > BUDGET * 9 / 10,
            "{took:?} {answer}"
        );
    }
    let answer = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
}

#[test]
fn cancels_stop_guests_with_grace_and_without() {
    let own = own();
    let (mut connection, mut canceller) = (open(&own), open(&own));
    connection.ask(&request("warm", "noop", &json!({})));
    for (function, hard) in [
        ("cooperate", false),
        ("spin", false),
        ("spin", true),
        (SLEEP, true),
    ] {
        let id = format!("{function}-{hard}");
        connection.send(&request(&id, function, &json!({"ms": 60_000})));
        connection.ask(&request("between", "noop", &json!({})));
        let start = Instant::now();
        canceller.send(&cancel(&id, Some(&id), hard));
        let answer = connection.answer();
        assert_eq!(answer["request_id"], id.as_str(), "{answer}");
        assert_eq!(answer["error"]["type"], "cancelled", "{answer}");
        assert!(start.elapsed() < Duration::from_secs(30), "{id}");
    }
    let answer = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(
        answer["request_id"], "after",
        "each request is answered once: {answer}"
    );
}

#[test]
fn the_end_of_a_connection_stops_its_requests() {
    let own = own();
    let mut leaving = open(&own);
    for id in ["a", "b"] {
        leaving.send(&request(id, "cooperate", &json!({})));
    }
    leaving.ask(&request("between", "noop", &json!({})));
    leaving.end();
    assert_eq!(leaving.answer_or_end(), None, "nothing more is written");
    let ended = history(&own, &["a", "b", "between"]);
    let states: Vec<&str> = ended.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(states, ["cancelled", "cancelled", "completed"]);
}

#[test]
fn frames_of_16_mib_are_accepted() {
    let own = own();
    let mut connection = open(&own);
    let filled = |id: &str, bytes: usize| {
        let empty = request(id, "noop", &json!({"fill": ""})).to_string();
        let fill = "x".repeat(bytes - empty.len());
        request(id, "noop", &json!({"fill": fill})).to_string()
    };
    let largest = filled("largest", PAYLOAD_BYTES_MAX);
    assert_eq!(largest.len(), PAYLOAD_BYTES_MAX);
    connection.send_bytes(&frame(largest.as_bytes()));
    let answer = connection.answer();
    assert_eq!(answer["request_id"], "largest", "{answer}");
    assert_eq!(answer["status"], "success", "{answer}");
    let after = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(after["status"], "success", "{after}");
    // Checking a million keys takes a while.
    let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"{n}\":1")).collect();
    let empty = request("keys", "noop", &json!({"k": 0})).to_string();
    let many = empty.replace("\"k\":0", &keys.join(","));
    connection.send_bytes(&frame(many.as_bytes()));
    let answer = connection.answer();
    assert_eq!(answer["request_id"], "keys", "{answer}");
    let larger = filled("larger", PAYLOAD_BYTES_MAX + 1);
    connection.send_bytes(&frame(larger.as_bytes()));
    let answer = connection.answer();
    assert_eq!(answer["error"]["code"], "E_FRAME_TOO_LARGE", "{answer}");
    assert_eq!(connection.answer_or_end(), None);
}

#[test]
fn results_may_fill_a_whole_frame() {
    let own = own();
    let basics = std::fs::read(guests::component("basics")).unwrap();
    let manifest = "[handlers.echo]\nresult_kib = 16384\nmemory_mib = 512\n";
    let client = own.server.client();
    let deployed = client.deploy("basics", &basics, Some(manifest)).unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    let mut connection = open(&own);
    for (bytes, fits) in [(15 << 20, true), ((16 << 20) - 1_000, false)] {
        let fill = "x".repeat(bytes);
        let answer = connection.ask(&request("large", "echo", &json!({"fill": fill})));
        if fits {
            assert_eq!(answer["status"], "success", "{}", answer["error"]);
            assert_eq!(answer["result"]["fill"].as_str().map(str::len), Some(bytes));
        } else {
            assert_eq!(
                answer["error"]["type"], "result_too_large",
                "{}",
                answer["error"]
            );
            assert_eq!(answer["result"], json!(null));
        }
    }
    let answer = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
}

#[test]
fn a_stopping_host_answers_requests_in_flight() {
    let own = own();
    let mut connection = open(&own);
    for (n, function) in ["spin", SLEEP, "cooperate"].iter().enumerate() {
        connection.send(&request(&n.to_string(), function, &json!({"ms": 60_000})));
    }
    connection.ask(&request("between", "noop", &json!({})));
    assert_eq!(own.server.stop(), Some(0));
    let mut answered = Vec::new();
    while let Some(answer) = connection.answer_or_end() {
        assert_eq!(answer["error"]["type"], "runner_stopping", "{answer}");
        answered.push(answer["request_id"].as_str().unwrap().to_owned());
    }
    answered.sort_unstable();
    assert_eq!(answered, ["0", "1", "2"]);
}

#[test]
fn a_result_that_is_too_large_is_an_error() {
    let own = own();
    let mut connection = open(&own);
    let fill = "x".repeat(2 << 20);
    let answer = connection.ask(&request("large", "echo", &json!({"fill": fill})));
    assert_eq!(answer["status"], "error");
    assert_eq!(
        answer["error"]["type"], "result_too_large",
        "{}",
        answer["error"]
    );
}

#[test]
fn slow_and_truncated_frames_end_their_connection() {
    let own = own();
    let address = own.server.rrq_address().to_owned();
    let whole = frame(request("r", "noop", &json!({})).to_string().as_bytes());
    let mut truncated = Connection::open(&address);
    truncated.send_bytes(&whole[..whole.len() - 1]);
    truncated.end();
    assert_eq!(truncated.answer_or_end(), None);
    assert_eq!(refusals(&own, "E_FRAME_TRUNCATED"), 1);
    let start = Instant::now();
    let (mut header, mut body) = (Connection::open(&address), Connection::open(&address));
    header.send_bytes(&whole[..3]);
    body.send_bytes(&whole[..40]);
    let mut idle = Connection::open(&address);
    let mut drip = Connection::open(&address);
    drip.send_bytes(&[0, 0xff, 0xff, 0xff]);
    let dripping = std::thread::spawn(move || {
        eventually(
            "the host to close the connection of a slow frame",
            Duration::from_mins(2),
            || (!drip.send_bytes(b" ")).then(Instant::now),
        )
    });
    assert_eq!(header.answer_or_end(), None);
    let waited = start.elapsed();
    assert!(
        waited > Duration::from_secs(9) && waited < Duration::from_mins(1),
        "{waited:?}"
    );
    assert_eq!(refusals(&own, "E_FRAME_TIMEOUT"), 1);
    assert_eq!(body.answer_or_end(), None);
    let waited = start.elapsed();
    assert!(
        waited > Duration::from_secs(29) && waited < Duration::from_mins(2),
        "{waited:?}"
    );
    let given_up = dripping.join().unwrap().duration_since(start);
    assert!(
        given_up > Duration::from_secs(29) && given_up < Duration::from_mins(2),
        "{given_up:?}"
    );
    assert_eq!(refusals(&own, "E_FRAME_TIMEOUT"), 3);
    let answer = idle.ask(&request("idle", "echo", &json!({})));
    assert_eq!(
        answer["status"], "success",
        "an idle connection stays open: {answer}"
    );
}

#[test]
fn frames_may_be_split_or_combined() {
    let own = own();
    let mut connection = open(&own);
    for byte in frame(
        request("r", "echo", &json!({"a": 1}))
            .to_string()
            .as_bytes(),
    ) {
        connection.send_bytes(&[byte]);
    }
    assert_eq!(connection.answer()["result"], json!({"a": 1}));
    let many: Vec<u8> = (0..50)
        .flat_map(|n| {
            frame(
                request(&n.to_string(), "echo", &json!({}))
                    .to_string()
                    .as_bytes(),
            )
        })
        .collect();
    connection.send_bytes(&many);
    let mut answered: Vec<u32> = (0..50)
        .map(|_| {
            connection.answer()["request_id"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..50).collect::<Vec<u32>>());
}

#[test]
fn a_peer_that_does_not_read_is_disconnected() {
    let own = own();
    let mut deaf = open(&own);
    let mut writing = deaf.share();
    let fill = "x".repeat(512 << 10);
    let large = frame(
        request("r", "echo", &json!({"fill": fill}))
            .to_string()
            .as_bytes(),
    );
    let writer = std::thread::spawn(move || {
        // Blocks when the host stops reading, until the host closes the connection.
        for _ in 0..400 {
            writing.send_bytes(&large);
        }
    });
    let mut other = open(&own);
    let before = own.server.resident_bytes();
    let start = Instant::now();
    eventually("the host to give it up", Duration::from_mins(3), || {
        let answer = other.ask(&request("other", "echo", &json!({})));
        assert_eq!(answer["status"], "success", "{answer}");
        let grown = own.server.resident_bytes().saturating_sub(before);
        // 64 requests in flight with their answers, and the same amount in the history.
        assert!(grown < 160 << 20, "the memory grew by {grown} bytes");
        writer.is_finished().then_some(())
    });
    assert!(
        start.elapsed() > Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    deaf.end();
    writer.join().unwrap();
}

#[test]
fn a_thousand_idle_connections_cost_less_than_10_mib() {
    const CONNECTIONS: usize = 1_000;
    let own = own();
    let address = own.server.rrq_address().to_owned();
    let mut first = open(&own);
    first.ask(&request("first", "noop", &json!({})));
    let before = own.server.resident_bytes();
    let idle: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(&address)).collect();
    // If a later connection is answered, all earlier ones have been accepted.
    let mut last = open(&own);
    let answer = last.ask(&request("last", "echo", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
    let grown = own.server.resident_bytes().saturating_sub(before);
    assert!(grown < 10 << 20, "the memory grew by {grown} bytes");
    for mut stream in idle {
        stream.set_nonblocking(true).unwrap();
        let error = stream
            .read(&mut [0])
            .expect_err("no answer came and no connection was closed");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn only_loopback_addresses_are_accepted() {
    let data = tempfile::TempDir::new().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7701"] {
        let refused = Command::new(host())
            .args(["serve", "--listen", "127.0.0.1:0", "--rrq-listen", address])
            .arg("--data")
            .arg(data.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!refused.status.success(), "{address}: {refused:?}");
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(
            stderr.contains("TLS") && stderr.contains("tunnel"),
            "{address}: {stderr}"
        );
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
}
