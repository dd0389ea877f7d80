//! Export of spans and metrics to a collector (OTLP over HTTP), if the environment names one. A collector
//! that is slow or away costs spans, never jobs.

mod collector;
mod families;
mod metrics;
mod settings;
mod spans;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use futures_util::future::BoxFuture;
use host_core::port::spans::Spans;
use host_core::time::Time;
use host_runtime::clock::Clock;
use opentelemetry_http::{Bytes, Request};
use opentelemetry_otlp::Protocol;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use prost::Message as _;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::collector::Collector;
use self::spans::Exporter;
use crate::metrics::Metrics;

pub use self::settings::{Settings, SettingsError};

/// How long the last requests may take when the host stops.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// The source of the spans and metrics, in OTLP's terms.
const SCOPE: &str = "host";

/// Returns all metrics in the text format of `OpenMetrics`.
pub type Collect = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// The parts of the export.
pub struct Export {
    settings: Settings,
    collector: Collector,
    clock: Clock,
    started: Time,
    exporter: Option<Arc<Exporter>>,
}

/// Makes the export, and the port for spans unless they are switched off. Needs a tokio runtime.
pub fn open(
    settings: Settings,
    clock: Clock,
    metrics: &Metrics,
) -> Result<(Export, Option<Arc<dyn Spans>>), SettingsError> {
    let dropped = Counter::default();
    metrics.register(|registry| register_dropped(&dropped, registry));
    let collector = Collector::new(settings.timeout);
    let exporter = settings
        .traces
        .then(|| Exporter::new(&settings, collector.clone(), dropped))
        .transpose()
        .map_err(|error| SettingsError::exporter(&error))?
        .map(Arc::new);
    let spans = exporter.clone().map(|exporter| exporter as Arc<dyn Spans>);
    let export = Export {
        settings,
        collector,
        clock,
        started: clock.now(),
        exporter,
    };
    Ok((export, spans))
}

/// Registers the counter of dropped spans.
pub fn register_dropped(dropped: &Counter, registry: &mut Registry) {
    let about = "Spans that were dropped because the collector was slow or away";
    registry.register("spans_dropped", about, dropped.clone());
}

impl Export {
    /// Exports until `stopping`, and then the rest.
    pub async fn run(self, collect: Collect, stopping: CancellationToken) {
        let mut due = interval(self.settings.metric_interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        due.reset();
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                _ = due.tick() => self.send_metrics(&collect).await,
            }
        }
        let exporter = self.exporter.clone();
        let spans = tokio::task::spawn_blocking(move || {
            if let Some(exporter) = exporter {
                exporter.close(FLUSH_TIME);
            }
        });
        let metrics = tokio::time::timeout(FLUSH_TIME, self.send_metrics(&collect));
        let _ = tokio::join!(spans, metrics);
    }

    /// Sends all metrics. What the collector does not accept is included in the next request.
    async fn send_metrics(&self, collect: &Collect) {
        if !self.settings.metrics {
            return;
        }
        let text = collect().await;
        let times = (self.started, self.clock.now());
        let message = metrics::message(&self.settings.resource, &text, times);
        let (media_type, body) = match self.settings.protocol {
            Protocol::HttpJson => (
                "application/json",
                serde_json::to_vec(&message).unwrap_or_default(),
            ),
            _ => ("application/x-protobuf", message.encode_to_vec()),
        };
        let mut request = Request::post(self.settings.url("/v1/metrics"));
        request = request.header(CONTENT_TYPE, media_type);
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        match request.body(Bytes::from(body)) {
            Ok(request) => drop(self.collector.send(request).await),
            Err(error) => tracing::warn!(%error, "no request can be made for the metrics"),
        }
    }
}
