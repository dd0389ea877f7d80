//! Tests of a broker in this process, with servers of HTTP and of names that the tests script.

mod bodies;
mod descriptors;
mod fixture;
mod tokens;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use host_core::egress::HttpErrorKind;
use host_core::http_grant::RESPONSE_KIB_MAX;
use tokio::sync::oneshot::channel;
use tokio::task::spawn_local;
use tokio::time::timeout;

use self::fixture::{CUTTING, World, grant, reply, run_with};

/// How long an answer may take on a loaded machine.
const ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

#[test]
fn a_request_reaches_the_server_with_the_headers_of_the_manifest_and_the_secret_stays_hidden() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.server(|request| reply(200, request)).await;
        let mut granted = grant(&format!("http://127.0.0.1:{}", server.port));
        let template = "Bearer {secret:key}".parse().unwrap();
        granted.headers.insert("authorization".to_owned(), template);
        let run = world.run(1, vec![granted]);
        let response = run.get(&server.url("/a?b=c")).await.unwrap();
        assert_eq!(response.status, 200);
        let seen = server.requests();
        assert!(
            seen[0].starts_with("GET /a?b=c HTTP/1.1\r\n"),
            "{}",
            seen[0]
        );
        assert!(
            seen[0].contains("authorization: Bearer s3cr3t-value\r\n"),
            "{}",
            seen[0]
        );
        assert!(
            seen[0].contains("accept-encoding: identity\r\n"),
            "{}",
            seen[0]
        );
        let body = String::from_utf8(response.body).unwrap();
        assert!(
            body.contains("authorization: Bearer {secret:key}"),
            "{body}"
        );
        assert!(!body.contains("s3cr3t"), "{body}");
    });
}

#[test]
fn a_secret_of_another_path_or_time_stays_hidden() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let kept = std::cell::RefCell::new(String::new());
        let server = world.server(move |request| {
            let mut kept = kept.borrow_mut();
            if let Some((_, key)) = request.split_once("x-key: ") {
                kept.push_str(key.split_once('\r').unwrap().0);
                kept.push(' ');
            }
            if request.contains("/packed") {
                return b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-encoding: gzip\r\n\
                         content-length: 1\r\n\r\nx"
                    .to_vec();
            }
            reply(200, &kept)
        }).await;
        let (mut with_key, mut plain) = (grant(&server.origin()), grant(&server.origin()));
        with_key.paths = vec!["/key".to_owned()];
        let template = "{secret:key}".parse().unwrap();
        with_key.headers.insert("x-key".to_owned(), template);
        plain.paths = vec!["/plain".to_owned(), "/packed".to_owned()];
        let first = world.run(1, vec![with_key.clone(), plain.clone()]);
        first.get(&server.url("/key")).await.unwrap();
        world.secret("key", "n3w-value");
        // A run that begins now has the new value.
        let run = world.run(1, vec![with_key, plain]);
        let shown = async || {
            let response = run.get(&server.url("/plain")).await.unwrap();
            String::from_utf8(response.body).unwrap()
        };
        assert_eq!(shown().await, "{secret:key} ");
        run.get(&server.url("/key")).await.unwrap();
        assert_eq!(shown().await, "{secret:key} {secret:key} ");
        let packed = run.get(&server.url("/packed")).await.unwrap_err();
        assert_eq!(packed.kind, HttpErrorKind::ResponseEncoded);
    });
}

