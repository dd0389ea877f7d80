//! Tests of what may be sent: spellings of URLs, methods, paths, headers and secrets.

use std::collections::BTreeMap;

use host_core::http_grant::{SignScheme, Signing};

use super::*;

fn pass(grants: Vec<HttpGrant>) -> Pass {
    Pass {
        component: "billing".to_owned(),
        revision: 1,
        handler: "charge".to_owned(),
        grants,
        time_left_ms: 60_000,
        trace: None,
        report_as: None,
        has_lifeline: false,
        cuts_bodies: false,
        ..Pass::default()
    }
}

fn grant(to: &str) -> HttpGrant {
    HttpGrant {
        to: to.parse().unwrap(),
        methods: Vec::new(),
        paths: Vec::new(),
        headers: BTreeMap::new(),
        sign: None,
        oauth: None,
        max_requests: None,
        max_response_kib: None,
        max_total_mib: None,
        timeout_seconds: None,
    }
}

fn get(url: &str) -> HttpRequest {
    HttpRequest {
        call: 1,
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: None,
    }
}

fn decided(grant: HttpGrant, request: HttpRequest) -> Result<Order, HttpError> {
    let mut secrets = Secrets::default();
    secrets.set("stripe".to_owned(), "sk_1".to_owned());
    decide(
        &pass(vec![grant]),
        &secrets,
        request,
        None,
        &mut RequestTarget::default(),
    )
}

#[track_caller]
fn refusal(grant: HttpGrant, request: HttpRequest) -> HttpError {
    match decided(grant, request) {
        Ok(order) => panic!("{} may be sent", order.uri),
        Err(error) => error,
    }
}

#[test]
fn the_normalized_url_is_matched_and_sent() {
    for (to, url, sent) in [
        (
            "https://api.stripe.com",
            "https://API.stripe.COM/v1?a=b#c",
            "https://api.stripe.com/v1?a=b",
        ),
        (
            "https://api.stripe.com",
            "https://api.stripe.com:443/a/../b",
            "https://api.stripe.com/b",
        ),
        (
            "https://api.stripe.com",
            "https:\\\\api.stripe.com\\v1",
            "https://api.stripe.com/v1",
        ),
        (
            "http://127.0.0.1",
            "http://2130706433/",
            "http://127.0.0.1/",
        ),
        ("http://127.0.0.1", "http://0x7f.1/", "http://127.0.0.1/"),
        (
            "http://127.0.0.1",
            "http://0177.0.0.1/",
            "http://127.0.0.1/",
        ),
        ("http://[::1]", "http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"),
        (
            "https://*.example.com:8443",
            "https://a.example.com:8443/",
            "https://a.example.com:8443/",
        ),
    ] {
        let order = decided(grant(to), get(url)).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(order.uri.to_string(), sent, "{url}");
    }
}

#[test]
fn another_origin_is_not_granted() {
    for url in [
        "http://api.stripe.com/",
        "https://api.stripe.com:8443/",
        "https://api.stripe.com.evil.com/",
        "https://evil.com/?https://api.stripe.com",
        "https://evil.com/#@api.stripe.com",
        "https://evil.com\\@api.stripe.com/",
        "https://api.stripe.com./",
        "http://169.254.169.254/latest/meta-data",
        "http://2852039166/",
        "http://[::ffff:169.254.169.254]/",
    ] {
        let error = refusal(grant("https://api.stripe.com"), get(url));
        assert_eq!(error.kind, HttpErrorKind::NotGranted, "{url}: {error}");
    }
    let error = refusal(grant("https://api.stripe.com"), get("https://evil.com/"));
    assert_eq!(
        error.message,
        "the manifest of billing grants charge no requests to https://evil.com, only to https://api.stripe.com"
    );
}

#[test]
fn an_odd_url_is_invalid() {
    for url in [
        "",
        "api.stripe.com",
        "/v1",
        "ftp://api.stripe.com/",
        "file:///etc/passwd",
        "https://user@api.stripe.com/",
        "https://:pass@api.stripe.com/",
        "https://api.stripe.com/ HTTP/1.1",
        "https://api.stripe.com/\r\nhost: evil.com",
        "https://api.stripe\t.com/",
        "https://api.stripe.com:99999/",
        "https://[::1/",
    ] {
        let error = refusal(grant("https://api.stripe.com"), get(url));
        assert_eq!(error.kind, HttpErrorKind::InvalidRequest, "{url}: {error}");
    }
    let long = format!("https://api.stripe.com/{}", "a".repeat(URL_BYTES_MAX));
    assert_eq!(
        refusal(grant("https://api.stripe.com"), get(&long)).kind,
        HttpErrorKind::InvalidRequest
    );
}

