//! Requests of guests to HTTP servers, by each of the two interfaces. The test plays the broker.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use host_core::cell::{EgressDoor, Handover, Level, LogSource, RunId, Start, ToCell};
use host_core::egress::ToCell as FromBroker;
use host_core::egress::{
    FromCell, HttpAnswer, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
};
use host_core::failure::FailureKind;
use host_core::handler::Limits;
use host_core::outcome::Outcome;
use serde_json::{Value, json};

use crate::child::{Cell, Ran, resident_kib};

/// How long a test waits for a request.
const PATIENCE: Duration = Duration::from_mins(1);

/// The handlers that make requests, by interface.
const BOTH: [&str; 2] = ["hostile/request", "hostile/wasi_request"];

/// The broker's end of a run's socket.
struct Broker(UnixStream);

impl Broker {
    /// Makes the run one that may send requests.
    fn attach(cell: &mut Cell, start: &mut Start) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        start.http = Some(EgressDoor {
            pass: Box::default(),
            socket: Handover::Comes,
            ..EgressDoor::default()
        });
        cell.give(theirs.into());
        Self(ours)
    }

    /// Returns the next request, or `None` when the cell has closed the socket.
    fn next(&mut self) -> Option<HttpRequest> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame).unwrap();
        match postcard::from_bytes(&frame).unwrap() {
            FromCell::Http(request) => Some(request),
            other => panic!("it is no request: {other:?}"),
        }
    }

    fn answer(&mut self, call: u32, result: Result<HttpResponse, HttpError>) {
        let frame = postcard::to_stdvec(&FromBroker::Http(HttpAnswer { call, result })).unwrap();
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        // A guest may be gone.
        let _ = self.0.write_all(&[&length[..], &frame].concat());
    }

    /// Answers all requests, and returns them at the end.
    fn serve(
        mut self,
        answer: impl Fn(&HttpRequest) -> Result<HttpResponse, HttpError> + Send + 'static,
    ) -> JoinHandle<Vec<HttpRequest>> {
        std::thread::spawn(move || {
            let mut requests = Vec::new();
            while let Some(request) = self.next() {
                let result = answer(&request);
                self.answer(request.call, result);
                requests.push(request);
            }
            requests
        })
    }
}

fn ok(body: Vec<u8>) -> HttpResponse {
    HttpResponse {
        status: 200,
        headers: vec![("x-seen".to_owned(), "yes".to_owned())],
        body,
    }
}

/// Runs a handler whose requests are answered, and returns its end and the requests.
fn run(
    cell: &mut Cell,
    handler: &str,
    params: &Value,
    limits: Limits,
    answer: impl Fn(&HttpRequest) -> Result<HttpResponse, HttpError> + Send + 'static,
) -> (Ran, Vec<HttpRequest>) {
    let mut start = cell.prepare(handler, &params.to_string(), limits);
    let requests = Broker::attach(cell, &mut start).serve(answer);
    let ran = cell.finish(start);
    (ran, requests.join().unwrap())
}

/// Returns what the handler learned.
fn learned(ran: &Ran) -> Value {
    let Outcome::Completed {
        result: Some(result),
    } = &ran.outcome
    else {
        panic!("{ran:?}")
    };
    serde_json::from_str(result.as_str()).unwrap()
}

fn warnings(ran: &Ran) -> Vec<&str> {
    let warnings = ran
        .lines
        .iter()
        .filter(|line| (line.level, line.source) == (Level::Warn, LogSource::Host));
    warnings.map(|line| line.message.as_str()).collect()
}

#[test]
fn a_guest_makes_the_same_requests_by_both_interfaces() {
    let mut cell = Cell::start();
    let params = json!({"requests": [
        {"url": "https://api.example.com/a?b=c", "headers": [["x-a", "1"], ["x-a", "2"]]},
        {"method": "PURGE", "url": "http://[::1]:8080/", "body_bytes": 100_000},
    ]});
    for handler in BOTH {
        let answer = |request: &HttpRequest| Ok(ok(request.method.clone().into_bytes()));
        let (ran, requests) = run(&mut cell, handler, &params, Limits::default(), answer);
        let learned = learned(&ran);
        for (index, method) in ["GET", "PURGE"].into_iter().enumerate() {
            let expected = json!({"status": 200, "headers": [["x-seen", "yes"]], "body": method});
            assert_eq!(learned[index], expected, "{handler}");
        }
        assert_eq!(requests.len(), 2, "{handler}");
        assert_eq!(
            requests[0].url, "https://api.example.com/a?b=c",
            "{handler}"
        );
        let headers = ["1", "2"].map(|value| ("x-a".to_owned(), value.to_owned()));
        assert_eq!(requests[0].headers, headers, "{handler}");
        assert_eq!(requests[1].url, "http://[::1]:8080/", "{handler}");
        assert_eq!(requests[1].body, vec![b'a'; 100_000], "{handler}");
        assert!(warnings(&ran).is_empty(), "{handler}: {ran:?}");
    }
}

