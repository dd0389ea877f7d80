//! Which Redis we work with.

use super::*;

fn hello(version: &str, mode: &str, role: &str) -> Hello {
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    [
        ("server", text("redis")),
        ("version", text(version)),
        ("proto", Value::Int(2)),
        ("mode", text(mode)),
        ("role", text(role)),
        ("modules", Value::Array(Vec::new())),
    ]
    .into_iter()
    .map(|(field, value)| (field.to_owned(), value))
    .collect()
}

#[test]
fn a_redis_must_be_new_enough_and_no_cluster() {
    let table = [
        ("6.2.0", "standalone", "master", false, None),
        ("7.0.15", "standalone", "master", true, None),
        ("10.1", "standalone", "master", false, None),
        ("a fork", "standalone", "master", false, None),
        ("7.0.15", "standalone", "replica", false, None),
        (
            "7.0.15",
            "standalone",
            "replica",
            true,
            Some("it is a replica"),
        ),
        (
            "6.0.16",
            "standalone",
            "master",
            false,
            Some("it is Redis 6.0.16; Redis 6.2 or newer"),
        ),
        ("5.9", "standalone", "master", false, Some("6.2")),
        ("7.0.15", "cluster", "master", false, Some("Redis Cluster")),
        (
            "7.0.15",
            "sentinel",
            "sentinel",
            false,
            Some("redis-sentinel://"),
        ),
    ];
    for (version, mode, role, is_master, word) in table {
        let judged = judge(Some(&hello(version, mode, role)), is_master);
        match word {
            None => assert_eq!(judged, Ok(()), "{version} {mode} {role}"),
            Some(word) => assert!(
                judged.clone().is_err_and(|why| why.contains(word)),
                "{judged:?}"
            ),
        }
    }
    assert!(judge(None, false).is_err_and(|why| why.contains("6.2")));
    assert_eq!(judge(Some(&Hello::new()), false), Ok(()));
}
