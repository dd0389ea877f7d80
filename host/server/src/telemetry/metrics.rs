//! All metrics of the text format of `OpenMetrics` as one message of OTLP. Pure.

use std::collections::BTreeMap;

use host_core::time::Time;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::SCOPE;
use super::families::{Family, Sample, families};

/// From when to when the values of a message count, in nanoseconds.
#[derive(Clone, Copy)]
struct Span {
    from: u64,
    to: u64,
}

/// Makes the message with all metrics of a text, as they are at `now` since `started`.
pub(super) fn message(
    resource: &BTreeMap<String, String>,
    text: &str,
    (started, now): (Time, Time),
) -> ExportMetricsServiceRequest {
    let span = Span {
        from: nanos(started),
        to: nanos(now),
    };
    let all = families(text);
    let metrics = all.iter().filter_map(|family| metric(family, span));
    let resource = resource.iter().map(|(name, value)| pair(name, value));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: resource.collect(),
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: SCOPE.to_owned(),
                    ..InstrumentationScope::default()
                }),
                metrics: metrics.collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

fn metric(family: &Family<'_>, span: Span) -> Option<Metric> {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        _ if family.samples.is_empty() => return None,
        "counter" => Data::Sum(Sum {
            data_points: numbers(family, "_total", span),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        "gauge" => Data::Gauge(Gauge {
            data_points: numbers(family, "", span),
        }),
        "histogram" => Data::Histogram(Histogram {
            data_points: histograms(family, span),
            aggregation_temporality: cumulative,
        }),
        _ => return None,
    };
    Some(Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn numbers(family: &Family<'_>, suffix: &str, span: Span) -> Vec<NumberDataPoint> {
    let samples = family
        .samples
        .iter()
        .filter(|sample| sample.suffix == suffix);
    let number = |sample: &Sample<'_>| NumberDataPoint {
        attributes: pairs(&sample.labels),
        start_time_unix_nano: span.from,
        time_unix_nano: span.to,
        value: Some(Number::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    };
    samples.map(number).collect()
}

/// One histogram of the labels without `le`.
#[derive(Default)]
struct Buckets {
    /// Upper bounds, and how many values are at most that.
    below: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

fn histograms(family: &Family<'_>, span: Span) -> Vec<HistogramDataPoint> {
    let mut all: BTreeMap<Vec<(&str, String)>, Buckets> = BTreeMap::new();
    for sample in &family.samples {
        let labels = sample.labels.iter().filter(|(name, _)| *name != "le");
        let buckets = all.entry(labels.cloned().collect()).or_default();
        let bound = sample.labels.iter().find(|(name, _)| *name == "le");
        match (sample.suffix, bound) {
            ("_sum", _) => buckets.sum = sample.value,
            ("_count", _) => buckets.count = sample.value,
            ("_bucket", Some((_, bound))) => {
                let bound = bound.parse().unwrap_or(f64::INFINITY);
                buckets.below.push((bound, sample.value));
            }
            _ => {}
        }
    }
    let point = |(labels, buckets): (Vec<(&str, String)>, Buckets)| {
        let bounds = buckets.below.iter().map(|(bound, _)| *bound);
        let mut before = 0;
        let counts = buckets.below.iter().map(|(_, below)| {
            let below = count(*below);
            let here = below.saturating_sub(before);
            before = below;
            here
        });
        HistogramDataPoint {
            attributes: pairs(&labels),
            start_time_unix_nano: span.from,
            time_unix_nano: span.to,
            count: count(buckets.count),
            sum: Some(buckets.sum),
            bucket_counts: counts.collect(),
            explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
            ..HistogramDataPoint::default()
        }
    };
    all.into_iter().map(point).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of values are whole and not negative"
)]
const fn count(value: f64) -> u64 {
    value as u64
}

fn pairs(labels: &[(&str, String)]) -> Vec<KeyValue> {
    let labels = labels.iter();
    labels.map(|(name, value)| pair(name, value)).collect()
}

fn pair(name: &str, text: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(text.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.0).map_or(0, |ms| ms.saturating_mul(1_000_000))
}