#[test]
fn the_length_that_a_library_sets_is_checked_and_not_passed_on() {
    let mut cell = Cell::start();
    let requests: Vec<Value> = [("5", 5), ("4", 5), ("6", 5), ("+5", 5)]
        .map(|(length, body_bytes)| {
            let headers = json!([["content-length", length]]);
            json!({"method": "POST", "url": "http://a.test/", "headers": headers, "body_bytes": body_bytes})
        })
        .into();
    let params = json!({"requests": requests});
    let answer = |_: &HttpRequest| Ok(ok(Vec::new()));
    let handler = "hostile/wasi_request";
    let (ran, requests) = run(&mut cell, handler, &params, Limits::default(), answer);
    let learned = learned(&ran);
    assert_eq!(learned[0]["status"], 200, "{learned}");
    for index in 1..4 {
        assert!(learned[index]["kind"].is_string(), "{learned}");
    }
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].headers.is_empty(), "{requests:?}");
}

#[test]
fn an_error_has_a_code_for_the_guest_and_a_sentence_in_the_log() {
    use HttpErrorKind as Kind;
    const CODES: [(Kind, &str, &str); 14] = [
        (
            Kind::NotGranted,
            "NotGranted",
            "ErrorCode::HttpRequestDenied",
        ),
        (
            Kind::AddressNotAllowed,
            "NotGranted",
            "ErrorCode::DestinationIpProhibited",
        ),
        (
            Kind::InvalidRequest,
            "InvalidRequest",
            "ErrorCode::InternalError",
        ),
        (
            Kind::RequestTooLarge,
            "InvalidRequest",
            "ErrorCode::HttpRequestBodySize",
        ),
        (Kind::NameNotFound, "Unreachable", "ErrorCode::DnsError"),
        (
            Kind::ConnectionRefused,
            "Unreachable",
            "ErrorCode::ConnectionRefused",
        ),
        (
            Kind::CertificateRefused,
            "Unreachable",
            "ErrorCode::TlsCertificateError",
        ),
        (
            Kind::ResponseIncomplete,
            "Unreachable",
            "ErrorCode::HttpResponseIncomplete",
        ),
        (
            Kind::ResponseEncoded,
            "Unreachable",
            "ErrorCode::HttpResponseContentCoding",
        ),
        (
            Kind::Unreachable,
            "Unreachable",
            "ErrorCode::DestinationUnavailable",
        ),
        (Kind::TimedOut, "TimedOut", "ErrorCode::HttpResponseTimeout"),
        (
            Kind::TooLarge,
            "TooLarge",
            "ErrorCode::HttpResponseBodySize",
        ),
        (
            Kind::LimitReached,
            "LimitReached",
            "ErrorCode::ConnectionLimitReached",
        ),
        (Kind::Unavailable, "Unavailable", "ErrorCode::InternalError"),
    ];
    let mut cell = Cell::start();
    let requests: Vec<Value> = (0..CODES.len())
        .map(|n| json!({"url": format!("http://a.test/{n}")}))
        .collect();
    let params = json!({"requests": requests});
    for (handler, is_wasi) in BOTH.into_iter().zip([false, true]) {
        let answer = |request: &HttpRequest| {
            let (_, n) = request.url.rsplit_once('/').unwrap();
            let (kind, ..) = CODES[n.parse::<usize>().unwrap()];
            Err(HttpError::new(kind, format!("this is {kind:?}")))
        };
        let (ran, _) = run(&mut cell, handler, &params, Limits::default(), answer);
        let learned = learned(&ran);
        for (index, (kind, plain, code)) in CODES.into_iter().enumerate() {
            let shown = learned[index]["kind"].as_str().unwrap();
            let expected = if is_wasi { code } else { plain };
            assert!(shown.starts_with(expected), "{handler}, {kind:?}: {shown}");
        }
        let sentences: Vec<String> = CODES.map(|(kind, ..)| format!("this is {kind:?}")).into();
        let logged = if is_wasi { sentences } else { Vec::new() };
        assert_eq!(warnings(&ran), logged, "{handler}");
    }
}