#[test]
fn only_public_addresses_and_named_networks_are_reached() {
    run_with(&["127.0.0.2/32"], |world| async move {
        let server = world.server(|_| reply(200, "reached")).await;
        let port = server.port;
        // Names that resolve to what may not be reached, alone and beside what may.
        world.names(&[
            ("loopback.test", &["127.0.0.1"]),
            ("metadata.test", &["169.254.169.254"]),
            ("mixed.test", &["127.0.0.2", "127.0.0.1"]),
            ("allowed.test", &["127.0.0.2"]),
        ]);
        for host in [
            "127.0.0.1",
            "[::1]",
            "169.254.169.254",
            "loopback.test",
            "metadata.test",
            "mixed.test",
        ] {
            let run = world.run(1, vec![grant(&format!("http://{host}:{port}"))]);
            let error = run
                .get(&format!("http://{host}:{port}/"))
                .await
                .unwrap_err();
            let kind = HttpErrorKind::AddressNotAllowed;
            assert_eq!(error.kind, kind, "{host}: {error}");
            assert!(error.message.contains("not public"), "{host}: {error}");
        }
        let run = world.run(1, vec![grant(&format!("http://allowed.test:{port}"))]);
        let error = run.get(&format!("http://allowed.test:{port}/")).await;
        // The server listens on 127.0.0.1 alone: the address is allowed, and nothing listens there.
        assert_eq!(error.unwrap_err().kind, HttpErrorKind::ConnectionRefused);
        let run = world.run(1, vec![grant("http://unknown.test")]);
        let error = run.get("http://unknown.test/").await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::NameNotFound);
        assert!(server.requests().is_empty());
    });
}

#[test]
fn a_name_that_changes_its_address_is_checked_again() {
    run_with(&["127.0.0.1/32"], |world| async move {
        // Each answer closes the connection, so that the next request opens one.
        let server = world
            .server(|_| {
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec()
            })
            .await;
        let port = server.port;
        world.names(&[("rebind.test", &["127.0.0.1"])]);
        let run = world.run(1, vec![grant(&format!("http://rebind.test:{port}"))]);
        let url = format!("http://rebind.test:{port}/");
        assert_eq!(run.get(&url).await.unwrap().status, 200);
        world.names(&[("rebind.test", &["127.0.0.3"])]);
        let error = run.get(&url).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::AddressNotAllowed, "{error}");
        assert_eq!(server.requests().len(), 1);
    });
}

#[test]
fn a_redirect_is_an_answer() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let location =
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
        let server = world.server(|_| location.as_bytes().to_vec()).await;
        let run = world.run(1, vec![grant(&server.origin())]);
        let response = run.get(&server.url("/")).await.unwrap();
        assert_eq!(response.status, 302);
        let target = ("location".to_owned(), "http://169.254.169.254/".to_owned());
        assert!(response.headers.contains(&target), "{:?}", response.headers);
        let error = run.get("http://169.254.169.254/").await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::NotGranted);
    });
}

#[test]
fn of_a_body_that_is_cut_only_the_start_is_read() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let endless = "HTTP/1.1 500 Oh\r\n\r\n";
        let server = world
            .server(|_| [endless.as_bytes().to_vec(), vec![b'a'; 4 << 20]].concat())
            .await;
        let mut granted = grant(&server.origin());
        granted.max_response_kib = Some(1);
        let run = world.run_of(CUTTING, 1, vec![granted]);
        let response = run.get(&server.url("/")).await.unwrap();
        assert_eq!(response.status, 500);
        assert_eq!(response.body, vec![b'a'; 1 << 10]);
    });
}

#[test]
fn a_hostile_server_gets_an_error_and_harms_nothing() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world
            .server(|request| {
                let path = request.split(' ').nth(1).unwrap_or_default();
                match path {
                    "/huge" => [b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".to_vec(), vec![b'a'; 4 << 20]].concat(),
                    "/endless" => [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'a'; 4 << 20]].concat(),
                    "/headers" => {
                        let many: String = "x: y\r\n".repeat(5_000);
                        format!("HTTP/1.1 200 OK\r\n{many}\r\n").into_bytes()
                    }
                    "/long-header" => format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes(),
                    "/short" => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec(),
                    "/both" => b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsmuggl".to_vec(),
                    "/garbage" => b"\x00\x01\x02 not http\r\n\r\n".to_vec(),
                    "/silent" => Vec::new(),
                    _ => reply(200, "fine"),
                }
            })
            .await;
        let run = world.run(1, vec![grant(&server.origin())]);
        for (path, kind) in [
            ("/huge", HttpErrorKind::TooLarge),
            ("/endless", HttpErrorKind::TooLarge),
            ("/headers", HttpErrorKind::Unreachable),
            ("/long-header", HttpErrorKind::Unreachable),
            ("/short", HttpErrorKind::ResponseIncomplete),
            ("/garbage", HttpErrorKind::Unreachable),
            ("/silent", HttpErrorKind::Unreachable),
        ] {
            let error = run.get(&server.url(path)).await.unwrap_err();
            assert_eq!(error.kind, kind, "{path}: {error}");
        }
        if let Ok(response) = run.get(&server.url("/both")).await {
            assert!(response.body.is_empty(), "{response:?}");
        }
        let fine = run.get(&server.url("/fine")).await.unwrap();
        assert_eq!(
            fine.body, b"fine",
            "no answer of another request is left over"
        );
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up_and_a_run_that_ends_is_cut() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.silent_server().await;
        let mut granted = grant(&server.origin());
        granted.timeout_seconds = Some(0.05.try_into().unwrap());
        let run = world.run(1, vec![granted]);
        let error = run.get(&server.url("/")).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::TimedOut, "{error}");
        let mut server = world.silent_server().await;
        let run = world.run(1, vec![grant(&server.origin())]);
        run.begin(&server.url("/")).await;
        server.accepted().await;
        drop(run);
        server.closed().await;
    });
}

