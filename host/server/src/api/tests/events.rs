//! The stream of events: what it tells, filters and drops.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use host_core::outcome::Progress;
use host_core::time::Time;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::fixture::Host;
use host_dispatch::events::Happened;

/// More than any event needs.
const SOON: Duration = Duration::from_secs(20);

/// An open stream of events.
struct Stream {
    body: Body,
    read: String,
}

impl Stream {
    /// Opens a stream and waits until it hears.
    async fn open(host: &Host, path: &str) -> Self {
        let request = Request::get(path).header("host", "localhost");
        let service = TowerToHyperService::new(host.router.clone());
        let answer = service
            .call(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let body = answer.into_body();
        let read = String::new();
        let mut stream = Self { body, read };
        assert_eq!(stream.block().await.unwrap(), ": listening");
        stream
    }

    /// Returns the next block of lines, `None` at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.read.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.read = rest;
                return Some(block);
            }
            let frame = tokio::time::timeout(SOON, self.body.frame())
                .await
                .unwrap()?;
            let data = frame.unwrap().into_data().unwrap();
            self.read += std::str::from_utf8(&data).unwrap();
        }
    }

    /// Returns the next event: its number, kind and data.
    async fn event(&mut self) -> (u64, String, Value) {
        let block = self.block().await.unwrap();
        let mut lines = block.lines();
        let mut field = |name: &str| {
            let line = lines.next().unwrap();
            line.strip_prefix(name)
                .unwrap_or_else(|| panic!("{line}"))
                .to_owned()
        };
        let number = field("id: ").parse().unwrap();
        (
            number,
            field("event: "),
            serde_json::from_str(&field("data: ")).unwrap(),
        )
    }
}

#[tokio::test]
async fn changes_are_told_in_order_to_whoever_asked_for_them() {
    let host = Host::start().await;
    let mut all = Stream::open(&host, "/api/v1/events").await;
    let mut slow = Stream::open(&host, "/api/v1/events?queue=slow").await;
    let one = host.enqueue(r#"{"handler":"noop"}"#).await;
    let two = host.enqueue(r#"{"handler":"noop","queue":"slow"}"#).await;
    let mut of_one = Stream::open(&host, &format!("/api/v1/events?job={one}")).await;
    host.claim().await;
    host.post(&format!("/api/v1/jobs/{two}/cancel"), "{}").await;
    let progress = Happened::Progressed {
        job: one.parse().unwrap(),
        attempt: 1,
        progress: Progress {
            percent: None,
            message: "a\nb".to_owned(),
        },
    };
    host.dispatch.shared().events.tell(Time(0), [progress]);

    let (number, kind, data) = all.event().await;
    assert_eq!(
        (kind.as_str(), &data["job"]),
        ("change", &Value::from(one.as_str()))
    );
    assert_eq!(
        (&data["from"], &data["to"]),
        (&Value::Null, &Value::from("available"))
    );
    for (after, job, to) in [
        (1, &two, "available"),
        (2, &one, "running"),
        (3, &two, "cancelled"),
    ] {
        let (next, _, data) = all.event().await;
        assert_eq!(next, number + after);
        assert_eq!(
            (&data["job"], &data["to"]),
            (&Value::from(job.as_str()), &Value::from(to))
        );
    }
    let (_, kind, data) = all.event().await;
    assert_eq!(
        (kind.as_str(), &data["message"]),
        ("progress", &Value::from("a\nb"))
    );
    for to in ["available", "cancelled"] {
        assert_eq!(slow.event().await.2["to"], to);
    }
    assert_eq!(of_one.event().await.2["to"], "running");
    assert_eq!(of_one.event().await.1, "progress");

    host.tasks.stop();
    assert_eq!(all.block().await, None, "a host that stops ends the stream");
}

#[tokio::test]
async fn a_slow_listener_is_told_what_it_lost() {
    let host = Host::start().await;
    let mut stream = Stream::open(&host, "/api/v1/events").await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await.parse().unwrap();
    let (first, _, _) = stream.event().await;
    let told = 3_000;
    for _ in 0..told {
        let progress = Happened::Progressed {
            job: id,
            attempt: 1,
            progress: Progress {
                percent: None,
                message: String::new(),
            },
        };
        host.dispatch.shared().events.tell(Time(0), [progress]);
    }
    let (_, kind, data) = stream.event().await;
    let lost = data["lost"].as_u64().unwrap();
    assert_eq!(kind, "gap");
    assert!((1..told).contains(&lost), "{lost}");
    let (next, kind, _) = stream.event().await;
    assert_eq!((next, kind.as_str()), (first + lost + 1, "progress"));
}

#[tokio::test]
async fn streams_are_bounded() {
    let host = Host::start().await;
    let mut streams = Vec::new();
    for _ in 0..crate::api::STREAMS_MAX {
        streams.push(Stream::open(&host, "/api/v1/events").await);
    }
    let answer = host.get("/api/v1/events").await;
    answer.refused(503, "busy");
    assert_eq!(answer.headers["retry-after"], "1");
    streams.pop();
    Stream::open(&host, "/api/v1/events").await;
}
