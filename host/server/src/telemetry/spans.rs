//! Sends spans to the collector, with the batches, requests and retries of the OpenTelemetry SDK.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use host_core::port::spans::{Attribute, Kind, Span, Spans};
use host_core::time::Time;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter as Exports,
    SpanLinks, SpanProcessor as _,
};
use prometheus_client::metrics::counter::Counter;

use super::collector::Collector;
use super::{SCOPE, Settings};

/// The most waiting spans. Further ones are dropped and counted.
const WAITING_MAX: usize = 4_096;

/// The most spans in one request.
const BATCH_MAX: usize = 512;

/// Takes spans for the collector.
pub(super) struct Exporter {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
    /// Whether spans of attempts have the messages of failures.
    has_messages: bool,
}

impl Exporter {
    pub(super) fn new(
        settings: &Settings,
        collector: Collector,
        dropped: Counter,
    ) -> Result<Self, ExporterBuildError> {
        let inner = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(settings.url("/v1/traces"))
            .with_protocol(settings.protocol)
            .with_timeout(settings.timeout)
            .with_headers(settings.header_texts())
            .build()?;
        let waiting = Arc::<AtomicUsize>::default();
        let counted = Counted {
            inner,
            waiting: Arc::clone(&waiting),
            dropped: dropped.clone(),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING_MAX)
            .with_max_export_batch_size(BATCH_MAX)
            .with_scheduled_delay(settings.span_delay);
        let mut processor = BatchSpanProcessor::new(counted, batches.build());
        processor.set_resource(&resource(&settings.resource));
        Ok(Self {
            processor,
            scope: InstrumentationScope::builder(SCOPE).build(),
            has_messages: settings.failure_messages,
            waiting,
            dropped,
        })
    }

    /// Sends the remaining spans, as far as possible in this time. Blocks.
    pub(super) fn close(&self, time: Duration) {
        if let Err(error) = self.processor.shutdown_with_timeout(time) {
            tracing::debug!(%error, "the last spans are not sent");
        }
    }
}

impl Spans for Exporter {
    fn ended(&self, span: Span) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.dropped.inc();
            return;
        }
        let span = if self.has_messages {
            span
        } else {
            without_message(span)
        };
        self.processor.on_end(data(span, self.scope.clone()));
    }
}

/// Counts what leaves the queue, and what the collector did not accept.
struct Counted {
    inner: SpanExporter,
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may have secrets.
        f.write_str("Counted")
    }
}

impl Exports for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let exported = self.inner.export(batch).await;
        if exported.is_err() {
            self.dropped.inc_by(spans as u64);
        }
        exported
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

fn resource(described: &BTreeMap<String, String>) -> Resource {
    let described = described
        .iter()
        .map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder_empty().with_attributes(described).build()
}

/// Replaces the message of a failed attempt, which is part of its payload, by the name of the error.
fn without_message(span: Span) -> Span {
    if span.kind != Kind::Consumer {
        return span;
    }
    let mut attributes = span.attributes.iter();
    let name = attributes.find_map(|(name, value)| match value {
        Attribute::Text(text) if name.ends_with(".error_type") => Some(text.clone()),
        _ => None,
    });
    let error = span.error.as_ref().map(|_| name.unwrap_or_default());
    Span { error, ..span }
}

/// Converts a span for the SDK.
pub(super) fn data(span: Span, scope: InstrumentationScope) -> SpanData {
    let context = SpanContext::new(
        TraceId::from_bytes(span.trace_id.to_be_bytes()),
        SpanId::from_bytes(span.id.to_be_bytes()),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let parent = span.parent_id.map(u64::to_be_bytes);
    let attributes = span
        .attributes
        .into_iter()
        .map(|(name, value)| match value {
            Attribute::Text(text) => KeyValue::new(name, text),
            Attribute::Number(number) => KeyValue::new(name, number),
        });
    SpanData {
        span_context: context,
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: parent.is_some(),
        span_kind: match span.kind {
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
            Kind::Client => SpanKind::Client,
        },
        name: Cow::Borrowed(span.name),
        start_time: instant(span.began_at),
        end_time: instant(span.ended_at),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope,
    }
}

fn instant(time: Time) -> SystemTime {
    let since = u64::try_from(time.0).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_millis(since)
}
