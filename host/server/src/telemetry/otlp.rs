//! Spans and metrics in the JSON of OTLP 1. Metrics come from the text format of `OpenMetrics`, which is
//! the one form in which all of them are read. Pure.

use std::collections::BTreeMap;

use host_core::port::spans::{Attribute, Span};
use host_core::time::Time;
use serde_json::{Value, json};

/// The kind of a span that handles what a queue or another program sent.
const CONSUMER: u8 = 5;

/// The status of a span that failed.
const ERROR: u8 = 2;

/// Values that are sums since the start.
const CUMULATIVE: u8 = 2;

const SCOPE: &str = "host";

type Resource = BTreeMap<String, String>;

/// Writes a request with spans.
pub(super) fn traces(resource: &Resource, spans: &[Span]) -> String {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({ "scope": { "name": SCOPE }, "spans": spans });
    let all = json!({ "resource": described(resource), "scopeSpans": [scope] });
    json!({ "resourceSpans": [all] }).to_string()
}

fn span(span: &Span) -> Value {
    let attributes = span.attributes.iter().map(|(name, value)| match value {
        Attribute::Text(text) => attribute(name, text),
        Attribute::Number(number) => {
            json!({ "key": name, "value": { "intValue": number.to_string() } })
        }
    });
    let status = match &span.error {
        None => json!({}),
        Some(message) => json!({ "code": ERROR, "message": message }),
    };
    json!({
        "traceId": span.trace_id,
        "spanId": span.id,
        "parentSpanId": span.parent_id.as_deref().unwrap_or_default(),
        "name": span.name,
        "kind": CONSUMER,
        "startTimeUnixNano": nanos(span.began_at),
        "endTimeUnixNano": nanos(span.ended_at),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": status,
    })
}

/// Writes a request with all metrics of a text, as they are at `now`.
pub(super) fn metrics(resource: &Resource, text: &str, now: Time) -> String {
    let metrics: Vec<Value> = families(text)
        .iter()
        .filter_map(|family| metric(family, now))
        .collect();
    let scope = json!({ "scope": { "name": SCOPE }, "metrics": metrics });
    let all = json!({ "resource": described(resource), "scopeMetrics": [scope] });
    json!({ "resourceMetrics": [all] }).to_string()
}

/// One metric of the text, with its values.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    /// What follows the metric's name: `_total`, `_bucket`, `_sum`, `_count` or nothing.
    suffix: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        let comment = |kind| {
            line.strip_prefix(kind)
                .and_then(|rest| rest.split_once(' '))
        };
        if let Some((name, help)) = comment("# HELP ") {
            families.push(Family {
                name,
                help,
                ..Family::default()
            });
        } else if let (Some((_, kind)), Some(family)) = (comment("# TYPE "), families.last_mut()) {
            family.kind = kind;
        } else if let Some(family) = families.last_mut() {
            family.samples.extend(sample(family.name, line));
        }
    }
    families
}

fn sample<'a>(family: &str, line: &'a str) -> Option<Sample<'a>> {
    let rest = line.strip_prefix(family)?;
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some(Sample {
        suffix,
        labels,
        value,
    })
}

/// Reads labels up to the brace that ends them, and returns what follows.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
        let (mut value, mut is_escaped, mut end) = (String::new(), false, None);
        for (at, c) in quoted.char_indices() {
            match (is_escaped, c) {
                (true, 'n') => value.push('\n'),
                (true, c) => value.push(c),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, c) => value.push(c),
            }
            is_escaped = !is_escaped && c == '\\';
        }
        rest = quoted.get(end? + 1..)?;
        labels.push((name, value));
    }
}

fn metric(family: &Family<'_>, now: Time) -> Option<Value> {
    if family.samples.is_empty() {
        return None;
    }
    let mut metric = json!({ "name": family.name, "description": family.help });
    let (kind, data) = match family.kind {
        "counter" => {
            let points = points(family, "_total", now);
            let sum = json!({
                "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points
            });
            ("sum", sum)
        }
        "gauge" => ("gauge", json!({ "dataPoints": points(family, "", now) })),
        "histogram" => {
            let points = histograms(family, now);
            let histogram = json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
            ("histogram", histogram)
        }
        _ => return None,
    };
    metric[kind] = data;
    Some(metric)
}

fn points(family: &Family<'_>, suffix: &str, now: Time) -> Vec<Value> {
    let samples = family.samples.iter();
    let point = |sample: &Sample<'_>| {
        let attributes = attributes(&sample.labels);
        json!({ "timeUnixNano": nanos(now), "asDouble": sample.value, "attributes": attributes })
    };
    samples
        .filter(|it| it.suffix == suffix)
        .map(point)
        .collect()
}

/// One histogram of the labels without `le`.
#[derive(Default)]
struct Histogram {
    /// Upper bounds, and how many values are at most that.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

fn histograms(family: &Family<'_>, now: Time) -> Vec<Value> {
    let mut all: BTreeMap<Vec<(&str, String)>, Histogram> = BTreeMap::new();
    for sample in &family.samples {
        let labels = sample.labels.iter().filter(|(name, _)| *name != "le");
        let histogram = all.entry(labels.cloned().collect()).or_default();
        let bound = sample.labels.iter().find(|(name, _)| *name == "le");
        match (sample.suffix, bound) {
            ("_sum", _) => histogram.sum = sample.value,
            ("_count", _) => histogram.count = sample.value,
            ("_bucket", Some((_, bound))) => {
                let bound = bound.parse().unwrap_or(f64::INFINITY);
                histogram.buckets.push((bound, sample.value));
            }
            _ => {}
        }
    }
    let point = |(labels, histogram): (Vec<(&str, String)>, Histogram)| {
        let bounds = histogram.buckets.iter().map(|(bound, _)| *bound);
        let bounds: Vec<f64> = bounds.filter(|bound| bound.is_finite()).collect();
        let mut below = 0.0;
        let counts = histogram.buckets.iter().map(|(_, count)| {
            let here = count - below;
            below = *count;
            format!("{here:.0}")
        });
        json!({
            "timeUnixNano": nanos(now),
            "attributes": attributes(&labels),
            "count": format!("{:.0}", histogram.count),
            "sum": histogram.sum,
            "bucketCounts": counts.collect::<Vec<_>>(),
            "explicitBounds": bounds,
        })
    };
    all.into_iter().map(point).collect()
}

fn attributes(labels: &[(&str, String)]) -> Vec<Value> {
    let labels = labels.iter();
    labels.map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, text: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": text } })
}

fn described(resource: &Resource) -> Value {
    let attributes = resource.iter().map(|(name, value)| attribute(name, value));
    json!({ "attributes": attributes.collect::<Vec<_>>() })
}

fn nanos(time: Time) -> String {
    (i128::from(time.0) * 1_000_000).to_string()
}
