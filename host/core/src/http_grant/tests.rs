//! Tests of grants of HTTP: which texts are origins and templates, and what they include.

use super::*;

#[test]
fn an_origin_is_a_scheme_a_host_and_a_port() {
    for (text, shown) in [
        ("https://api.stripe.com", "https://api.stripe.com"),
        ("https://api.stripe.com/", "https://api.stripe.com"),
        ("https://api.stripe.com:443", "https://api.stripe.com"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://*.example.com:8443", "https://*.example.com:8443"),
        ("http://10.1.2.3", "http://10.1.2.3"),
        ("http://[2001:db8::1]:81", "http://[2001:db8::1]:81"),
        ("https://[::1]", "https://[::1]"),
    ] {
        let pattern: OriginPattern = text.parse().unwrap();
        assert_eq!(pattern.to_string(), shown);
    }
    for (text, error) in [
        ("api.stripe.com", OriginError::Scheme),
        ("ftp://a.com", OriginError::Scheme),
        ("HTTPS://a.com", OriginError::Scheme),
        ("https://a.com/v1", OriginError::NotAnOrigin),
        ("https://me@a.com", OriginError::NotAnOrigin),
        ("https://a.com?x", OriginError::NotAnOrigin),
        ("https://", OriginError::Host),
        ("https://A.com", OriginError::Host),
        ("https://a..com", OriginError::Host),
        ("https://-a.com", OriginError::Host),
        ("https://*", OriginError::Host),
        ("https://a.*.com", OriginError::Host),
        ("https://*.[::1]", OriginError::Host),
        ("https://*.1.2.3", OriginError::Host),
        ("http://2130706433", OriginError::Host),
        ("http://0x7f.1", OriginError::Host),
        ("http://127.1", OriginError::Host),
        ("http://[0:0::1]", OriginError::Host),
        ("http://[::ffff:7f00:1]", OriginError::Host),
        ("https://a.com:0", OriginError::Port),
        ("https://a.com:70000", OriginError::Port),
        ("https://a.com:+1", OriginError::Port),
    ] {
        assert_eq!(text.parse::<OriginPattern>(), Err(error), "{text}");
    }
}

#[test]
fn a_pattern_includes_names_below_it_and_not_those_that_end_alike() {
    let pattern: OriginPattern = "https://*.example.com".parse().unwrap();
    for (host, included) in [
        ("a.example.com", true),
        ("a.b.example.com", true),
        ("example.com", false),
        (".example.com", false),
        ("evilexample.com", false),
        ("a.example.com.evil.com", false),
    ] {
        assert_eq!(pattern.includes(true, host, 443), included, "{host}");
    }
    assert!(!pattern.includes(false, "a.example.com", 443));
    assert!(!pattern.includes(true, "a.example.com", 8443));
    let whole: OriginPattern = "http://[::1]:81".parse().unwrap();
    assert!(whole.includes(false, "[::1]", 81));
}

#[test]
fn a_pattern_covers_what_is_below_it() {
    let covers = |above: &str, below: &str| {
        let pattern: OriginPattern = above.parse().unwrap();
        pattern.covers(&below.parse().unwrap())
    };
    assert!(covers("https://a.com", "https://a.com:443"));
    assert!(covers("https://*.a.com", "https://b.a.com"));
    assert!(covers("https://*.a.com", "https://*.a.com"));
    assert!(covers("https://*.a.com", "https://*.b.a.com"));
    assert!(!covers("https://*.b.a.com", "https://*.a.com"));
    assert!(!covers("https://*.a.com", "https://a.com"));
    assert!(!covers("https://a.com", "https://*.a.com"));
    assert!(!covers("https://a.com", "http://a.com"));
    assert!(!covers("https://a.com", "https://a.com:8443"));
}

#[test]
fn a_template_is_filled_with_secrets() {
    let template: HeaderTemplate = "Bearer {secret:stripe}!".parse().unwrap();
    assert_eq!(template.to_string(), "Bearer {secret:stripe}!");
    assert_eq!(template.secrets().collect::<Vec<_>>(), ["stripe"]);
    let known = |name: &str| (name == "stripe").then_some("sk_1");
    assert_eq!(template.fill(known).as_deref(), Ok("Bearer sk_1!"));
    assert_eq!(template.fill(|_| None), Err("stripe"));
    let plain: HeaderTemplate = "application/json".parse().unwrap();
    assert_eq!(plain.secrets().count(), 0);
    for text in ["{secret:}", "{secret:a b}", "{secret:a"] {
        assert_eq!(
            text.parse::<HeaderTemplate>(),
            Err(TemplateError::Secret),
            "{text}"
        );
    }
    for text in ["a\r\nb: c", "é"] {
        assert_eq!(
            text.parse::<HeaderTemplate>(),
            Err(TemplateError::Character),
            "{text}"
        );
    }
}

#[test]
fn headers_of_the_connection_may_not_be_added() {
    for name in ["authorization", "x-key", "accept"] {
        assert!(may_be_added(name), "{name}");
    }
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "Authorization",
        "a b",
        "a:b",
        "",
    ] {
        assert!(!may_be_added(name), "{name}");
    }
}

