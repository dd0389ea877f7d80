//! Export of spans and metrics to a collector (OTLP over HTTP, in JSON), if the environment names one. A
//! collector that is slow or away costs spans, never jobs.

mod otlp;
mod settings;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use host_core::port::spans::{Span, Spans};
use host_protocols::http_client::{HttpClient, Post};
use host_runtime::clock::Clock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

pub use self::settings::{Settings, SettingsError};

/// The most spans that wait. Further ones are dropped and counted.
const WAITING_MAX: usize = 4_096;

/// The most spans in one request.
const BATCH_MAX: usize = 512;

/// How long the last requests may take when the host stops.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// Takes spans for the collector.
struct Exporter {
    waiting: mpsc::Sender<Span>,
    dropped: Counter,
}

impl Spans for Exporter {
    fn ended(&self, span: Span) {
        if self.waiting.try_send(span).is_err() {
            self.dropped.inc();
        }
    }
}

/// Returns all metrics in the text format of `OpenMetrics`.
pub type Collect = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// What has to run for the export.
pub struct Export {
    settings: Settings,
    client: HttpClient,
    clock: Clock,
    waiting: mpsc::Receiver<Span>,
    batch: Vec<Span>,
    dropped: Counter,
    is_away: bool,
}

/// Makes the port for spans, and the export that must run for it.
pub fn open(settings: Settings, clock: Clock, metrics: &Metrics) -> (Arc<dyn Spans>, Export) {
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    let dropped = Counter::default();
    metrics.register(|registry| register_dropped(&dropped, registry));
    let exporter = Exporter {
        waiting: sender,
        dropped: dropped.clone(),
    };
    let export = Export {
        settings,
        client: HttpClient::default(),
        clock,
        waiting,
        batch: Vec::new(),
        dropped,
        is_away: false,
    };
    (Arc::new(exporter), export)
}

/// Registers the counter of spans that no collector got.
pub fn register_dropped(dropped: &Counter, registry: &mut Registry) {
    let about = "Spans that were dropped because the collector was slow or away";
    registry.register("spans_dropped", about, dropped.clone());
}

impl Export {
    /// Exports until `stopping`, and then what is left.
    pub async fn run(mut self, collect: Collect, stopping: CancellationToken) {
        let mut spans_due = interval(self.settings.span_delay);
        let mut metrics_due = interval(self.settings.metric_interval);
        for due in [&mut spans_due, &mut metrics_due] {
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            due.reset();
        }
        loop {
            let room = BATCH_MAX.saturating_sub(self.batch.len());
            tokio::select! {
                () = stopping.cancelled() => break,
                _ = spans_due.tick() => self.send_spans().await,
                _ = metrics_due.tick() => self.send_metrics(&collect).await,
                taken = self.waiting.recv_many(&mut self.batch, room), if room > 0 => {
                    if taken == 0 {
                        break;
                    }
                    if self.batch.len() >= BATCH_MAX {
                        self.send_spans().await;
                    }
                }
            }
        }
        let rest = async {
            while let Ok(span) = self.waiting.try_recv() {
                self.batch.push(span);
            }
            self.send_spans().await;
            self.send_metrics(&collect).await;
        };
        let _in_time = tokio::time::timeout(FLUSH_TIME, rest).await;
    }

    /// Sends the spans. What the collector does not take for now is sent again with the next.
    async fn send_spans(&mut self) {
        if self.batch.is_empty() || !self.settings.traces {
            self.batch.clear();
            return;
        }
        let body = otlp::traces(&self.settings.resource, &self.batch);
        if self.send("/v1/traces", body).await {
            self.batch.clear();
        } else if self.batch.len() >= BATCH_MAX {
            self.dropped.inc_by(self.batch.len() as u64);
            self.batch.clear();
        }
    }

    async fn send_metrics(&mut self, collect: &Collect) {
        if self.settings.metrics {
            let text = collect().await;
            let now = self.clock.now();
            let body = otlp::metrics(&self.settings.resource, &text, now);
            self.send("/v1/metrics", body).await;
        }
    }

    /// Sends a request, and returns whether it need not be sent again.
    async fn send(&mut self, path: &str, body: String) -> bool {
        let post = Post {
            base: &self.settings.endpoint,
            path,
            headers: &self.settings.headers,
            body: Bytes::from(body),
            timeout: self.settings.timeout,
        };
        let why = match self.client.post(post).await {
            Ok(answer) if (200..300).contains(&answer.status) => None,
            Ok(answer) => Some((
                format!("it answers {}", answer.status),
                matches!(answer.status, 429 | 502..=504),
            )),
            Err(error) => Some((error.to_string(), true)),
        };
        let Some((why, again)) = why else {
            self.is_away = false;
            return true;
        };
        if !std::mem::replace(&mut self.is_away, true) {
            let collector = self.settings.endpoint.to_string();
            tracing::warn!(collector, path, why, "spans and metrics are not taken");
        }
        !again
    }
}
