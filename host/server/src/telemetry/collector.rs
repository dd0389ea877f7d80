//! The connection to the collector: our HTTP client behind OpenTelemetry's interface. Logs when the collector
//! stops accepting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use futures_util::future::BoxFuture;
use host_wire_kit::http_client::{Answer, HttpClient, RequestError};
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use tokio::runtime::Handle;

/// A collector. Cloning shares it.
#[derive(Clone)]
pub(super) struct Collector {
    client: HttpClient,
    timeout: Duration,
    /// Runs the requests: the SDK waits for them on a thread of its own.
    runtime: Handle,
    is_away: Arc<AtomicBool>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

impl Collector {
    /// Connects to a collector with this time limit for answers. Needs a tokio runtime.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            client: HttpClient::default(),
            timeout,
            runtime: Handle::current(),
            is_away: Arc::default(),
        }
    }

    /// Sends a request.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Answer, RequestError> {
        let uri = request.uri().clone();
        let answer = self.client.execute(request, self.timeout).await;
        let why = match &answer {
            Ok(answer) if (200..300).contains(&answer.status) => None,
            Ok(answer) => Some(format!("status {}", answer.status)),
            Err(error) => Some(error.to_string()),
        };
        let was_away = self.is_away.swap(why.is_some(), Ordering::Relaxed);
        if let Some(why) = why.filter(|_| !was_away) {
            let (collector, path) = (uri.authority().map(ToString::to_string), uri.path());
            tracing::warn!(
                collector,
                path,
                why,
                "the collector does not accept spans and metrics"
            );
        }
        answer
    }
}

impl opentelemetry_http::HttpClient for Collector {
    fn send_bytes<'of, 'sent>(
        &'of self,
        request: Request<Bytes>,
    ) -> BoxFuture<'sent, Result<Response<Bytes>, HttpError>>
    where
        'of: 'sent,
        Self: 'sent,
    {
        let collector = self.clone();
        let sent = self
            .runtime
            .spawn(async move { collector.send(request).await });
        Box::pin(async move {
            let answer = sent.await??;
            let mut response = Response::builder().status(answer.status);
            if let Some(after) = answer.retry_after {
                response = response.header(RETRY_AFTER, after.as_secs());
            }
            Ok(response.body(answer.body)?)
        })
    }
}
