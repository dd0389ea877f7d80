//! Counts the requests of handlers to HTTP servers, and makes their spans, below those of their attempts. Neither has
//! a path: it may hold a secret.

use std::sync::Arc;
use std::time::Duration;

use host_core::egress::HttpErrorKind;
use host_core::port::requests::{EndedRequest, RequestWatch};
use host_core::port::spans::{Attribute, Kind, Span, Spans};
use host_core::requests::RequestEnd;
use host_core::trace::Parent;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::labels::Labels;

/// The upper bounds of the histogram buckets, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    handler: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandlerLabels {
    handler: String,
}

/// The metrics of requests. Cloning shares them.
#[derive(Clone)]
pub(crate) struct RequestNumbers {
    /// The names of handlers that are labels.
    handlers: Labels,
    ended: Family<OutcomeLabels, Counter>,
    seconds: Family<HandlerLabels, Histogram, fn() -> Histogram>,
    sent_bytes: Family<HandlerLabels, Counter>,
    received_bytes: Family<HandlerLabels, Counter>,
}

impl RequestNumbers {
    pub(crate) fn new(handlers: Labels) -> Self {
        Self {
            handlers,
            ended: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            sent_bytes: Family::default(),
            received_bytes: Family::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let ended = "Requests of handlers to HTTP servers that ended, by handler with the labels of \
                     `host_attempt_seconds`, and outcome: `2xx` for a status from 200 to 299, or why there was no \
                     answer";
        registry.register("handler_requests", ended, self.ended.clone());
        let seconds = "Time of these requests, by handler with the same labels";
        registry.register_with_unit(
            "handler_request",
            seconds,
            Unit::Seconds,
            self.seconds.clone(),
        );
        let sent = "Size of the bodies that these requests sent";
        registry.register_with_unit(
            "handler_request_sent",
            sent,
            Unit::Bytes,
            self.sent_bytes.clone(),
        );
        let received = "Size of the bodies that handlers got as answers";
        registry.register_with_unit(
            "handler_request_received",
            received,
            Unit::Bytes,
            self.received_bytes.clone(),
        );
    }

    fn count(&self, request: &EndedRequest<'_>) {
        let of = HandlerLabels {
            handler: self.handlers.of(request.handler),
        };
        let ended = request.ended;
        self.seconds
            .get_or_create(&of)
            .observe(Duration::from_micros(ended.took_us).as_secs_f64());
        self.sent_bytes.get_or_create(&of).inc_by(ended.sent_bytes);
        self.received_bytes
            .get_or_create(&of)
            .inc_by(ended.received_bytes);
        let (handler, outcome) = (of.handler, ended.end.label());
        self.ended
            .get_or_create(&OutcomeLabels { handler, outcome })
            .inc();
    }
}

/// Counts requests, and passes their spans on.
pub(crate) struct Requests {
    pub(crate) numbers: RequestNumbers,
    pub(crate) spans: Option<Arc<dyn Spans>>,
}

impl RequestWatch for Requests {
    fn has_spans(&self) -> bool {
        self.spans.is_some()
    }

