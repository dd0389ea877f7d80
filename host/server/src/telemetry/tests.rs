//! Which variables are supported, and how spans and metrics are written.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use host_cells::run::build::Environment;
use host_core::port::spans::{Attribute, Kind, Span};
use host_core::time::Time;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::{Value, json};

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

#[test]
fn nothing_is_exported_unless_a_collector_is_named() {
    for off in [
        vec![],
        vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
        vec![("OTEL_SERVICE_NAME", "x")],
        vec![ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
    ] {
        assert!(
            Settings::read(&environment(&off)).unwrap().is_none(),
            "{off:?}"
        );
    }
}

#[test]
fn the_variables_of_opentelemetry_are_followed() {
    let settings = Settings::read(&environment(&[
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hu%73h, x-more = 1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,zone=b"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ]))
    .unwrap()
    .unwrap();
    let headers: Vec<_> = settings
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    assert_eq!(headers, [("x-key", &b"hush"[..]), ("x-more", b"1")]);
    assert_eq!(settings.timeout, Duration::from_millis(500));
    assert!(settings.traces && !settings.metrics);
    assert_eq!(settings.protocol, Protocol::HttpJson);
    assert_eq!(settings.resource["service.name"], "a");
    assert_eq!(settings.resource["zone"], "b");
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn a_collector_may_be_behind_tls() {
    let endpoint = (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "https://collector.example/otlp",
    );
    let settings = Settings::read(&environment(&[endpoint])).unwrap().unwrap();
    let url = settings.url("/v1/traces");
    assert_eq!(url, "https://collector.example:443/otlp/v1/traces");
}

#[test]
fn what_cannot_be_followed_is_named_without_its_value() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://hush"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "hush"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hush hush=1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "hush"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc-hush"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "hush"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "hush"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1"),
    ] {
        let error = Settings::read(&environment(&[ENDPOINT, (name, value)]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(name) && !error.contains("hush"),
            "{error}"
        );
    }
}

#[test]
fn metrics_are_written_with_their_kinds_labels_and_buckets() {
    let mut registry = Registry::with_prefix("host");
    let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
    let labelled = Family::<Vec<(String, String)>, Counter>::default();
    let histogram = Histogram::new([0.1, 1.0]);
    registry.register("plain", "A counter", counter.clone());
    registry.register("now", "A gauge", gauge.clone());
    registry.register("labelled", "With labels", labelled.clone());
    registry.register("took", "A histogram", histogram.clone());
    counter.inc_by(7);
    gauge.set(-3);
    let label = vec![("name".to_owned(), "a \"b\", {c}\\\n".to_owned())];
    labelled.get_or_create(&label).inc();
    for seconds in [0.05, 0.5, 0.6, 9.0] {
        histogram.observe(seconds);
    }
    let mut written = String::new();
    text::encode(&mut written, &registry).unwrap();
    let message = metrics::message(
        &[("service.name".to_owned(), "x".to_owned())].into(),
        &written,
        (Time(2), Time(5)),
    );
    let read = ExportMetricsServiceRequest::decode(&*message.encode_to_vec()).unwrap();
    assert_eq!(read, message, "both encodings carry the same");
    let body: Value = serde_json::to_value(&message).unwrap();
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics.as_array().unwrap().len(), 4, "{metrics}");
    assert_eq!(metrics[0]["name"], "host_plain");
    let point = &metrics[0]["sum"]["dataPoints"][0];
    assert_eq!(
        (
            &point["asDouble"],
            &point["timeUnixNano"],
            &point["startTimeUnixNano"]
        ),
        (&json!(7.0), &json!("5000000"), &json!("2000000"))
    );
    assert_eq!(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], -3.0);
    let point = &metrics[2]["sum"]["dataPoints"][0];
    let value = json!({"stringValue": "a \"b\", {c}\\\n"});
    assert_eq!(
        point["attributes"],
        json!([{"key": "name", "value": value}])
    );
    let point = &metrics[3]["histogram"]["dataPoints"][0];
    assert_eq!(point["bucketCounts"], json!(["1", "2", "1"]));
    assert_eq!(point["explicitBounds"], json!([0.1, 1.0]));
    assert_eq!(
        (&point["count"], &point["sum"]),
        (&json!("4"), &json!(10.15))
    );
}

/// Answers each request on a port with the next of `answers`, then 200, and passes on the bodies.
fn receiver(answers: &'static [&'static str]) -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::sync_channel(64);
    std::thread::spawn(move || {
        let mut answers = answers.iter();
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.parse().unwrap())
            });
            let mut body = vec![0; length.unwrap()];
            reader.read_exact(&mut body).unwrap();
            let status = answers.next().unwrap_or(&"200 OK");
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (endpoint, received)
}

