//! Bodies that come slowly or are too large, through the server that all routes share: refused in the
//! words of the wire, and the lease lives.

use axum::body::{Body, Bytes};
use futures_util::stream::{self, StreamExt as _};

use super::fixture::Host;

const JSON: [(&str, &str); 2] = [
    ("authorization", "Bearer ci-token"),
    ("content-type", "application/json"),
];
const TEXT: [(&str, &str); 2] = [
    ("authorization", "Bearer ci-token"),
    ("content-type", "text/plain"),
];

/// Every route with the most bytes that it takes.
fn routes(lease: &str) -> Vec<(&'static str, String, usize)> {
    let post = |path: &str, most| ("POST", format!("/api/v1/internal/{path}"), most);
    let logs = format!("/api/v1/internal/logs/{lease}?runner_id=w1&offset=0");
    vec![
        post("lease", 64 << 10),
        post("ack-lease", 64 << 10),
        post("heartbeat", 64 << 10),
        post("complete", 8 << 20),
        post("cancel-ack", 8 << 20),
        ("PUT", logs, 256 << 10),
    ]
}

/// A body of so many bytes that names no length.
fn chunked(bytes: usize) -> Body {
    const CHUNK: usize = 16 << 10;
    let chunks = (0..bytes.div_ceil(CHUNK)).map(move |at| {
        let size = CHUNK.min(bytes - at * CHUNK);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; size]))
    });
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_whether_it_names_its_length_or_not() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    for (method, path, most) in routes(&lease) {
        let headers = if method == "PUT" { TEXT } else { JSON };
        let length = (most + 1).to_string();
        let named = [&headers[..], &[("content-length", length.as_str())]].concat();
        for answer in [
            host.send_body(method, &path, &headers, chunked(most + 1))
                .await,
            host.send_body(method, &path, &named, chunked(most + 1))
                .await,
        ] {
            let message = answer.refused(413, "E_BODY_TOO_LARGE");
            assert!(message.contains(&most.to_string()), "{path}: {message}");
        }
        // One byte less is read.
        let read = host.send_body(method, &path, &headers, chunked(most)).await;
        assert_ne!(read.status, 413, "{path}");
    }
    host.heartbeat(&lease, "w1").await.is(200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_slowly_is_refused() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    for (method, path, _) in routes(&lease) {
        let headers = if method == "PUT" { TEXT } else { JSON };
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let answer = host.send_body(method, &path, &headers, body).await;
        answer.refused(408, "E_REQUEST");
    }
    host.heartbeat(&lease, "w1").await.is(200);
}