#[test]
fn a_component_that_floods_the_broker_is_slowed_alone() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let mut silent = world.silent_server().await;
        let mut large = grant(&silent.origin());
        large.max_response_kib = Some(RESPONSE_KIB_MAX);
        let floods = [(); 2].map(|()| world.run_of("flood", 1, vec![large.clone()]));
        for flood in &floods {
            for _ in 0..16 {
                flood.begin(&silent.url("/")).await;
            }
        }
        silent.accepted().await;
        silent.accepted().await;
        let server = world.server(|_| reply(200, "")).await;
        let url = server.url("/");
        let other = world.run_of("other", 1, vec![grant(&server.origin())]);
        let answered = timeout(ANSWER_WAIT_MAX, other.get(&url)).await;
        assert!(answered.expect("the other component waits").is_ok());
    });
}

#[test]
fn a_component_that_floods_the_broker_with_refused_requests_holds_up_no_other() {
    const REFUSED: &str = "http://192.0.2.1/";
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.server(|_| reply(200, "")).await;
        // One never reads an answer, and one reads all of them.
        let deaf = world.run_of("flood", 1, Vec::new());
        spawn_local(async move {
            loop {
                deaf.begin(REFUSED).await;
            }
        });
        let flood = world.run_of("flood", 1, Vec::new());
        let (flooding, refused) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let of_flood = (Rc::clone(&flooding), Rc::clone(&refused));
        let flood = spawn_local(async move {
            while of_flood.0.get() {
                for _ in 0..16 {
                    flood.begin(REFUSED).await;
                }
                for _ in 0..16 {
                    let error = flood.answer().await.unwrap_err();
                    assert_eq!(error.kind, HttpErrorKind::NotGranted);
                    of_flood.1.set(of_flood.1.get() + 1);
                }
            }
        });
        let other = world.run_of("other", 1, vec![grant(&server.origin())]);
        let answering = async {
            let mut answered = 0;
            // Long enough for more reports than the socket to the host has room for.
            while answered < 100 || refused.get() < 2_000 {
                assert!(other.get(&server.url("/")).await.is_ok());
                answered += 1;
            }
        };
        let answered = timeout(2 * ANSWER_WAIT_MAX, answering).await;
        assert!(answered.is_ok(), "{} were refused", refused.get());
        flooding.set(false);
        flood.await.unwrap();
    });
}

#[test]
fn an_attempt_makes_as_many_requests_as_it_may() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.server(|_| reply(200, "")).await;
        let mut granted = grant(&server.origin());
        granted.max_requests = Some(2);
        let run = world.run(1, vec![granted.clone()]);
        for _ in 0..2 {
            assert!(run.get(&server.url("/")).await.is_ok());
        }
        let error = run.get(&server.url("/")).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::LimitReached);
        // Nor may another run of the attempt, such as that of a script that is started again.
        let again = world.run_again(vec![granted.clone()]);
        let error = again.get(&server.url("/")).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::LimitReached);
        // Another attempt may.
        let other = world.run(1, vec![granted.clone()]);
        assert!(other.get(&server.url("/")).await.is_ok());
        let forgotten = world.run_after_the_end(vec![granted]);
        for _ in 0..2 {
            assert!(forgotten.get(&server.url("/")).await.is_ok());
        }
    });
}