/// Reads a path as the most lenient servers do: decodes until nothing is left to decode, takes `\` for `/`, drops parameters,
/// dots and spaces at the ends of segments, and empty segments, and goes up for `..`.
fn read_leniently(path: &str) -> String {
    let mut bytes = path.as_bytes().to_vec();
    loop {
        let decoded = decode(&bytes);
        if decoded == bytes {
            break;
        }
        bytes = decoded;
    }
    // An overlong form of an ASCII character counts as that.
    while let Some(at) = bytes.windows(2).position(|it| matches!(it[0], 0xc0 | 0xc1)) {
        let meant = (bytes[at] & 0x03) << 6 | bytes[at + 1] & 0x3f;
        bytes.splice(at..at + 2, [meant]);
    }
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let mut read: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        let name = segment
            .split(';')
            .next()
            .unwrap_or_default()
            .trim_matches(' ');
        match name {
            "" | "." => {}
            ".." => drop(read.pop()),
            _ => read.push(name.trim_end_matches(['.', ' '])),
        }
    }
    let end = if text.ends_with('/') && !read.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", read.join("/"))
}

fn decode(bytes: &[u8]) -> Vec<u8> {
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|it| str::from_utf8(it).ok());
        let escaped = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        if let Some(byte) = escaped.filter(|_| bytes[at] == b'%') {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    decoded
}

#[test]
fn paths_that_servers_read_in_several_ways_are_ambiguous() {
    for path in [
        "/v1/..;/admin",
        "/v1/..%3b/admin",
        "/v1/..%20/admin",
        "/v1/%c0%ae%c0%ae/admin",
        "/v1/%2e%2e/admin",
        "/v1/%252e%252e/admin",
        "/v1/..%5cadmin",
        "/v1\\..\\admin",
        "/v1//admin",
        "//admin",
        "/v1/%00",
        "/v1/a%00.png",
        "/v1/admin.",
        "/v1/admin%20",
        "/v1/.",
        "/v1/..",
        "/v1/%2fadmin",
        "/v1/%u002e",
        "/v1/%",
        "/v1/%2",
        "/v1/%zz",
        "/v1/%61dmin",
        "/v1/a;b=c",
        "/v1/%ff",
        "/v1/%0a",
        "/v1/ x",
        "/v1/%20x/y",
        "/a%25b",
    ] {
        assert!(is_ambiguous(path), "{path}");
    }
    for path in [
        "/",
        "",
        "/v1",
        "/v1/",
        "/v1/my%20file.txt",
        "/v1/caf%C3%A9",
        "/v1/a.b/.well-known",
        "/v1/a:b@c,d=e!$&'()*+",
        "/v1/~a-b_c",
        "/v1/%22x%22",
        "/v1/...a",
    ] {
        assert!(!is_ambiguous(path), "{path}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What no server reads as another path matches no pattern that the path which it is read as does not match.
        #[test]
        fn a_path_that_is_not_ambiguous_is_read_as_it_is(
            path in r"(/|\\|\.|\.\.|;|;x|a|b c|%2e|%2E|%2f|%5c|%5C|%3b|%20|%00|%c0%ae|%c0%af|%252e|%25|%61|%C3%A9|%c3|%2|%| |~|:|v1){1,9}"
        ) {
            let path = format!("/{path}");
            if !is_ambiguous(&path) {
                let read = read_leniently(&path).into_bytes();
                prop_assert_eq!(read, decode(path.as_bytes()), "{}", path);
                for glob in ["/v1/*", "/v1/**", "/*", "/**/a", "/[!a]*/**", "/v1/*a"] {
                    let read = read_leniently(&path).replace(' ', "%20").replace('é', "%C3%A9");
                    prop_assert_eq!(glob::matches(glob, &path), glob::matches(glob, &read), "{} {}", glob, path);
                }
            }
        }
    }
}
