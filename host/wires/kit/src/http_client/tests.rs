//! The client against a server in the test, and the URLs that it takes.

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use super::*;

/// Answers every connection with `answer` and returns where, and what was asked.
async fn served(answer: Vec<u8>) -> (BaseUrl, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    let (asked, requests) = tokio::sync::mpsc::channel(8);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"{}") {
                let mut part = [0; 1_024];
                match stream.read(&mut part).await {
                    Ok(bytes @ 1..) => request.extend_from_slice(&part[..bytes]),
                    _ => break,
                }
            }
            asked
                .send(String::from_utf8(request).unwrap())
                .await
                .unwrap();
            let _ = stream.write_all(&answer).await;
        }
    });
    tasks.detach_all();
    (url.parse().unwrap(), requests)
}

fn post<'a>(base: &'a BaseUrl, headers: &'a [(HeaderName, HeaderValue)]) -> Post<'a> {
    Post {
        base,
        path: "/dispatch",
        headers,
        body: Bytes::from_static(b"{}"),
        timeout: Duration::from_secs(30),
    }
}

#[tokio::test]
async fn a_wait_is_read_as_seconds_or_as_a_date() {
    for (headers, seconds) in [
        ("retry-after: 7", Some(7)),
        (
            "date: Sun, 06 Nov 1994 08:49:30 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT",
            Some(7),
        ),
        (
            "date: Sun, 06 Nov 1994 08:49:30 GMT\r\nretry-after: Sun, 06 Nov 1994 08:00:00 GMT",
            Some(0),
        ),
        ("retry-after: Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("retry-after: soon", None),
    ] {
        let answer = format!("HTTP/1.1 503 Busy\r\n{headers}\r\ncontent-length: 0\r\n\r\n");
        let (base, _requests) = served(answer.into_bytes()).await;
        let answer = HttpClient::default().post(post(&base, &[])).await.unwrap();
        let expected = seconds.map(Duration::from_secs);
        assert_eq!(answer.retry_after, expected, "{headers}");
    }
}

#[tokio::test]
async fn a_request_is_sent_and_its_answer_read() {
    let answer = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy";
    let (base, mut requests) = served(answer.to_vec()).await;
    let secret = [(
        hyper::header::AUTHORIZATION,
        HeaderValue::from_static("Bearer s3cret"),
    )];
    let request = post(&base, &secret);
    assert!(!format!("{request:?}").contains("s3cret"));
    let answer = HttpClient::default().post(request).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (503, &b"busy"[..]));
    assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
    let asked = requests.recv().await.unwrap();
    assert!(
        asked.starts_with("POST /base/dispatch HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("authorization: Bearer s3cret\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("content-type: application/json\r\n"),
        "{asked}"
    );
}

/// A server with a certificate that it signed itself, for `127.0.0.1`. Answers each connection once.
async fn served_over_tls() -> (BaseUrl, CertificateDer<'static>) {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut room = [0; 1_024];
            let _ = stream.read(&mut room).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")
                .await;
        }
    });
    tasks.detach_all();
    (url.parse().unwrap(), certificate)
}

#[tokio::test]
async fn a_server_with_tls_must_have_a_certificate_that_is_trusted() {
    let (base, certificate) = served_over_tls().await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let answer = HttpClient::trusting(roots)
        .post(post(&base, &[]))
        .await
        .unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"secret"[..]));

    let (base, _untrusted) = served_over_tls().await;
    let mut roots = RootCertStore::empty();
    roots
        .add(
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
                .unwrap()
                .cert
                .der()
                .clone(),
        )
        .unwrap();
    let error = HttpClient::trusting(roots)
        .post(post(&base, &[]))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RequestError::Connect(why) if why.contains("certificate")),
        "{error}"
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = format!("https://{}", listener.local_addr().unwrap());
    let base: BaseUrl = plain.parse().unwrap();
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
        stream
    };
    let client = HttpClient::default();
    let (answer, _stream) = tokio::join!(client.post(post(&base, &[])), answering);
    let error = answer.unwrap_err();
    assert!(matches!(error, RequestError::Connect(_)), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, mut asked_there) = served(Vec::new()).await;
    let answer = format!("HTTP/1.1 307 No\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n");
    let (base, _asked) = served(answer.into_bytes()).await;
    let answer = HttpClient::default().post(post(&base, &[])).await.unwrap();
    assert_eq!(answer.status, 307);
    assert!(asked_there.try_recv().is_err());
}