#[test]
fn an_attempt_moves_as_many_bytes_as_it_may() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world
            .server(|request| {
                let size = request.contains("/large").then_some((600 << 10) + 1);
                reply(200, &"x".repeat(size.unwrap_or(200 << 10)))
            })
            .await;
        let mut granted = grant(&server.origin());
        granted.max_total_mib = Some(1);
        let run = world.run(1, vec![granted.clone()]);
        for _ in 0..2 {
            let response = run.get(&server.url("/small")).await.unwrap();
            assert_eq!(response.body.len(), 200 << 10);
        }
        // What a script has used before it is started again counts, and 624 KiB are left.
        let run = world.run_again(vec![granted]);
        assert!(run.get(&server.url("/large")).await.is_ok());
        let error = run.get(&server.url("/small")).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::LimitReached, "{error}");
        assert!(error.message.contains("max_total_mib"), "{error}");
        // Nothing is left, so nothing is sent.
        let error = run.get(&server.url("/small")).await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::LimitReached, "{error}");
        assert_eq!(server.requests().len(), 4);
    });
}

#[test]
fn a_run_that_ends_leaves_no_request_behind() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let mut server = world.silent_server().await;
        let run = world.run(1, vec![grant(&server.origin())]);
        // More than are sent concurrently; the others wait in the socket.
        for _ in 0..40 {
            run.begin(&server.url("/")).await;
        }
        for _ in 0..16 {
            server.accepted().await;
        }
        drop(run);
        for _ in 0..16 {
            server.closed().await;
        }
    });
}

/// The request was decided, and the connection was being opened, when everything was suspended.
#[test]
fn nothing_is_sent_for_a_run_whose_node_was_suspended() {
    run_with(&["127.0.0.0/8"], |world| async move {
        world.names(&[("api.test", &["127.0.0.1"])]);
        for ends in [false, true] {
            let ((connected, on_connected), (proceed, continuing)) = (channel(), channel());
            let (port, serving) = world
                .slow_tls_server("api.test", connected, continuing)
                .await;
            let serving = spawn_local(serving);
            let origin = format!("https://api.test:{port}");
            let run = world.run_of_node(vec![grant(&origin)]);
            run.begin(&format!("{origin}/")).await;
            on_connected.await.unwrap();
            if ends {
                world.end_lifeline();
            }
            proceed.send(()).unwrap();
            let head = serving.await.unwrap();
            assert_eq!(head.is_empty(), ends, "{}", String::from_utf8_lossy(&head));
            if ends {
                let error = run.answer().await.unwrap_err();
                assert!(error.message.contains("the attempt is over"), "{error}");
                let error = run.get(&format!("{origin}/")).await.unwrap_err();
                assert_eq!(error.kind, HttpErrorKind::Unavailable, "{error}");
            }
        }
        let server = world.server(|_| reply(200, "")).await;
        let run = world.run(1, vec![grant(&server.origin())]);
        let response = run.get(&server.url("/")).await;
        assert_eq!(
            response.unwrap().status,
            200,
            "a run that no node takes over"
        );
    });
}

/// Its cell would close the socket; the broker does not wait for that.
#[test]
fn a_run_whose_time_is_over_is_cut() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let mut server = world.silent_server().await;
        // On a slow machine, the time of a run may be over before it has connected.
        for time_left_ms in [100, 1_000, 10_000] {
            let run = world.run_for(time_left_ms, vec![grant(&server.origin())]);
            run.begin(&server.url("/")).await;
            let accepted = timeout(Duration::from_millis(time_left_ms), server.accepted()).await;
            if accepted.is_ok() {
                let closed = timeout(ANSWER_WAIT_MAX, server.closed()).await;
                return closed.expect("the request continues");
            }
        }
        panic!("no run had time to connect");
    });
}

