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
