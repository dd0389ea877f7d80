//! Signatures as botocore computes them, for URLs as guests write them.

use hyper::header::CONTENT_TYPE;

use super::*;

/// When all of them are signed: 2015-08-30T12:36:00Z, as in the test suite of AWS.
const AT: Time = Time(1_440_938_160_000);

/// The service, the method, the URL of a guest, the token of the keys, the body, and the end of the signed header. The
/// first one is `get-vanilla` of the test suite of AWS; the others are from botocore 1.43.11.
const SIGNED: [(&str, &str, &str, Option<&str>, &[u8], &str); 9] = [
    (
        "service",
        "GET",
        "https://example.amazonaws.com",
        None,
        b"",
        "host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "service",
        "GET",
        "https://example.amazonaws.com/?Param2=value2&Param1=value1&Param1=a+b&list",
        None,
        b"",
        "host;x-amz-date, Signature=0e3d40d0ab1e2415f770e71a5174f0f333f89f3ace119f14373855ec6a5b3732",
    ),
    (
        "service",
        "PUT",
        "https://example.amazonaws.com/a b/ሴ+c%7ed/x",
        None,
        b"hello",
        "content-type;host;x-amz-date;x-amz-meta-a, \
         Signature=8e81e69fb51e277b691fd636ce823268dc1e8b630515c765896265e4177e8b01",
    ),
    (
        "service",
        "GET",
        "https://example.amazonaws.com:8443/a//b/",
        Some("token=="),
        b"",
        "host;x-amz-date;x-amz-security-token, \
         Signature=2346df232723d8d7f655d9dec6c9ff591290ab9477e53779524c267ff98eef58",
    ),
    (
        "s3",
        "GET",
        "https://example.amazonaws.com:443/",
        None,
        b"",
        "host;x-amz-content-sha256;x-amz-date, \
         Signature=4a57a9b66302b918923f101b20f6be667a12693f84a1e13a9a8b877028bef358",
    ),
    (
        "s3",
        "GET",
        "https://example.amazonaws.com/?Param2=value2&Param1=value1&Param1=a%20b&list",
        None,
        b"",
        "host;x-amz-content-sha256;x-amz-date, \
         Signature=b4c01e20d233fe71288a389d4f42c59e3ddad541657b62669e01dd33959abb3e",
    ),
    (
        "s3",
        "PUT",
        "https://example.amazonaws.com/a%20b/%e1%88%b4%2Bc~d/x",
        None,
        b"hello",
        "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a, \
         Signature=169461b9d02f8e7ab4396fa18b84205520373d2c64c18ada5549c84a6135d80f",
    ),
    (
        "s3",
        "GET",
        "https://example.amazonaws.com:8443/a//b/",
        Some("token=="),
        b"",
        "host;x-amz-content-sha256;x-amz-date;x-amz-security-token, \
         Signature=d9f9ffa613613c90294a0f90effb76b6f7932ab9ba2393ea78db17b1aebafda6",
    ),
    (
        "s3",
        "GET",
        "https://example.amazonaws.com:8443/c/../a//b/",
        Some("token=="),
        b"",
        "host;x-amz-content-sha256;x-amz-date;x-amz-security-token, \
         Signature=d9f9ffa613613c90294a0f90effb76b6f7932ab9ba2393ea78db17b1aebafda6",
    ),
];

#[test]
fn signatures_are_those_of_aws() {
    for (service, method, url, token, body, end) in SIGNED {
        let signer = Signer {
            region: "us-east-1".to_owned(),
            service: service.to_owned(),
            key_id: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: token.map(str::to_owned),
            secret_name: "aws".to_owned(),
        };
        let mut headers = HeaderMap::new();
        if method == "PUT" {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            headers.insert("x-amz-meta-a", HeaderValue::from_static("one  two "));
            headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        }
        let mut url = Url::parse(url).unwrap();
        normalize(&mut url);
        let request = Unsigned {
            method: &method.parse().unwrap(),
            uri: &url.as_str().parse().unwrap(),
            body,
        };
        let signature = signer.sign(&request, &mut headers, AT).unwrap();
        let authorization = headers[AUTHORIZATION].to_str().unwrap();
        let start = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, SignedHeaders="
        );
        assert_eq!(authorization, format!("{start}{end}"), "{service} {url}");
        assert!(end.ends_with(&signature.value));
        assert_eq!(headers["x-amz-date"], "20150830T123600Z");
        assert!(headers[AUTHORIZATION].is_sensitive());
    }
}

#[test]
fn an_escape_stays_in_its_segment() {
    for (given, sent) in [
        ("/a%2Fb/..%2f..", "/a%2Fb/..%2F.."),
        ("/a/%2e%2e/b", "/b"),
        ("/%252e%252e/b", "/%252e%252e/b"),
        ("/100%/é%", "/100%25/%C3%A9%25"),
        ("/%ff?a=%ff", "/%FF?a=%FF"),
        (
            "/day=1,2?x=a%26b=c&delete",
            "/day%3D1%2C2?x=a%26b%3Dc&delete",
        ),
        ("/?", "/?"),
    ] {
        let mut url = Url::parse(&format!("https://a.example{given}")).unwrap();
        normalize(&mut url);
        assert_eq!(url.as_str(), format!("https://a.example{sent}"), "{given}");
        let once = url.clone();
        normalize(&mut url);
        assert_eq!(url, once);
    }
}
