//! Tests of content codings of responses, and of many headers.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use host_core::egress::{HttpErrorKind, HttpResponse};

use super::fixture::{grant, run_with};
use crate::allowance::RequestCharge;
use crate::client::decode;
use crate::coding::Coding;
use crate::coding::tests::{BROTLI, gzip};

fn packed(coding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\ncontent-encoding: {coding}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn a_compressed_body_arrives_without_its_coding_unless_the_handler_asks_for_it() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world
            .server(|request| match request.split(' ').nth(1).unwrap() {
                "/gzip" => packed("gzip", &gzip(b"hello")),
                "/br" => packed("br", &BROTLI),
                "/zstd" => packed("zstd", b"unknown"),
                "/broken" => packed("gzip", b"\x1f no gzip"),
                _ => packed("gzip", &gzip(&vec![0; 4 << 20])),
            })
            .await;
        let mut granted = grant(&server.origin());
        granted.max_total_mib = Some(3);
        let run = world.run(1, vec![granted]);
        let get = async |path: &str| run.get(&server.url(path)).await;
        let encoding = |it: &str| ("content-encoding".to_owned(), it.to_owned());
        let hello = get("/gzip").await.unwrap();
        assert_eq!(hello.body, b"hello");
        assert!(!hello.headers.contains(&encoding("gzip")), "{hello:?}");
        assert_eq!(get("/br").await.unwrap().body, b"hello s3cr3t-value");
        let unknown = get("/zstd").await.unwrap();
        assert_eq!(unknown.body, b"unknown");
        assert!(unknown.headers.contains(&encoding("zstd")), "{unknown:?}");
        let broken = get("/broken").await.unwrap_err();
        assert_eq!(broken.kind, HttpErrorKind::ResponseEncoded, "{broken}");
        for name in ["accept-encoding", "range"] {
            let own = vec![(name.to_owned(), "gzip".to_owned())];
            let raw = run.get_with(&server.url("/gzip"), own).await.unwrap();
            assert_eq!(raw.body, gzip(b"hello"), "{name}");
            assert!(raw.headers.contains(&encoding("gzip")), "{raw:?}");
        }
        let bomb = get("/bomb").await.unwrap_err();
        assert_eq!(bomb.kind, HttpErrorKind::TooLarge, "{bomb}");
        let words = "has more than 1048576 bytes when it is decompressed (max_response_kib)";
        assert!(bomb.message.ends_with(words), "{bomb}");
        // A bomb costs what it may have at most.
        get("/bomb").await.unwrap_err();
        let rest = get("/bomb").await.unwrap_err();
        assert_eq!(rest.kind, HttpErrorKind::LimitReached, "{rest}");
        let heads = server.requests();
        assert!(
            heads[0].contains("accept-encoding: gzip, br, deflate\r\n"),
            "{}",
            heads[0]
        );
        assert!(heads[0].contains("user-agent: host/"), "{}", heads[0]);
    });
}

#[test]
fn secrets_are_found_in_what_is_compressed_and_more_than_100_headers_arrive() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world
            .server(|request| match request.split(' ').nth(1).unwrap() {
                "/gzip" => packed("gzip", &gzip(b"hello s3cr3t-value")),
                "/br" => packed("br", &BROTLI),
                _ => {
                    let fields =
                        (0..500).fold(String::new(), |all, n| all + &format!("x-{n}: {n}\r\n"));
                    format!("HTTP/1.1 200 X\r\ncontent-length: 0\r\n{fields}\r\n").into_bytes()
                }
            })
            .await;
        let mut granted = grant(&server.origin());
        let template = "{secret:key}".parse().unwrap();
        granted.headers.insert("x-key".to_owned(), template);
        let run = world.run(1, vec![granted]);
        for path in ["/gzip", "/br"] {
            let masked = run.get(&server.url(path)).await.unwrap();
            assert_eq!(masked.body, b"hello {secret:key}", "{path}");
        }
        assert!(server.requests()[0].contains("accept-encoding: identity\r\n"));
        let many = run.get(&server.url("/many")).await.unwrap();
        assert_eq!(many.headers.len(), 500);
        let own = (0..500).map(|n| (format!("x-{n}"), n.to_string()));
        let sent = run.get_with(&server.url("/many"), own.collect()).await;
        assert_eq!(sent.unwrap().status, 200);
    });
}

#[tokio::test]
async fn a_body_is_decoded_while_the_broker_serves_other_requests() {
    const BYTES: usize = 32 << 20;
    let charge = RequestCharge::uncounted(BYTES);
    let coded = HttpResponse {
        status: 200,
        headers: Vec::new(),
        body: gzip(&vec![0; BYTES]),
    };
    let mut decoding = pin!(decode("a", Coding::Gzip, coded, BYTES, &charge));
    let is_done = poll_fn(|context| Poll::Ready(decoding.as_mut().poll(context).is_ready())).await;
    assert!(!is_done, "the thread is free before the body is decoded");
    assert_eq!(decoding.await.unwrap().body.len(), BYTES);
}