#[tokio::test]
async fn an_answer_has_limits() {
    let endless = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n{}",
        "x".repeat(ANSWER_BYTES_MAX + 1)
    );
    let (base, _asked) = served(endless.into_bytes()).await;
    let error = HttpClient::default()
        .post(post(&base, &[]))
        .await
        .unwrap_err();
    assert_eq!(error, RequestError::TooLong);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent: BaseUrl = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let request = Post {
        timeout: Duration::from_millis(20),
        ..post(&silent, &[])
    };
    let error = HttpClient::default().post(request).await.unwrap_err();
    assert_eq!(error, RequestError::TimedOut(Duration::from_millis(20)));
    assert!(error.may_be_delivered());
    // It keeps its port, and does not listen.
    let deaf = TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed: BaseUrl = format!("http://{}", deaf.local_addr().unwrap())
        .parse()
        .unwrap();
    let error = HttpClient::default()
        .post(post(&closed, &[]))
        .await
        .unwrap_err();
    assert!(matches!(error, RequestError::Connect(_)), "{error}");
    assert!(!error.may_be_delivered());
}

#[test]
fn urls_are_read_strictly() {
    let taken = [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("HTTP://LocalHost/", "http://localhost:80"),
        ("https://api.example/x", "https://api.example:443/x"),
        ("http://[::1]:7/api/", "http://[::1]:7/api"),
        ("http://api.example:80/a/b", "http://api.example:80/a/b"),
        ("http://[0:0:0:0:0:0:0:1]:7", "http://[::1]:7"),
    ];
    for (text, shown) in taken {
        assert_eq!(text.parse::<BaseUrl>().unwrap().to_string(), shown);
    }
    let refused = [
        ("", UrlError::NotHttp),
        ("127.0.0.1:9000", UrlError::NotHttp),
        ("ftp://127.0.0.1", UrlError::NotHttp),
        ("https//api.example", UrlError::NotHttp),
        ("http://api@evil", UrlError::UserInfo),
        ("http://127.0.0.1:7700@evil:80", UrlError::UserInfo),
        ("http://", UrlError::Host),
        ("http://a b", UrlError::Host),
        ("http://evil%2f.example", UrlError::Host),
        ("http://127.0.0.1\\@evil", UrlError::Path),
        ("http://2130706433", UrlError::Host),
        ("http://0x7f000001", UrlError::Host),
        ("http://0177.0.0.1", UrlError::Host),
        ("http://127.1", UrlError::Host),
        ("http://127.0.0.1.", UrlError::Host),
        ("http://[::1", UrlError::Host),
        ("http://[::1]x", UrlError::Host),
        ("http://[fe80::1%25eth0]", UrlError::Host),
        ("http://h:", UrlError::Port),
        ("http://h:0", UrlError::Port),
        ("http://h:+1", UrlError::Port),
        ("http://h:65536", UrlError::Port),
        ("http://h/?q", UrlError::Query),
        ("http://h#f", UrlError::Query),
        ("http://h/a/../b", UrlError::Path),
        ("http://h/%2e%2e", UrlError::Path),
    ];
    for (text, error) in refused {
        assert_eq!(text.parse::<BaseUrl>(), Err(error), "{text}");
    }
    let long = format!("http://h/{}", "a".repeat(3_000));
    assert_eq!(long.parse::<BaseUrl>().unwrap_err(), UrlError::TooLong);
}

#[test]
fn origins_differ_by_what_is_meant() {
    let origin = |text: &str| text.parse::<BaseUrl>().unwrap().origin().clone();
    assert_eq!(origin("http://h"), origin("http://H:80/x"));
    for other in [
        "https://h",
        "https://h:80",
        "http://h:81",
        "http://h.example",
        "http://127.0.0.1",
    ] {
        assert_ne!(origin("http://h"), origin(other));
    }
    assert_ne!(
        origin("http://127.0.0.1"),
        origin("http://[::ffff:127.0.0.1]")
    );
    assert!(origin("http://[::1]").is_loopback() && origin("http://localhost").is_loopback());
    assert!(!origin("http://169.254.169.254").is_loopback());
    for (text, exposed) in [
        ("http://h", true),
        ("https://h", false),
        ("http://localhost", false),
    ] {
        assert_eq!(origin(text).is_exposed(), exposed, "{text}");
    }
}
