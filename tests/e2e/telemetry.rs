//! Spans and metrics of a worker at a collector, which is a few lines of HTTP here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use host_tests::rrq::{Connection, request};
use host_tests::worker::{cache, command};
use host_tests::{Worker, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

const WAIT_MAX: Duration = Duration::from_mins(1);

/// What a collector got: the path, the header `x-key`, and the body.
type Taken = Arc<Mutex<Vec<(String, String, Value)>>>;

struct Collector {
    endpoint: String,
    taken: Taken,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let taken = Taken::default();
        let all = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), all) = (stream, Arc::clone(&all)) else {
                    return;
                };
                thread::spawn(move || {
                    while let Some(taken) = take(&stream) {
                        all.lock().unwrap().push(taken);
                    }
                });
            }
        });
        Self { endpoint, taken }
    }

    /// Returns all values at this place of all bodies sent to `path`.
    fn all(&self, path: &str, place: &str) -> Vec<Value> {
        let taken = self.taken.lock().unwrap();
        let bodies = taken.iter().filter(|(to, ..)| to == path);
        let lists = bodies.filter_map(|(_, _, body)| body.pointer(place)?.as_array());
        lists.flatten().cloned().collect()
    }

    fn spans(&self) -> Vec<Value> {
        self.all("/v1/traces", "/resourceSpans/0/scopeSpans/0/spans")
    }

    fn metrics(&self) -> Vec<Value> {
        self.all("/v1/metrics", "/resourceMetrics/0/scopeMetrics/0/metrics")
    }
}

/// Reads one request and answers it.
fn take(stream: &TcpStream) -> Option<(String, String, Value)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-key" => value.clone_into(&mut key),
            "content-type" => assert_eq!(value, "application/json"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    (&*stream).write_all(answer).ok()?;
    Some((path, key, serde_json::from_slice(&body).ok()?))
}

/// Returns the value of an attribute, as text.
fn attribute<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    let attributes = of["attributes"].as_array()?;
    let found = attributes.iter().find(|it| it["key"] == name)?;
    let value = found["value"].as_object()?.values().next()?;
    value.as_str()
}

#[test]
fn a_trace_of_a_producer_goes_on_in_our_spans_and_refusals_are_counted() {
    let collector = Collector::start();
    let data = TempDir::new().unwrap();
    let mut line = vec!["env".to_owned()];
    line.extend([
        format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", collector.endpoint),
        "OTEL_EXPORTER_OTLP_HEADERS=x-key=hush%20hush".to_owned(),
        "OTEL_BSP_SCHEDULE_DELAY=50".to_owned(),
        "OTEL_METRIC_EXPORT_INTERVAL=200".to_owned(),
        "OTEL_SERVICE_NAME=shop".to_owned(),
    ]);
    line.extend(command());
    let worker = Worker::launch(data.path(), &cache(), &line);
    let mut connection = Connection::open(worker.address());

    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut traced = request("a", "noop", &json!({}));
    traced["payload"]["context"]["trace_context"] =
        json!({"traceparent": format!("00-{trace}-{parent}-01")});
    assert_eq!(connection.ask(&traced)["status"], "success");
    let failing = request("b", "nobody", &json!({}));
    assert_eq!(connection.ask(&failing)["status"], "error");
    let mut refused = request("c", "noop", &json!({}));
    refused["payload"]["protocol_version"] = json!("1");
    assert_eq!(connection.ask(&refused)["error"]["code"], "E_VERSION");

    let span = eventually("the span", WAIT_MAX, || {
        let spans = collector.spans();
        spans.into_iter().find(|span| span["traceId"] == trace)
    });
    assert_eq!(
        (&span["name"], &span["kind"]),
        (&json!("rrq.runner"), &json!(5)),
        "{span}"
    );
    assert_eq!(span["parentSpanId"], parent, "{span}");
    let id = span["spanId"].as_str().unwrap();
    assert!(id.len() == 16 && id != parent, "{span}");
    for (name, value) in [
        ("rrq.job_id", "job-a"),
        ("rrq.function", "noop"),
        ("rrq.queue", "rrq:queue:default"),
        ("rrq.attempt", "1"),
        ("rrq.worker_id", "rrq_worker_1"),
        ("rrq.outcome", "completed"),
    ] {
        assert_eq!(attribute(&span, name), Some(value), "{name}: {span}");
    }
    let nanos = |field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
    let refusals = eventually("the refusal in the metrics", WAIT_MAX, || {
        let all = collector.metrics();
        all.into_iter().find(|metric| {
            let points = &metric["sum"]["dataPoints"][0];
            metric["name"] == "host_wire_refusals" && attribute(points, "code") == Some("E_VERSION")
        })
    });
    assert_eq!(
        refusals["sum"]["dataPoints"][0]["asDouble"], 1.0,
        "{refusals}"
    );
    let taken = collector.taken.lock().unwrap();
    assert!(taken.iter().all(|(_, key, _)| key == "hush hush"));
    let service = &taken[0].2;
    assert!(
        service.to_string().contains(r#"{"stringValue":"shop"}"#),
        "{service}"
    );
    drop(taken);
    assert_eq!(worker.stop().0, Some(0));
    let log = std::fs::read_to_string(data.path().join("worker.log")).unwrap();
    assert!(!log.contains("hush"), "{log}");
}