fn some_span() -> Span {
    Span {
        name: "test.run",
        kind: Kind::Consumer,
        trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
        id: 0x00f0_67aa_0ba9_02b8,
        parent_id: Some(0x00f0_67aa_0ba9_02b7),
        began_at: Time(1_000),
        ended_at: Time(1_002),
        attributes: vec![
            ("test.attempt".to_owned(), Attribute::Number(2)),
            ("test.error_type".to_owned(), Attribute::text("trapped")),
        ],
        error: Some("it broke".to_owned()),
    }
}

fn opened(endpoint: &str, more: &[(&str, &str)]) -> (Export, Arc<dyn Spans>, Metrics) {
    let mut variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "86400000"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
    ];
    variables.extend(more);
    let settings = Settings::read(&environment(&variables)).unwrap().unwrap();
    let metrics = Metrics::default();
    let (export, spans) = open(settings, Clock::start(), &metrics).unwrap();
    (export, spans.unwrap(), metrics)
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_in_the_default_encoding_after_a_second_try_too() {
    let (endpoint, received) = receiver(&["503 Service Unavailable"]);
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hush");
    let (_export, spans, metrics) = opened(&endpoint, &[headers]);
    spans.ended(some_span());
    let (first, again) = (received.recv().unwrap(), received.recv().unwrap());
    assert_eq!(first.1, again.1);
    let head = again.0.to_ascii_lowercase();
    assert!(
        head.starts_with("post /v1/traces ") && head.contains("x-key: hush\r\n"),
        "{head}"
    );
    assert!(
        head.contains("content-type: application/x-protobuf\r\n"),
        "{head}"
    );
    let body = ExportTraceServiceRequest::decode(&*again.1).unwrap();
    let of = &body.resource_spans[0];
    let described = &of.resource.as_ref().unwrap().attributes;
    assert!(described.iter().any(|it| it.key == "service.name"));
    let span = &of.scope_spans[0].spans[0];
    assert_eq!(span.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!(span.span_id, 0x00f0_67aa_0ba9_02b8_u64.to_be_bytes());
    assert_eq!(
        (span.name.as_str(), span.end_time_unix_nano),
        ("test.run", 1_002_000_000)
    );
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.message.as_str(), status.code), ("trapped", 2));
    assert_eq!(span.attributes[0].key, "test.attempt");
    assert!(metrics.encode().contains("host_spans_dropped_total 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_failures_are_sent_if_a_variable_says_so() {
    let (endpoint, received) = receiver(&[]);
    let (_export, spans, _metrics) = opened(&endpoint, &[("OTEL_HOST_FAILURE_MESSAGES", "true")]);
    spans.ended(some_span());
    let body = ExportTraceServiceRequest::decode(&*received.recv().unwrap().1).unwrap();
    let status = body.resource_spans[0].scope_spans[0].spans[0]
        .status
        .clone();
    assert_eq!(status.unwrap().message, "it broke");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_refuses_or_is_too_slow_for_is_dropped_and_counted() {
    let (endpoint, received) = receiver(&["400 Bad Request"]);
    let (export, spans, metrics) = opened(&endpoint, &[]);
    let dropped = |n: usize| {
        metrics
            .encode()
            .contains(&format!("host_spans_dropped_total {n}\n"))
    };
    spans.ended(some_span());
    received.recv().unwrap();
    while !dropped(1) {
        tokio::task::yield_now().await;
    }
    // A listener that never accepts: requests are never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let unanswered = format!("http://{}", silent.local_addr().unwrap());
    let (slow, spans, metrics) = opened(&unanswered, &[]);
    for _ in 0..3 * 4_096 {
        spans.ended(some_span());
    }
    let text = metrics.encode();
    assert!(!text.contains("host_spans_dropped_total 0\n"), "{text}");
    // Both end in time, whether or not anyone listens.
    let stopping = CancellationToken::new();
    stopping.cancel();
    let collect: Collect = Arc::new(|| Box::pin(async { String::new() }));
    slow.run(Arc::clone(&collect), stopping.clone()).await;
    export.run(collect, stopping).await;
}