#[test]
fn a_run_and_a_handler_have_as_many_requests_at_once_as_they_may() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let mut silent = world.silent_server().await;
        let answering = world.server(|_| reply(200, "")).await;
        let mut granted = grant(&silent.origin());
        // So small that memory is not what they wait for.
        granted.max_response_kib = Some(64);
        let granted = vec![granted];
        let one = world.run(1, granted.clone());
        for _ in 0..17 {
            one.begin(&silent.url("/")).await;
        }
        for _ in 0..16 {
            silent.accepted().await;
        }
        let mut runs = Vec::new();
        for _ in 0..8 {
            let run = world.run(1, granted.clone());
            for _ in 0..16 {
                run.begin(&silent.url("/")).await;
            }
            runs.push(run);
        }
        for _ in 16..128 {
            silent.accepted().await;
        }
        // Another handler of the component does not wait. By the time it has its answer, this one has sent nothing more.
        let other = world.run_of_handler("other", vec![grant(&answering.origin())]);
        let answered = timeout(ANSWER_WAIT_MAX, other.get(&answering.url("/"))).await;
        assert!(answered.expect("the other handler waits").is_ok());
        assert!(silent.is_quiet());
        // What waits is sent when others end.
        drop(one);
        for _ in 0..16 {
            silent.accepted_meanwhile().await;
        }
    });
}

#[test]
fn connections_are_kept_for_runs_of_the_same_component_and_revision_only() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.server(|_| reply(200, "")).await;
        let granted = vec![grant(&server.origin())];
        for revision in [1, 1, 2, 1] {
            let run = world.run(revision, granted.clone());
            assert!(run.get(&server.url("/")).await.is_ok());
        }
        assert_eq!(server.requests().len(), 4);
        assert_eq!(server.connections(), 2);
        let run = world.run_of("other", 1, granted);
        assert!(run.get(&server.url("/")).await.is_ok());
        assert_eq!(server.connections(), 3);
    });
}

#[test]
fn a_certificate_must_be_for_the_name_and_of_an_authority() {
    run_with(&["127.0.0.0/8"], |world: World| async move {
        let server = world.tls_server("api.test").await;
        world.names(&[("api.test", &["127.0.0.1"]), ("other.test", &["127.0.0.1"])]);
        let get = |host: &'static str| {
            let origin = format!("https://{host}:{}", server.port);
            let run = world.run(1, vec![grant(&origin)]);
            async move { run.get(&format!("{origin}/")).await }
        };
        assert_eq!(get("api.test").await.unwrap().body, b"over TLS");
        assert_eq!(
            server.requests()[0],
            "to api.test",
            "the name in the handshake"
        );
        let error = get("other.test").await.unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::CertificateRefused);
        assert!(error.message.contains("certificate"), "{error}");
    });
}

#[test]
fn a_secret_and_authorities_that_change_are_used_for_further_requests() {
    run_with(&["127.0.0.0/8"], |world: World| async move {
        let server = world.server(|request| reply(200, request)).await;
        let mut granted = grant(&server.origin());
        let template = "{secret:key}".parse().unwrap();
        granted.headers.insert("x-key".to_owned(), template);
        for value in ["one", "two"] {
            world.secret("key", value);
            // The report of a run comes after it.
            let run = world.run(1, vec![granted.clone()]);
            run.get(&server.url("/")).await.unwrap();
            let seen = server.requests().pop().unwrap();
            assert!(seen.contains(&format!("x-key: {value}\r\n")), "{seen}");
        }
        assert_eq!(server.connections(), 1, "a secret closes no connection");

        let server = world.tls_server("api.test").await;
        world.names(&[("api.test", &["127.0.0.1"])]);
        let origin = format!("https://api.test:{}", server.port);
        let get = || {
            let run = world.run(1, vec![grant(&origin)]);
            let url = format!("{origin}/");
            async move { run.get(&url).await.map_err(|error| error.kind) }
        };
        assert!(get().await.is_ok());
        world.authorities(&fixture::other_authority());
        let refused = HttpErrorKind::CertificateRefused;
        assert_eq!(get().await.unwrap_err(), refused);
        world.authorities(&world.own_authority());
        assert!(get().await.is_ok());
        for bad in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            world.authorities(bad);
            assert!(
                get().await.is_ok(),
                "the old ones stay in use after {bad:?}"
            );
        }
    });
}
