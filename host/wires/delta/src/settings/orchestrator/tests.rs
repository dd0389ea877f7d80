//! The values of the section, where a bad one stands, and that no error shows a token.

use std::collections::BTreeMap;
use std::io;

use host_wire_kit::section::TestSources;

use super::*;

fn read(file: &str) -> Result<DeltaConfig, String> {
    let file = file.replace("[runners.", "[protocol.delta.runners.");
    let sources = TestSources {
        environment: &[("TOKEN", "from-env")],
        file: &format!("[protocol.delta]\n{file}"),
        read: &|path| match path.to_str() {
            Some("ci.token") => Ok(b"secret-one\nsecret-two\n".to_vec()),
            Some("gpu.token") => Ok(b"secret-three\n".to_vec()),
            Some("bad.token") => Ok(b"secret four\n".to_vec()),
            Some("empty.token") => Ok(b"\n".to_vec()),
            Some("binary.token") => Ok(vec![0xff]),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        ..TestSources::default()
    };
    let read = sources.read(&crate::DELTA, |section| {
        DeltaConfig::read(section, &section.table("protocol.delta")?)
    });
    read.map_err(|error| error.to_string())
}

#[test]
fn defaults_are_those_of_the_document() {
    let config = read("").unwrap();
    let times = Times {
        lease_ttl: 120,
        heartbeat_interval: 20,
        ack: 30,
        cancel_deadline: 30,
        max_runtime: 3_600,
    };
    assert_eq!((config.times, config.pools.len()), (times, 0));
    let policy = times.policy();
    assert_eq!(policy.ack_window_ms, Some(30_000));
    assert_eq!(policy.cancel_grace_ms, Some(30_000));
    assert_eq!(policy.timeout_ms, Some(3_600_000));
    assert_eq!(policy.on_grace_expired, OnGraceExpired::Cancelled);
}

#[test]
fn every_key_counts() {
    let config = read(
        r#"
        lease_ttl_seconds = 6
        heartbeat_interval_seconds = 3
        ack_seconds = 2
        cancel_deadline_seconds = 1
        max_runtime_seconds = 5
        [runners.ci]
        token_file = "ci.token"
        capabilities = ["os:linux", "gpu"]
        [runners.gpu]
        token_env = "TOKEN"
        "#,
    )
    .unwrap();
    let times = Times {
        lease_ttl: 6,
        heartbeat_interval: 3,
        ack: 2,
        cancel_deadline: 1,
        max_runtime: 5,
    };
    assert_eq!(config.times, times);
    let names: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["ci", "gpu"]);
    assert_eq!(config.pools[0].capabilities.len(), 2);
    for (token, pool) in [
        ("secret-one", Some(0)),
        ("secret-two", Some(0)),
        ("from-env", Some(1)),
        ("TOKEN", None),
    ] {
        assert_eq!(config.tokens.pool(token), pool, "{token}");
    }
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn runners_may_be_started_without_a_token() {
    let config = read(
        r#"
        [runners.ci]
        cmd = ["runner", "-v"]
        [runners.gpu]
        cmd = ["runner"]
        pool_size = 4
        env = {A = "b"}
        inherit_env = ["TOKEN"]
        token_file = "gpu.token"
        "#,
    )
    .unwrap();
    let launches: Vec<_> = config
        .pools
        .iter()
        .map(|pool| pool.launch.clone())
        .collect();
    let env = [("A", "b"), ("TOKEN", "from-env")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        launches,
        [
            Some(Launch {
                command: vec!["runner".to_owned(), "-v".to_owned()],
                pool_size: 1,
                env: BTreeMap::new(),
            }),
            Some(Launch {
                command: vec!["runner".to_owned()],
                pool_size: 4,
                env: env.into(),
            }),
        ]
    );
    assert_eq!(config.tokens.pool("secret-three"), Some(1));
    assert!(config.launches());
}

#[test]
fn a_bad_value_is_named_and_no_token_is_shown() {
    for (file, expected) in [
        (
            "lease_ttl_seconds = 0",
            "lease_ttl_seconds: invalid value `0`: expected 1–",
        ),
        (
            "lease_ttl_seconds = 39",
            "lease_ttl_seconds: invalid value `39`: the lease TTL (39) must be at least",
        ),
        (
            "heartbeat_interval_seconds = 61",
            "heartbeat_interval_seconds: invalid value `61`: the lease TTL (120)",
        ),
        ("ack_seconds = \"soon\"", "ack_seconds"),
        (
            "cancel_deadline_seconds = 604801",
            "cancel_deadline_seconds",
        ),
        ("[runners.ci]", "runners.ci: missing token"),
        (
            "[runners.ci]\ntoken_env = \"TOKEN\"\npool_size = 2",
            "runners.ci.pool_size: requires `cmd`",
        ),
        (
            "[runners.ci]\ncmd = []",
            "runners.ci.cmd: invalid value `[]`",
        ),
        (
            "[runners.ci]\ncmd = \"runner\"",
            "runners.ci.cmd: expected an array of strings, the program first, got a string",
        ),
        (
            "[runners.ci]\ncmd = [\"runner\"]\npool_size = 65",
            "runners.ci.pool_size: invalid value `65`: expected 1–64",
        ),
        (
            "[runners.ci]\ntoken_file = 7",
            "runners.ci.token_file: expected a string, got an integer",
        ),
        (
            "[runners.ci]\ntoken_file = \"none\"",
            "runners.ci.token_file: ",
        ),
        (
            "[runners.ci]\ntoken_file = \"bad.token\"",
            "runners.ci.token_file: token 1 is not",
        ),
        (
            "[runners.ci]\ntoken_file = \"empty.token\"",
            "runners.ci.token_file: the file has no token",
        ),
        (
            "[runners.ci]\ntoken_file = \"binary.token\"",
            "runners.ci.token_file: the file is not text",
        ),
        (
            "[runners.ci]\ntoken_env = \"NONE\"",
            "runners.ci.token_env: the variable NONE is not set",
        ),
        (
            "[runners.ci]\ntoken_env = \"TOKEN\"\ntoken_file = \"ci.token\"",
            "conflicts with",
        ),
        (
            "[runners.ci]\ntoken_env = \"TOKEN\"\n[runners.gpu]\ntoken_env = \"TOKEN\"",
            "runners.gpu.token_env: another pool has the same token",
        ),
        (
            "[runners.\"a/b\"]\ntoken_env = \"TOKEN\"",
            "runners.a/b: invalid value `a/b`: expected a name without `/`",
        ),
        (
            "[runners.ci]\ntoken_env = \"TOKEN\"\ncapabilities = [\"a b\"]",
            "runners.ci.capabilities",
        ),
        (
            "[runners.ci]\ntoken_env = \"TOKEN\"\ncapabilities = [\"os:a\", \"os:b\"]",
            "runners.ci.capabilities",
        ),
    ] {
        let error = read(file).unwrap_err();
        assert!(error.contains(expected), "{file}: {error}");
        assert!(
            !error.contains("secret") && !error.contains("from-env"),
            "{error}"
        );
    }
}