#[test]
fn a_guest_without_a_grant_gets_a_code_and_its_log_the_sentence() {
    let mut cell = Cell::start();
    let params = json!({"requests": [{"url": "https://example.com/", "body_bytes": 10}]});
    let ran = cell.run(
        "hostile/wasi_request",
        &params.to_string(),
        Limits::default(),
    );
    let learned = learned(&ran);
    assert_eq!(
        learned[0]["kind"], "ErrorCode::HttpRequestDenied",
        "{learned}"
    );
    let [warning] = warnings(&ran)[..] else {
        panic!("{ran:?}")
    };
    assert!(warning.contains("[[handlers.NAME.http]]"), "{warning}");
    // Not more of them than are useful.
    let params = json!({"requests": [{"url": "https://example.com/", "times": 100}]});
    let ran = cell.run(
        "hostile/wasi_request",
        &params.to_string(),
        Limits::default(),
    );
    assert_eq!(warnings(&ran).len(), 20);
}

#[test]
fn requests_are_made_at_once_and_answered_in_any_order() {
    const COUNT: usize = 40;
    let mut cell = Cell::start();
    let requests: Vec<Value> = (0..COUNT)
        .map(|n| json!({"url": format!("http://a.test/{n}")}))
        .collect();
    let params = json!({"requests": requests, "at_once": true}).to_string();
    let mut start = cell.prepare("hostile/wasi_request", &params, Limits::default());
    let mut broker = Broker::attach(&mut cell, &mut start);
    let run = start.run;
    cell.send(&ToCell::Start(Box::new(start)));
    let mut all: Vec<HttpRequest> = (0..COUNT).map(|_| broker.next().unwrap()).collect();
    all.reverse();
    for request in all {
        broker.answer(request.call, Ok(ok(request.url.into_bytes())));
    }
    let learned = learned(&cell.wait_for_end(run));
    for n in 0..COUNT {
        assert_eq!(
            learned[n]["body"],
            format!("http://a.test/{n}"),
            "{learned}"
        );
    }
}

#[test]
fn what_the_cell_keeps_for_a_guest_counts_towards_its_limit() {
    let mut cell = Cell::start();
    let limits = Limits {
        memory_bytes: 8 << 20,
        timeout_ms: 600_000,
        ..Limits::default()
    };
    let params = json!({"requests": [{"url": "http://a.test/"}]});
    for (handler, kind) in BOTH
        .into_iter()
        .zip(["TooLarge", "ErrorCode::HttpResponseBodySize"])
    {
        let huge = |_: &HttpRequest| Ok(ok(vec![b'a'; 8 << 20]));
        let (ran, _) = run(&mut cell, handler, &params, limits.clone(), huge);
        let learned = learned(&ran);
        let shown = learned[0]["kind"].as_str().unwrap();
        assert!(shown.starts_with(kind), "{learned}");
        assert!(ran.meter.peak_memory_bytes <= limits.memory_bytes);
    }
    // Each fits alone, but not together.
    let request = json!({"url": "http://a.test/"});
    let params = json!({"requests": [request, request, request], "at_once": true});
    let large = |_: &HttpRequest| Ok(ok(vec![b'a'; 3 << 20]));
    let handler = "hostile/wasi_request";
    let (ran, _) = run(&mut cell, handler, &params, limits.clone(), large);
    let ended = format!("{:?}", ran.outcome);
    assert!(
        ended.contains("HttpResponseBodySize") || ended.contains("MemoryLimit"),
        "{ran:?}"
    );
    // A request's body counts, too.
    let params =
        json!({"requests": [{"url": "http://a.test/", "method": "POST", "body_bytes": 5 << 20}]});
    let wide = Limits {
        memory_bytes: 64 << 20,
        ..limits
    };
    let (ran, requests) = run(&mut cell, handler, &params, wide, large);
    let learned = learned(&ran);
    let shown = learned[0]["kind"].as_str().unwrap();
    assert!(
        shown.starts_with("ErrorCode::HttpRequestBodySize"),
        "{learned}"
    );
    assert!(requests.is_empty());
}

