//! Spans and metrics of a host and of a worker, sent to a minimal collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use host_tests::pool::{launch_config, worker_env};
use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::rrq::{Connection, request};
use host_tests::worker::{cache, command};
use host_tests::{Options, Server, Worker, eventually, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;

const WAIT_MAX: Duration = Duration::from_mins(3);

/// A request to the collector: the path, the header `x-key`, and the body.
type CollectorRequests = Arc<Mutex<Vec<(String, String, Value)>>>;

struct Collector {
    endpoint: String,
    taken: CollectorRequests,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let taken = CollectorRequests::default();
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

    /// Returns the variables of a process that sends JSON to this collector.
    fn variables(&self) -> [(&'static str, &str); 5] {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hush%20hush"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
        ]
    }

    /// Returns all values at this place of all bodies sent to `path`.
    fn collect(&self, path: &str, place: &str) -> Vec<Value> {
        let taken = self.taken.lock().unwrap();
        let bodies = taken.iter().filter(|(to, ..)| to == path);
        let lists = bodies.filter_map(|(_, _, body)| body.pointer(place)?.as_array());
        lists.flatten().cloned().collect()
    }

    fn spans(&self) -> Vec<Value> {
        self.collect("/v1/traces", "/resourceSpans/0/scopeSpans/0/spans")
    }

    fn metrics(&self) -> Vec<Value> {
        self.collect("/v1/metrics", "/resourceMetrics/0/scopeMetrics/0/metrics")
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

/// Enqueues a job with a header of its producer, and returns its id.
fn enqueue(address: &str, header: &str, job: &Value) -> String {
    let body = job.to_string();
    let length = body.len();
    let request = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {address}\r\ntraceparent: {header}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    body["id"].as_str().expect("an accepted job").to_owned()
}

#[test]
fn one_trace_leads_from_a_producer_over_our_job_to_the_runner_of_another_process() {
    let collector = Collector::start();
    let data = TempDir::new().unwrap();
    let pool = launch_config(&command(), &worker_env(&collector.variables()));
    let path = data.path().join("host.toml");
    std::fs::write(&path, format!("[protocol.rrq.runners.own]\n{pool}")).unwrap();
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), path.display().to_string()];
    let variables = collector
        .variables()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env = variables.collect();
    let server = Server::start(&options);

    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let job = json!({"handler": "own#echo", "attributes": {"correlation.tenant": "t1"}});
    let header = format!("00-{trace}-{parent}-01");
    let id = enqueue(server.address(), &header, &job);
    assert_eq!(server.client().wait(&id)["state"], "completed");
    let untraced = server.client().enqueue(&json!({"handler": "own#noop"}));
    assert_eq!(server.client().wait(&untraced)["state"], "completed");

    let find = |spans: &[Value], name: &str, id: &str| {
        let job = if name == "rrq.runner" {
            "rrq.job_id"
        } else {
            "host.job_id"
        };
        let mut spans = spans.iter().filter(|span| span["name"] == name);
        spans.find(|span| attribute(span, job) == Some(id)).cloned()
    };
    let chain = |id: &str| {
        eventually("the three spans", WAIT_MAX, || {
            let spans = collector.spans();
            let names = ["host.enqueue", "host.attempt", "rrq.runner"];
            let found: Vec<Value> = names
                .iter()
                .filter_map(|name| find(&spans, name, id))
                .collect();
            (found.len() == names.len()).then_some(found)
        })
    };
    let ours = chain(&id);
    assert_eq!(ours[0]["parentSpanId"], parent, "{ours:?}");
    for span in &ours {
        assert_eq!(span["traceId"], trace, "{span}");
        assert_eq!(attribute(span, "tenant"), Some("t1"), "{span}");
    }
    for spans in [ours, chain(&untraced)] {
        assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"], "{spans:?}");
        assert_eq!(spans[2]["parentSpanId"], spans[1]["spanId"], "{spans:?}");
        assert_eq!(spans[2]["traceId"], spans[0]["traceId"], "{spans:?}");
        assert_eq!(attribute(&spans[1], "host.outcome"), Some("completed"));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_trace_of_a_producer_goes_on_in_our_spans_and_refusals_are_counted() {
    let collector = Collector::start();
    let data = TempDir::new().unwrap();
    let mut line = vec!["env".to_owned(), "OTEL_SERVICE_NAME=shop".to_owned()];
    let variables = collector.variables();
    line.extend(variables.map(|(name, value)| format!("{name}={value}")));
    line.extend(command());
    let worker = Worker::launch(data.path(), &cache(), &line);
    let mut connection = Connection::open(worker.address());

    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut traced = request("a", "noop", &json!({}));
    traced["payload"]["context"]["trace_context"] =
        json!({"traceparent": format!("00-{trace}-{parent}-01")});
    assert_eq!(connection.ask(&traced)["status"], "success");
    let failing = request("b", "missing", &json!({}));
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

/// A server gets the span of the request as its parent, which is a child of the attempt's. Spans and metrics name
/// the server, and neither a path nor a secret.
#[test]
fn a_trace_goes_on_to_the_servers_of_requests_and_requests_are_counted() {
    let (collector, reflector) = (Collector::start(), Reflector::start());
    let data = TempDir::new().unwrap();
    let mut options = reflector.options(&data, "", "");
    let variables = collector
        .variables()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env.extend(variables);
    let server = Server::start(&options);
    let client = server.client();
    let hostile = std::fs::read(guests::component("hostile")).unwrap();
    let manifest = format!(
        "[[handlers.request.http]]\nto = \"{}\"\npaths = [\"/told/*\"]\n\
         headers = {{ authorization = \"Bearer {{secret:api}}\" }}\n",
        reflector.origin()
    );
    let deployed = client.deploy_accepted("hostile", &hostile, Some(&manifest));
    assert_eq!(deployed.unwrap().status, 201);
    let params = json!({"requests": [
        {"url": reflector.url("/told/path-in-no-span")},
        {"method": "POST", "url": reflector.url("/told/again"), "body_bytes": 100},
        {"url": reflector.url("/other/path-in-no-span")},
        {"url": "http://server-in-no-span.example/"},
    ]});
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let job = json!({"handler": "request", "params": params, "max_attempts": 1});
    let id = enqueue(server.address(), &format!("00-{trace}-{parent}-01"), &job);
    assert_eq!(client.wait(&id)["state"], "completed");

    let spans = eventually("the spans of the attempt and its requests", SOON, || {
        let spans = collector.spans();
        let named = |name| spans.iter().filter(move |span| span["name"] == name);
        let has_all = named("host.request").count() == 4 && named("host.attempt").count() == 1;
        has_all.then_some(spans)
    });
    let attempt = spans.iter().find(|span| span["name"] == "host.attempt");
    let requests: Vec<&Value> = spans
        .iter()
        .filter(|span| span["name"] == "host.request")
        .collect();
    for span in &requests {
        assert_eq!(span["traceId"], trace, "{span}");
        assert_eq!(span["parentSpanId"], attempt.unwrap()["spanId"], "{span}");
        assert_eq!(span["kind"], 3, "{span}");
        assert_eq!(attribute(span, "host.job_id"), Some(&*id), "{span}");
        let text = span.to_string();
        assert!(
            !text.contains("in-no-span") && !text.contains(SECRET),
            "{text}"
        );
    }
    let (answered, refused): (Vec<&Value>, Vec<&Value>) = requests
        .iter()
        .partition(|span| attribute(span, "http.response.status_code") == Some("200"));
    assert_eq!((answered.len(), refused.len()), (2, 2), "{requests:?}");
    for span in answered {
        let received = reflector.requests.recv_timeout(SOON).unwrap();
        let is_ours = requests.iter().any(|span| {
            let id = span["spanId"].as_str().unwrap();
            received.contains(&format!("traceparent: 00-{trace}-{id}-01\r\n"))
        });
        assert!(is_ours, "{received}");
        assert_eq!(attribute(span, "host.origin"), Some(&*reflector.origin()));
        assert_eq!(attribute(span, "host.path_pattern"), Some("/told/*"));
    }
    for span in refused {
        assert_eq!(attribute(span, "error.type"), Some("not_granted"), "{span}");
    }
    let answer = client.get("/metrics").unwrap();
    let text = answer.body.as_str().unwrap();
    for line in [
        "host_handler_requests_total{handler=\"request\",outcome=\"2xx\"} 2",
        "host_handler_requests_total{handler=\"request\",outcome=\"not_granted\"} 2",
        "host_handler_request_sent_bytes_total{handler=\"request\"} 100",
        "host_handler_request_seconds_count{handler=\"request\"} 4",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("in-no-span"), "{text}");
    assert_eq!(server.stop(), Some(0));
}

/// Neither a token nor a session is exported, whether it is accepted or refused.
#[test]
fn no_token_is_in_what_is_exported() {
    let collector = Collector::start();
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let variables = [&collector.variables()[..], &[("HOST_AUTH_MODE", "tokens")]]
        .concat()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env.extend(variables);
    let server = Server::start(&options);
    let admin = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
    let client = server.client().with_token(admin.trim());
    deploy(&client, "basics");
    let made = client
        .post("/api/v1/tokens", &json!({"name": "ci", "role": "producer"}))
        .unwrap()
        .body;
    let token = made["token"].as_str().unwrap();
    let own = server.client().with_token(token);
    let begun = own.post("/api/v1/sessions", &json!({})).unwrap();
    assert_eq!(begun.status, 201, "{begun:?}");
    let id = own.enqueue(&json!({"handler": "echo"}));
    assert_eq!(client.wait(&id)["state"], "completed");
    let path = made["id"].as_str().unwrap();
    let revoked = client.call("DELETE", &format!("/api/v1/tokens/{path}"), None);
    assert_eq!(revoked.unwrap().status, 200);
    assert_eq!(own.get("/api/v1/jobs").unwrap().status, 401);
    eventually("the spans of the job, and a refused request", SOON, || {
        let spans = collector.spans();
        let has = |name| spans.iter().any(|span| span["name"] == name);
        let metrics = collector.metrics();
        let refused = metrics.iter().any(|it| it.to_string().contains("\"401\""));
        (has("host.enqueue") && has("host.attempt") && refused).then_some(())
    });
    assert_eq!(server.stop(), Some(0));
    for (_, _, body) in &*collector.taken.lock().unwrap() {
        let text = body.to_string();
        for token in [admin.trim(), token] {
            assert!(!text.contains(&token[17..]), "{text}");
        }
    }
}
