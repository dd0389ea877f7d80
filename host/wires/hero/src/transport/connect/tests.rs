//! Which Redis we work with, and where a password goes.

use std::convert::Infallible;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

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

/// Plays a Sentinel that names a master at this host.
async fn sentinel(listener: &TcpListener, host: &str) -> Infallible {
    let (stream, _) = listener.accept().await.unwrap();
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(head)) = lines.next_line().await {
        let words: usize = head.strip_prefix('*').unwrap().parse().unwrap();
        let mut command = Vec::new();
        for _ in 0..words {
            let _ = lines.next_line().await.unwrap();
            command.push(lines.next_line().await.unwrap().unwrap());
        }
        let answer = match command[0].as_str() {
            "SENTINEL" => format!("*2\r\n${}\r\n{host}\r\n$4\r\n6379\r\n", host.len()),
            "AUTH" => panic!("the password is not wanted"),
            _ => "+OK\r\n".to_owned(),
        };
        write.write_all(answer.as_bytes()).await.unwrap();
    }
    std::future::pending().await
}

#[tokio::test]
async fn a_sentinel_leads_no_password_to_another_machine_in_plain_text() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let table = [
        ("192.0.2.1", ":hush@", false, false),
        ("localhost.example", "me:hush@", false, false),
        ("192.0.2.1", ":hush@", true, true),
        ("192.0.2.1", "", false, true),
        ("127.0.0.1", ":hush@", false, true),
        ("localhost", ":hush@", false, true),
    ];
    for (host, user, allow_plaintext, is_taken) in table {
        let text = format!("redis-sentinel://{user}127.0.0.1:{port}/main");
        let url = RedisUrl::parse(&text)
            .unwrap()
            .allowing_plaintext(allow_plaintext);
        let found = tokio::select! {
            found = find_master(&url, url.sentinels().unwrap()) => found,
            never = sentinel(&listener, host) => match never {},
        };
        match found {
            Ok(master) => {
                assert!(is_taken, "{host}");
                assert_eq!(master.address(), format!("{host}:6379"));
            }
            Err(why) => assert!(
                !is_taken && why.contains("allow_plaintext") && !why.contains("hush"),
                "{host}: {why}"
            ),
        }
    }
    let url = RedisUrl::parse(&format!("redis-sentinel://:hush@127.0.0.1:{port}/main")).unwrap();
    let opened = tokio::select! {
        opened = connect(&url, SENTINEL_TIMEOUT) => opened.map(|_| ()),
        never = sentinel(&listener, "192.0.2.1") => match never {},
    };
    let why = opened.unwrap_err();
    assert!(
        why.contains("192.0.2.1:6379") && why.contains("allow_plaintext"),
        "{why}"
    );
    // In TLS it may go anywhere.
    let tls = RedisUrl::parse("rediss-sentinel://:hush@127.0.0.1/main").unwrap();
    assert!(tls.at("192.0.2.1", 6379).not_in_plaintext().is_ok());
}