/// A component that was deployed before patterns were checked may have any.
#[test]
fn no_pattern_of_a_manifest_keeps_the_broker_busy() {
    for pattern in [
        format!("/v1/{}z", "{a*,a*,a*,a*,a*,a*,a*,a*}".repeat(10)),
        format!("/v1/{}z", "{a*,a*}".repeat(6)),
        format!("/v1/{}z", "a*".repeat(500)),
    ] {
        let grant = HttpGrant {
            paths: vec![pattern],
            ..grant("https://a.com")
        };
        let url = format!("https://a.com/v1/{}", "a".repeat(8_000));
        assert_eq!(refusal(grant, get(&url)).kind, HttpErrorKind::NotGranted);
    }
}

#[test]
fn methods_and_paths_are_matched() {
    let narrow = HttpGrant {
        methods: vec!["GET".to_owned()],
        paths: vec!["/v1/*".to_owned(), "/files/**".to_owned()],
        ..grant("https://a.com")
    };
    let with = |method: &str, path: &str| HttpRequest {
        method: method.to_owned(),
        ..get(&format!("https://a.com{path}"))
    };
    for (method, path, granted) in [
        ("GET", "/v1/charges", true),
        ("GET", "/v1/charges?to=/x", true),
        ("GET", "/files/a/b/c", true),
        ("POST", "/v1/charges", false),
        ("GET", "/v1/charges/7", false),
        ("GET", "/v2", false),
        ("GET", "/v1/../admin", false),
        ("GET", "/v1/%2e%2e/admin", false),
        ("GET", "/files/..%2fadmin", false),
        ("GET", "/files/%5C..%5Cadmin", false),
        ("GET", "/files/a%00", false),
    ] {
        let decided = decided(narrow.clone(), with(method, path));
        assert_eq!(decided.is_ok(), granted, "{method} {path}");
    }
    for method in ["CONNECT", "TRACE", "", "GET /", "G\r\nET"] {
        let error = refusal(grant("https://a.com"), with(method, "/"));
        assert_eq!(error.kind, HttpErrorKind::InvalidRequest, "{method}");
    }
    // Without patterns a path is the server's business.
    assert!(decided(grant("https://a.com"), with("DELETE", "/a%2fb")).is_ok());
}

#[test]
fn the_first_grant_that_fits_decides() {
    let narrow = HttpGrant {
        paths: vec!["/a".to_owned()],
        max_requests: Some(1),
        ..grant("https://a.com")
    };
    let both = pass(vec![narrow, grant("https://a.com")]);
    let of = |path: &str| {
        decide(
            &both,
            &Secrets::default(),
            get(path),
            None,
            &mut RequestTarget::default(),
        )
        .map(|order| order.grant)
    };
    assert_eq!(of("https://a.com/a"), Ok(0));
    assert_eq!(of("https://a.com/b"), Ok(1));
}