#[test]
fn a_guest_that_makes_too_much_of_something_harms_only_itself() {
    let mut cell = Cell::start();
    let limits = Limits {
        timeout_ms: 600_000,
        fuel: Some(1_000_000_000_000),
        ..Limits::default()
    };
    cell.run("basics/noop", "null", Limits::default());
    let before = resident_kib(cell.pid());
    for what in ["fields", "bodies", "abandoned"] {
        let params = json!({"what": what, "url": "http://a.test/"}).to_string();
        let mut start = cell.prepare("hostile/wasi_flood", &params, limits.clone());
        // It answers nothing.
        let _broker = Broker::attach(&mut cell, &mut start);
        let ran = cell.finish(start);
        match (what, &ran.outcome) {
            ("abandoned", Outcome::Completed { .. }) => {}
            (_, Outcome::Failed(failure)) => {
                assert_eq!(failure.kind, FailureKind::Trapped, "{what}: {failure:?}");
            }
            _ => panic!("{what}: {ran:?}"),
        }
        let after = resident_kib(cell.pid());
        assert!(
            after < before + 100 * 1024,
            "{what}: {before} KiB became {after} KiB"
        );
    }
    let ran = cell.run("basics/noop", "null", Limits::default());
    assert!(matches!(ran.outcome, Outcome::Completed { .. }), "{ran:?}");
}

#[test]
fn limits_and_a_cancel_hold_in_the_middle_of_a_request() {
    let mut cell = Cell::start();
    let params = json!({"requests": [{"url": "http://a.test/"}]}).to_string();
    let short = Limits {
        timeout_ms: 200,
        ..Limits::default()
    };
    for handler in BOTH {
        for (limits, is_cancelled, kind) in [
            (short.clone(), false, FailureKind::TimedOut),
            (Limits::default(), true, FailureKind::Cancelled),
        ] {
            let mut start = cell.prepare(handler, &params, limits);
            let mut broker = Broker::attach(&mut cell, &mut start);
            let run: RunId = start.run;
            cell.send(&ToCell::Start(Box::new(start)));
            assert!(broker.next().is_some(), "{handler}");
            if is_cancelled {
                cell.stop(run, 0);
            }
            let Outcome::Failed(failure) = cell.wait_for_end(run).outcome else {
                panic!("{handler} ends")
            };
            assert_eq!(failure.kind, kind, "{handler}");
            assert!(broker.next().is_none(), "{handler}: the request is cut");
        }
    }
    // Fuel that runs out between requests, with and without a grant.
    let limits = Limits {
        fuel: Some(100_000_000),
        timeout_ms: 600_000,
        ..Limits::default()
    };
    let params = json!({"requests": [{"url": "http://a.test/", "times": 10_000_000}]});
    let answer = |_: &HttpRequest| Ok(ok(Vec::new()));
    let (ran, _) = run(&mut cell, "hostile/wasi_request", &params, limits, answer);
    let Outcome::Failed(failure) = &ran.outcome else {
        panic!("{ran:?}")
    };
    assert_eq!(failure.kind, FailureKind::FuelExhausted, "{failure:?}");
}

#[test]
fn a_broker_that_is_gone_is_an_error_that_may_be_retried() {
    let mut cell = Cell::start();
    for (handler, kind) in BOTH
        .into_iter()
        .zip(["Unavailable", "ErrorCode::InternalError"])
    {
        let params = json!({"requests": [{"url": "http://a.test/"}, {"url": "http://a.test/"}]});
        let mut start = cell.prepare(handler, &params.to_string(), Limits::default());
        let mut broker = Broker::attach(&mut cell, &mut start);
        let run = start.run;
        cell.send(&ToCell::Start(Box::new(start)));
        assert!(broker.next().is_some());
        drop(broker);
        let learned = learned(&cell.wait_for_end(run));
        for index in [0, 1] {
            let shown = learned[index]["kind"].as_str().unwrap();
            assert!(shown.starts_with(kind), "{handler}: {learned}");
        }
    }
}

#[test]
fn a_broker_that_breaks_the_protocol_is_no_broker_any_more() {
    let mut cell = Cell::start();
    for garbage in [
        &b"\xff\xff\xff\xff"[..],
        b"\0\0\0\x02\xff\xff",
        b"\0\0\0\x03\x63\0\0",
    ] {
        let params = json!({"requests": [{"url": "http://a.test/"}]}).to_string();
        let mut start = cell.prepare("hostile/wasi_request", &params, Limits::default());
        let mut broker = Broker::attach(&mut cell, &mut start);
        let run = start.run;
        cell.send(&ToCell::Start(Box::new(start)));
        assert!(broker.next().is_some());
        broker.0.write_all(garbage).unwrap();
        let learned = learned(&cell.wait_for_end(run));
        let shown = learned[0]["kind"].as_str().unwrap();
        assert!(shown.starts_with("ErrorCode::InternalError"), "{learned}");
    }
}
