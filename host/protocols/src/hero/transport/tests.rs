//! How addresses are read, and that nothing shows their secrets.

use super::*;

#[test]
fn addresses_are_read_and_shown_without_secrets() {
    let table = [
        ("redis://127.0.0.1", "redis://127.0.0.1:6379/0"),
        ("redis://127.0.0.1:7000/3", "redis://127.0.0.1:7000/3"),
        ("redis://me:hush@cache:7000/1", "redis://cache:7000/1"),
        ("redis://:hush@[::1]:7000", "redis://::1:7000/0"),
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
        ("redis+unix:///run/redis", UrlError::Unreadable),
        ("rediss://127.0.0.1", UrlError::Tls),
    ];
    for (text, error) in table {
        assert_eq!(RedisUrl::parse(text).unwrap_err(), error, "{text}");
    }
    assert!(UrlError::Tls.to_string().contains("redis://"));
}
