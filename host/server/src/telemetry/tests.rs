//! Which variables are followed, and how spans and metrics are written.

use host_cells::build::Environment;
use host_core::time::Time;
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::{Value, json};

use super::*;
use host_core::port::spans::Attribute;

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
    ]));
    let settings = settings.unwrap().unwrap();
    let headers = settings.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    assert_eq!(headers, [("x-key", &b"hush"[..]), ("x-more", b"1")]);
    assert_eq!(settings.timeout, Duration::from_millis(500));
    assert!(settings.traces && !settings.metrics);
    assert_eq!(settings.resource["service.name"], "a");
    assert_eq!(settings.resource["zone"], "b");
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn what_cannot_be_followed_is_named_without_its_value() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://hush"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "hush"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hush hush=1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "hush"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "hush"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1"),
    ] {
        let error = Settings::read(&environment(&[ENDPOINT, (name, value)])).unwrap_err();
        let error = error.to_string();
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
    let body = otlp::metrics(
        &[("service.name".to_owned(), "x".to_owned())].into(),
        &written,
        Time(5),
    );
    let body: Value = serde_json::from_str(&body).unwrap();
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics.as_array().unwrap().len(), 4, "{metrics}");
    assert_eq!(metrics[0]["name"], "host_plain");
    let point = &metrics[0]["sum"]["dataPoints"][0];
    assert_eq!(
        (&point["asDouble"], &point["timeUnixNano"]),
        (&json!(7.0), &json!("5000000"))
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

#[test]
fn spans_are_written_with_their_trace_and_status() {
    let span = Span {
        name: "test.run",
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        id: "00f067aa0ba902b8".to_owned(),
        parent_id: Some("00f067aa0ba902b7".to_owned()),
        began_at: Time(1_000),
        ended_at: Time(1_002),
        attributes: vec![("test.attempt".to_owned(), Attribute::Number(2))],
        error: Some("it broke".to_owned()),
    };
    let body: Value = serde_json::from_str(&otlp::traces(&[].into(), &[span])).unwrap();
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(span["endTimeUnixNano"], "1002000000");
    assert_eq!(span["status"], json!({"code": 2, "message": "it broke"}));
    let attempt = json!({"key": "test.attempt", "value": {"intValue": "2"}});
    assert_eq!(span["attributes"], json!([attempt]));
}