#[test]
fn headers_of_the_manifest_are_added_and_cannot_be_set() {
    let with_key = HttpGrant {
        headers: BTreeMap::from([(
            "authorization".to_owned(),
            "Bearer {secret:stripe}".parse().unwrap(),
        )]),
        ..grant("https://a.com")
    };
    let with = |name: &str, value: &str| HttpRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..get("https://a.com/")
    };
    let order = decided(with_key.clone(), with("Accept-Encoding", "gzip"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(order.headers["authorization"], "Bearer sk_1");
    assert!(order.headers["authorization"].is_sensitive());
    assert_eq!(order.headers["accept-encoding"], "identity");
    assert_eq!(order.secrets.hidden().len(), 1);
    for (name, value) in [
        ("Authorization", "mine"),
        ("Host", "evil.com"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("a b", "c"),
        ("a", "b\r\nc: d"),
        ("a\r\nb", "c"),
    ] {
        let error = refusal(with_key.clone(), with(name, value));
        assert_eq!(error.kind, HttpErrorKind::InvalidRequest, "{name}: {error}");
        assert!(!error.message.contains("sk_1"), "{error}");
    }
    let unknown = HttpGrant {
        headers: BTreeMap::from([("x".to_owned(), "{secret:other}".parse().unwrap())]),
        ..grant("https://a.com")
    };
    let error = refusal(unknown, get("https://a.com/"));
    assert_eq!(error.message, "this host has no secret other");
}

#[test]
fn the_shorter_time_limit_holds() {
    let timeout = |granted: Option<f64>, asked: Option<u32>| {
        let grant = HttpGrant {
            timeout_seconds: granted.map(|it| it.try_into().unwrap()),
            ..grant("https://a.com")
        };
        let request = HttpRequest {
            timeout_ms: asked,
            ..get("https://a.com/")
        };
        decided(grant, request).map(|order| order.timeout.as_millis())
    };
    assert_eq!(timeout(None, None), Ok(30_000));
    assert_eq!(timeout(Some(2.5), None), Ok(2_500));
    assert_eq!(timeout(Some(2.5), Some(100)), Ok(100));
    assert_eq!(timeout(Some(2.5), Some(10_000)), Ok(2_500));
}

#[test]
fn an_ambiguous_path_matches_no_pattern_and_says_why() {
    let only = HttpGrant {
        paths: vec!["/v1/**".to_owned()],
        ..grant("https://a.com")
    };
    for path in [
        "/v1/..;/admin",
        "/v1/..%3b/x",
        "/v1/..%20/x",
        "/v1/%c0%ae%c0%ae/x",
        "/v1/%252e%252e/x",
        "/v1//x",
        "/v1/x.",
        "/v1/%00",
    ] {
        let error = refusal(only.clone(), get(&format!("https://a.com{path}")));
        assert_eq!(error.kind, HttpErrorKind::NotGranted, "{path}");
        assert!(
            error.message.contains("can be read in several ways"),
            "{error}"
        );
    }
    decided(only, get("https://a.com/v1/my%20file")).unwrap();
    decided(grant("https://a.com"), get("https://a.com/v1/..;/admin")).unwrap();
}

#[test]
fn a_response_that_is_searched_for_secrets_comes_whole() {
    let with_key = || HttpGrant {
        headers: BTreeMap::from([(
            "authorization".to_owned(),
            "{secret:stripe}".parse().unwrap(),
        )]),
        ..grant("https://a.com")
    };
    let with = |name: &str, value: &str| HttpRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..get("https://a.com/")
    };
    for (name, value) in [
        ("Range", "bytes=0-9"),
        ("If-Range", "\"a\""),
        ("TE", "gzip"),
        ("Transfer-Encoding", "gzip"),
    ] {
        let error = refusal(with_key(), with(name, value));
        assert_eq!(error.kind, HttpErrorKind::InvalidRequest, "{name}");
        assert!(
            error.message.contains(&name.to_ascii_lowercase()),
            "{error}"
        );
    }
    decided(grant("https://a.com"), with("Range", "bytes=0-9")).unwrap();
}

fn signed() -> HttpGrant {
    let mut grant = grant("https://s3.example");
    grant.sign = Some(Signing {
        scheme: SignScheme::AwsSigV4,
        region: "eu-central-1".to_owned(),
        service: "s3".to_owned(),
        key_id: "AKIDEXAMPLE".parse().unwrap(),
        secret_key: "{secret:stripe}".parse().unwrap(),
        session_token: None,
    });
    grant
}

#[test]
fn a_signature_is_that_of_the_host_and_hidden() {
    for name in [
        "Authorization",
        "x-amz-date",
        "X-Amz-Content-Sha256",
        "x-amz-security-token",
    ] {
        let mut request = get("https://s3.example/b/k");
        request.headers = vec![(name.to_owned(), "mine".to_owned())];
        let error = refusal(signed(), request);
        assert!(
            error.message.contains("the manifest sets the header"),
            "{error}"
        );
    }
    let mut order = decided(signed(), get("https://s3.example/b/a+b")).unwrap();
    order.sign(Time(0)).unwrap();
    assert_eq!(order.uri.path(), "/b/a%2Bb");
    let header = order.headers["authorization"].to_str().unwrap();
    let mut text = header.to_owned();
    assert!(order.secrets.mask(&mut text), "{text}");
    assert!(text.ends_with("Signature={secret:stripe}"), "{text}");
    let mut unknown = signed();
    let sign = unknown.sign.as_mut().unwrap();
    sign.secret_key = "{secret:other}".parse().unwrap();
    let error = refusal(unknown, get("https://s3.example/"));
    assert_eq!(error.message, "this host has no secret other");
}
