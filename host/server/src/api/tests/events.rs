//! The stream of events: what it sends, filters and drops.

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use futures_util::FutureExt as _;
use host_core::outcome::Progress;
use host_core::time::Time;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::access::Guarded;
use super::fixture::Host;

/// More than any event needs.
const SOON: Duration = Duration::from_mins(1);

/// A hint.
const HINT: &str = "event: changed\ndata:";

/// An open stream of events.
struct Stream {
    body: Body,
    read: String,
}

impl Stream {
    /// Opens a stream and waits until it listens.
    async fn open(host: &Host, path: &str) -> Self {
        Self::open_after(host, path, None).await
    }

    /// Opens a stream of what happened after a change.
    async fn open_after(host: &Host, path: &str, last_id: Option<u64>) -> Self {
        let mut request = Request::get(path).header("host", "localhost");
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        let service = TowerToHyperService::new(host.router.clone());
        let asked = service.call(request.body(Body::empty()).unwrap());
        Self::read(asked.await.unwrap()).await
    }

    /// Waits until the stream of an answer listens.
    async fn read(answer: Response) -> Self {
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let body = answer.into_body();
        let read = String::new();
        let mut stream = Self { body, read };
        let first = stream.block().await.unwrap();
        assert!(first.starts_with(": listening\nid: "), "{first}");
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

    /// Returns the next event: its number (0 if it has none), kind and data.
    async fn event(&mut self) -> (u64, String, Value) {
        let lines = self.block().await.unwrap();
        let block = if lines.starts_with("id: ") {
            lines
        } else {
            format!("id: 0\n{lines}")
        };
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
async fn changes_reach_their_listeners_in_order() {
    let host = Host::start().await;
    let mut all = Stream::open(&host, "/api/v1/events").await;
    let mut slow = Stream::open(&host, "/api/v1/events?queue=slow").await;
    let one = host.enqueue(r#"{"handler":"noop"}"#).await;
    let two = host.enqueue(r#"{"handler":"noop","queue":"slow"}"#).await;
    let mut of_one = Stream::open(&host, &format!("/api/v1/events?job={one}")).await;
    host.claim().await;
    host.post(&format!("/api/v1/jobs/{two}/cancel"), "{}").await;
    let progress = Progress {
        percent: None,
        message: "a\nb".to_owned(),
    };
    let events = &host.dispatch.shared().events;
    events.progressed(Time(0), one.parse().unwrap(), 1, progress);

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
async fn hints_are_few_however_much_happens() {
    let host = Host::start().await;
    let mut hints = Stream::open(&host, "/api/v1/events?hints=true").await;
    let mut elsewhere = Stream::open(&host, "/api/v1/events?hints=true&queue=other").await;
    let one = host.enqueue(r#"{"handler":"noop"}"#).await;
    assert_eq!(hints.block().await.as_deref(), Some(HINT));
    // More than a listener is kept: it still gets one hint for all of it, and nothing is read again.
    let progress = Progress {
        percent: None,
        message: "x".to_owned(),
    };
    for _ in 0..3_000 {
        let events = &host.dispatch.shared().events;
        events.progressed(Time(0), one.parse().unwrap(), 1, progress.clone());
    }
    assert_eq!(hints.block().await.as_deref(), Some(HINT));
    host.enqueue(r#"{"handler":"noop","queue":"other"}"#).await;
    assert_eq!(hints.block().await.as_deref(), Some(HINT));
    assert_eq!(elsewhere.block().await.as_deref(), Some(HINT));
    host.tasks.stop();
    let mut left = 0;
    while hints.block().await.is_some() {
        left += 1;
    }
    assert!(left <= 1, "{left} hints were left");
}

#[tokio::test]
async fn a_live_page_gets_hints_of_its_scope_only() {
    let guarded = Guarded::start().await;
    let reader = json!({"name": "m", "allow": ["read"], "queues": ["mail-*"]});
    let token = guarded.make(&reader).await;
    let mut own = Stream::read(guarded.open(&token, "/live").await).await;
    let mut all = Stream::read(guarded.open(&guarded.admin, "/live").await).await;
    let hidden = guarded.job("web", "noop").await;
    assert_eq!(all.block().await.as_deref(), Some(HINT));
    assert_eq!(own.block().now_or_never(), None);
    let visible = guarded.job("mail-eu", "noop").await;
    assert_eq!(own.block().await.as_deref(), Some(HINT));
    for path in ["/live?job=", "/api/v1/events?job="] {
        for (job, status) in [(&hidden, 404), (&visible, 200)] {
            let answer = guarded.open(&token, &format!("{path}{job}")).await;
            assert_eq!(answer.status(), status, "{path}");
        }
    }
}

/// Waits for the next block of a stream while every second something happens to another job, and returns it with the
/// seconds it took.
async fn block_on_a_busy_host(host: &Host, stream: &mut Stream) -> (Option<String>, u64) {
    let other = "01990f3c-1a2b-7000-8000-000000000001".parse().unwrap();
    let progress = Progress {
        percent: None,
        message: String::new(),
    };
    tokio::time::pause();
    let begun = Instant::now();
    let block = stream.block();
    tokio::pin!(block);
    let found = loop {
        let events = &host.dispatch.shared().events;
        events.progressed(Time(0), other, 1, progress.clone());
        tokio::select! {
            biased;
            block = &mut block => break block,
            () = tokio::time::advance(Duration::from_secs(1)) => {}
        }
    };
    tokio::time::resume();
    (found, begun.elapsed().as_secs())
}

#[tokio::test]
async fn a_stream_without_news_lives_however_much_happens_elsewhere() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    for (query, alive) in [("", ": "), ("&hints=true", HINT)] {
        let path = format!("/api/v1/events?job={id}{query}");
        let mut stream = Stream::open(&host, &path).await;
        for _ in 0..2 {
            let (block, seconds) = block_on_a_busy_host(&host, &mut stream).await;
            assert_eq!(block.as_deref(), Some(alive));
            assert!((14..=17).contains(&seconds), "{query}: after {seconds} s");
        }
    }
}

/// Log lines are not events, but people who watch a job want to see them.
#[tokio::test]
async fn a_job_that_runs_is_looked_at_again_soon() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    let path = format!("/api/v1/events?job={id}&hints=true");
    let mut waits = Stream::open(&host, &path).await;
    host.claim().await;
    assert_eq!(waits.block().await.as_deref(), Some(HINT));
    let mut runs = Stream::open(&host, &path).await;
    for stream in [&mut waits, &mut runs] {
        let (block, seconds) = block_on_a_busy_host(&host, stream).await;
        assert_eq!(block.as_deref(), Some(HINT));
        assert!(seconds <= 5, "after {seconds} s");
    }
}

#[tokio::test]
async fn a_slow_listener_misses_no_change() {
    let host = Host::start().await;
    let mut stream = Stream::open(&host, "/api/v1/events").await;
    let one = host.enqueue(r#"{"handler":"noop"}"#).await;
    let id = one.parse().unwrap();
    for _ in 0..3_000 {
        let progress = Progress {
            percent: None,
            message: String::new(),
        };
        host.dispatch
            .shared()
            .events
            .progressed(Time(0), id, 1, progress);
    }
    let two = host.enqueue(r#"{"handler":"noop"}"#).await;
    for (number, job) in [(1, &one), (2, &two)] {
        loop {
            let (at, kind, data) = stream.event().await;
            if kind == "change" {
                assert_eq!((at, data["job"].as_str()), (number, Some(job.as_str())));
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_listener_that_comes_back_gets_what_it_missed() {
    let host = Host::start().await;
    let one = host.enqueue(r#"{"handler":"noop"}"#).await;
    let two = host.enqueue(r#"{"handler":"noop"}"#).await;
    let mut back = Stream::open_after(&host, "/api/v1/events", Some(1)).await;
    let three = host.enqueue(r#"{"handler":"noop"}"#).await;
    for (number, job) in [(2, &two), (3, &three)] {
        let (at, _, data) = back.event().await;
        assert_eq!((at, data["job"].as_str()), (number, Some(job.as_str())));
    }
    let path = format!("/api/v1/events?job={one}");
    let mut of_one = Stream::open_after(&host, &path, Some(0)).await;
    assert_eq!(of_one.event().await.2["to"], "available");
    let mut elsewhere = Stream::open_after(&host, "/api/v1/events", Some(99)).await;
    let (number, kind, data) = elsewhere.event().await;
    assert_eq!((number, kind.as_str()), (3, "gap"));
    assert_eq!(data, serde_json::json!({}));
}

#[tokio::test]
async fn the_stream_of_a_job_ends_with_it() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    let path = format!("/api/v1/events?job={id}");
    let mut live = Stream::open(&host, &path).await;
    host.post(&format!("/api/v1/jobs/{id}/cancel"), "{}").await;
    assert_eq!(live.event().await.2["to"], "cancelled");
    assert_eq!(live.block().await, None);
    let mut late = Stream::open(&host, &path).await;
    assert_eq!(late.block().await, None);
    let mut again = Stream::open_after(&host, &path, Some(0)).await;
    for to in ["available", "cancelled"] {
        assert_eq!(again.event().await.2["to"], to);
    }
    assert_eq!(again.block().await, None);
    let unknown = "/api/v1/events?job=01990f3c-1a2b-7000-8000-000000000001";
    host.get(unknown).await.fails(404, "job_not_found");
}

#[tokio::test]
async fn streams_are_bounded() {
    let host = Host::start().await;
    let mut streams = Vec::new();
    for _ in 0..crate::api::STREAMS_MAX {
        streams.push(Stream::open(&host, "/api/v1/events").await);
    }
    let answer = host.get("/api/v1/events").await;
    answer.fails(503, "busy");
    assert_eq!(answer.headers["retry-after"], "1");
    streams.pop();
    Stream::open(&host, "/api/v1/events").await;
}