    fn ended(&self, request: &EndedRequest<'_>) {
        self.numbers.count(request);
        if let (Some(spans), Some((parent, id))) = (&self.spans, request.span) {
            spans.ended(span(request, parent, id));
        }
    }
}

fn span(request: &EndedRequest<'_>, parent: Parent, id: u64) -> Span {
    let EndedRequest { asked, ended, .. } = request;
    let text = |text: &Option<String>| text.as_deref().map(Attribute::text);
    // The guest alone has chosen the server of a request that was not sent.
    let is_sent = !matches!(
        ended.end,
        RequestEnd::Failed(HttpErrorKind::NotGranted | HttpErrorKind::InvalidRequest)
    );
    let status = ended
        .end
        .status()
        .map(|status| Attribute::number(status.into()));
    let all = [
        ("host.handler", Some(Attribute::text(request.handler))),
        ("host.job_id", Some(Attribute::text(request.job))),
        (
            "host.attempt",
            Some(Attribute::number(request.attempt.into())),
        ),
        ("host.origin", text(&asked.origin).filter(|_| is_sent)),
        ("host.path_pattern", text(&asked.path_pattern)),
        ("host.sent_bytes", Some(Attribute::number(ended.sent_bytes))),
        (
            "host.received_bytes",
            Some(Attribute::number(ended.received_bytes)),
        ),
        (
            "http.request.method",
            text(&asked.method).filter(|_| is_sent),
        ),
        ("http.response.status_code", status),
        ("error.type", ended.end.error().map(Attribute::text)),
    ];
    let attributes = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Span {
        name: "host.request",
        kind: Kind::Client,
        trace_id: parent.trace_id,
        id,
        parent_id: Some(parent.span_id),
        began_at: request.began_at,
        ended_at: request.began_at.plus_ms(ended.took_us / 1_000),
        attributes: attributes.collect(),
        error: error(ended.end),
    }
}

/// Returns why a request failed, as OpenTelemetry has it for clients: no answer, or a status that is an error.
fn error(end: RequestEnd) -> Option<String> {
    match end {
        RequestEnd::Answered(status @ 400..) => Some(format!("status {status}")),
        _ => end.error().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use host_core::requests::{RequestReport, RequestTarget};
    use host_core::time::Time;
    use prometheus_client::encoding::text;

    use super::*;
    use crate::span::collected::Collected;

    const PARENT: Parent = Parent {
        trace_id: 7,
        span_id: 8,
        is_sampled: true,
    };

    fn end_request(watch: &Requests, handler: &str, end: RequestEnd) {
        let asked = RequestTarget {
            method: Some("GET".to_owned()),
            origin: Some("https://api.example.com".to_owned()),
            path_pattern: Some("/v1/*".to_owned()),
        };
        watch.ended(&EndedRequest {
            handler,
            job: "j",
            attempt: 2,
            span: Some((PARENT, 9)),
            began_at: Time(1_000),
            asked: &asked,
            ended: RequestReport {
                end,
                sent_bytes: 3,
                received_bytes: 5,
                took_us: 2_600,
            },
        });
    }

    #[test]
    fn requests_are_counted_by_handler_and_outcome() {
        let numbers = RequestNumbers::new(Labels::default());
        let watch = Requests {
            numbers: numbers.clone(),
            spans: None,
        };
        for end in [
            RequestEnd::Answered(204),
            RequestEnd::Answered(200),
            RequestEnd::Answered(503),
            RequestEnd::Failed(HttpErrorKind::TimedOut),
            RequestEnd::Cut,
        ] {
            end_request(&watch, "charge", end);
        }
        for n in 0..200 {
            end_request(&watch, &format!("h{n}"), RequestEnd::Answered(200));
        }
        let (mut registry, mut text) = (Registry::default(), String::new());
        numbers.register(&mut registry);
        text::encode(&mut text, &registry).unwrap();
        for line in [
            "handler_requests_total{handler=\"charge\",outcome=\"2xx\"} 2",
            "handler_requests_total{handler=\"charge\",outcome=\"5xx\"} 1",
            "handler_requests_total{handler=\"charge\",outcome=\"timed_out\"} 1",
            "handler_requests_total{handler=\"charge\",outcome=\"cut\"} 1",
            "handler_requests_total{handler=\"_other\",outcome=\"2xx\"} 101",
            "handler_request_seconds_count{handler=\"charge\"} 5",
            "handler_request_sent_bytes_total{handler=\"charge\"} 15",
            "handler_request_received_bytes_total{handler=\"charge\"} 25",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_span_says_what_the_manifest_bounds() {
        let spans = Arc::<Collected>::default();
        let watch = Requests {
            numbers: RequestNumbers::new(Labels::default()),
            spans: Some(Arc::clone(&spans) as _),
        };
        end_request(&watch, "charge", RequestEnd::Answered(404));
        end_request(
            &watch,
            "charge",
            RequestEnd::Failed(HttpErrorKind::NotGranted),
        );
        let all = spans.0.lock();
        let span = &all[0];
        assert_eq!((span.trace_id, span.parent_id, span.id), (7, Some(8), 9));
        assert_eq!((span.began_at, span.ended_at), (Time(1_000), Time(1_002)));
        assert_eq!(span.error.as_deref(), Some("status 404"));
        let has = |span: &Span, name: &str| span.attributes.iter().any(|(it, _)| it == name);
        assert!(has(span, "host.origin") && has(span, "http.response.status_code"));
        // What a guest may write freely is not in spans.
        let refused = &all[1];
        assert!(!has(refused, "host.origin") && !has(refused, "http.request.method"));
        assert_eq!(refused.error.as_deref(), Some("not_granted"));
    }
}
