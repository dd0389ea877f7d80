//! How addresses are read, and that none of them shows its secrets.

use super::*;

#[test]
fn addresses_are_read_and_shown_without_secrets() {
    let table = [
        ("redis://127.0.0.1", "redis://127.0.0.1:6379/0"),
        ("redis://127.0.0.1:7000/3", "redis://127.0.0.1:7000/3"),
        ("redis://me:hush@cache:7000/1", "redis://cache:7000/1"),
        ("redis://:hush@[::1]:7000", "redis://::1:7000/0"),
        ("rediss://me:hush@cache", "rediss://cache:6379/0"),
        (
            "redis+unix:///run/redis.sock",
            "redis+unix:///run/redis.sock?db=0",
        ),
        (
            "redis+unix:///run/r.sock?db=3&user=me&pass=hush",
            "redis+unix:///run/r.sock?db=3",
        ),
        (
            "redis-sentinel://cache/main",
            "redis-sentinel://cache:26379/main/0",
        ),
        (
            "redis-sentinel://me:hush@a:1,b,[::1]:3/main/2",
            "redis-sentinel://a:1,b:26379,::1:3/main/2",
        ),
        (
            "rediss-sentinel://:hush@a/m",
            "rediss-sentinel://a:26379/m/0",
        ),
    ];
    for (text, shown) in table {
        let url = RedisUrl::parse(text).unwrap();
        assert_eq!(url.to_string(), shown, "{text}");
        assert_eq!(format!("{url:?}"), shown, "{text}");
    }
}

#[test]
fn other_addresses_are_refused() {
    let table = [
        ("", UrlError::Unreadable),
        ("127.0.0.1:6379", UrlError::Unreadable),
        ("http://127.0.0.1", UrlError::Unreadable),
        ("redis://", UrlError::Unreadable),
        ("redis://127.0.0.1/hush", UrlError::Unreadable),
        ("redis+unix://run/redis", UrlError::Unreadable),
        ("redis+unix:///run/redis?db=x", UrlError::Unreadable),
        ("redis-sentinel://a", UrlError::Unreadable),
        ("redis-sentinel://a/", UrlError::Unreadable),
        ("redis-sentinel:///main", UrlError::Unreadable),
        ("redis-sentinel://a,/main", UrlError::Unreadable),
        ("redis-sentinel://a/main/x", UrlError::Unreadable),
        ("redis-sentinel://a/ma in", UrlError::Unreadable),
        ("redis-sentinel://a/main#insecure", UrlError::Unreadable),
        ("rediss-sentinel://a/main/0#insecure", UrlError::Insecure),
        ("redis+tls://127.0.0.1", UrlError::Unreadable),
        ("valkeys://127.0.0.1", UrlError::Unreadable),
        ("rediss://127.0.0.1/#insecure", UrlError::Insecure),
        ("rediss://127.0.0.1:7000#insecure", UrlError::Insecure),
        ("redis://127.0.0.1/#insecure", UrlError::Insecure),
        ("rediss://127.0.0.1/#other", UrlError::Unreadable),
    ];
    for (text, error) in table {
        assert_eq!(RedisUrl::parse(text).unwrap_err(), error, "{text}");
    }
}

fn certified(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn given(url: &str, authorities: Option<&str>, client: Option<(&str, &str)>) -> Option<UrlError> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let certificates = Certificates {
        authorities: authorities.map(bytes),
        client: client.map(|(certificate, key)| (bytes(certificate), bytes(key))),
    };
    RedisUrl::parse(url)
        .unwrap()
        .with_certificates(certificates)
        .err()
}

#[test]
fn certificates_are_checked_before_anything_connects() {
    let (one, one_key) = certified("one");
    let (two, two_key) = certified("two");
    let both = format!("{one}{two}");
    let tls = "rediss://cache";
    assert_eq!(given(tls, None, None), None);
    assert_eq!(given("redis://cache", None, None), None);
    assert_eq!(given(tls, Some(&both), None), None);
    assert_eq!(given(tls, Some(&both), Some((&two, &two_key))), None);
    assert_eq!(
        given("redis://cache", Some(&one), None),
        Some(UrlError::NoTls)
    );
    for none in ["", "text", &one_key, &one[..100], &one.replace('A', "!")] {
        assert_eq!(given(tls, Some(none), None), Some(UrlError::Authorities));
        let client = Some((none, one_key.as_str()));
        assert_eq!(given(tls, None, client), Some(UrlError::Client), "{none}");
    }
    for (certificate, key) in [(&one, &two_key), (&one, &one), (&one, &String::new())] {
        let client = Some((certificate.as_str(), key.as_str()));
        assert_eq!(given(tls, None, client), Some(UrlError::Client));
    }
}
