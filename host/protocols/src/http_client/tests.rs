//! The client against a server in the test, and the URLs that it takes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

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
            let _gone = stream.write_all(&answer).await;
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
    drop(listener);
    let error = HttpClient::default()
        .post(post(&silent, &[]))
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
        ("https://api.example", UrlError::Https),
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
    for other in ["http://h:81", "http://h.example", "http://127.0.0.1"] {
        assert_ne!(origin("http://h"), origin(other));
    }
    assert_ne!(
        origin("http://127.0.0.1"),
        origin("http://[::ffff:127.0.0.1]")
    );
    assert!(origin("http://[::1]").is_loopback() && origin("http://localhost").is_loopback());
    assert!(!origin("http://169.254.169.254").is_loopback());
}
