//! The section, read from files and variables that the test holds.

use std::io;

use host_wire_kit::section::TestSources;

use super::*;

pub(crate) fn read(
    values: &[(&str, &str)],
    workers: &[(&str, &str)],
) -> Result<ArcoConfig, String> {
    let value = |(key, text): &(&str, &str)| {
        let is_bare = text.parse::<u64>().is_ok() || text.parse::<bool>().is_ok();
        let quote = if is_bare { "" } else { "'" };
        format!("{key} = {quote}{text}{quote}\n")
    };
    let worker =
        |(name, keys): &(&str, &str)| format!("[protocol.arco.workers.'{name}']\n{keys}\n");
    let values: String = values.iter().map(value).collect();
    let workers: String = workers.iter().map(worker).collect();
    let sources = TestSources {
        environment: &[
            ("SECRET", "from-env"),
            ("KEY", "a key with blanks, of 32 bytes or more"),
            ("NOTHING", ""),
        ],
        file: &format!("[protocol.arco]\n{values}{workers}"),
        read: &|path| match path.to_str() {
            Some("secret") => Ok(b"from-file\n".to_vec()),
            Some("key") => Ok([b'k'; 32].to_vec()),
            Some("short") => Ok(b"short".to_vec()),
            Some("blank") => Ok(b"two words\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        ..TestSources::default()
    };
    let config = sources.read(&crate::ARCO, ArcoConfig::read);
    config.map_err(|error| error.to_string())
}

#[test]
fn an_empty_section_does_nothing() {
    let config = read(&[], &[]).unwrap();
    assert!(config.worker.is_none() && config.orchestrator.workers.is_empty());
    let times = config.orchestrator.times;
    assert_eq!(
        (times.heartbeat_interval_ms, times.heartbeat_timeout_ms),
        (30_000, 90_000)
    );
    assert_eq!(
        (times.cancel_grace_ms, times.token_ttl_seconds),
        (30_000, 3_600)
    );
}

#[test]
fn workers_and_keys_are_read() {
    let workers = [
        (
            "spark",
            "url = 'http://127.0.0.1:9000/arco/'\nsecret_file = 'secret'\nmax_in_flight = 256",
        ),
        ("plain", "url = 'http://[::1]:9'"),
        ("env", "url = 'https://h'\nsecret_env = 'SECRET'"),
    ];
    let values = [
        ("public_url", "http://localhost:7700"),
        ("token_key_env", "KEY"),
        ("previous_token_key_file", "key"),
        ("heartbeat_interval_ms", "1000"),
        ("heartbeat_timeout_ms", "2000"),
    ];
    let orchestrator = read(&values, &workers).unwrap().orchestrator;
    let spark = &orchestrator.workers[&"spark".parse().unwrap()];
    assert_eq!(spark.url.to_string(), "http://127.0.0.1:9000/arco");
    assert_eq!(spark.secret.as_ref().unwrap().expose(), "from-file");
    assert_eq!(spark.in_flight_max, 256);
    let plain = &orchestrator.workers[&"plain".parse().unwrap()];
    assert!(plain.secret.is_none() && plain.in_flight_max == 16);
    let env = &orchestrator.workers[&"env".parse().unwrap()];
    assert_eq!(env.secret.as_ref().unwrap().expose(), "from-env");
    assert_eq!(
        format!("{:?}", orchestrator.keys.as_ref().unwrap()),
        "two keys"
    );
    assert_eq!(
        orchestrator.public_url.as_ref().unwrap().to_string(),
        "http://localhost:7700"
    );
    let shown = format!("{orchestrator:?}");
    for secret in ["from-file", "from-env", "blanks", "kkkk"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn the_worker_is_read() {
    let values = [
        ("worker.listen", "127.0.0.1:0"),
        ("worker.secret_env", "SECRET"),
        (
            "worker.callback_origins",
            "http://127.0.0.1:8080, https://h,https://H:443/",
        ),
        ("worker.concurrency", "3"),
        ("worker.logs_token_file", "secret"),
    ];
    let worker = read(&values, &[]).unwrap().worker.unwrap();
    assert_eq!(worker.secret.expose(), "from-env");
    assert_eq!(worker.concurrency, 3);
    let origins: Vec<_> = worker.origins.iter().map(ToString::to_string).collect();
    assert_eq!(origins, ["http://127.0.0.1:8080", "https://h:443"]);
    assert_eq!(worker.logs_token.unwrap().expose(), "from-file");
}

/// Values and tables that are refused, and a part of the message.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], &'a str);

fn fails(cases: &[Case<'_>]) {
    for (values, workers, words) in cases {
        let error = read(values, workers).unwrap_err();
        assert!(error.contains(words), "{values:?} {workers:?}: {error}");
        assert!(error.contains("protocol.arco."), "{error}");
        for secret in ["hunter2", "from-env", "from-file", "two words"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
}

#[test]
fn invalid_workers_are_refused_with_their_place_and_no_secret() {
    let cases: &[Case<'_>] = &[
        (&[], &[("a/b", "url = 'http://h'")], "a name without `/`"),
        (&[], &[("a", "")], "expected a `url`"),
        (
            &[],
            &[("a", "url = 'http://h'")],
            "others could read secrets and task tokens on the way to http://h:80",
        ),
        (
            &[],
            &[("a", "url = 'http://u:hunter2@h'")],
            "it has a user name or password",
        ),
        (
            &[],
            &[(
                "a",
                "url = 'https://h'\nsecret_file = 'secret'\nsecret_env = 'SECRET'",
            )],
            "conflicts with",
        ),
        (
            &[],
            &[("a", "url = 'https://h'\nsecret_file = 'nowhere'")],
            "cannot read nowhere",
        ),
        (
            &[],
            &[("a", "url = 'https://h'\nsecret_file = 'blank'")],
            "printable ASCII without blanks",
        ),
        (
            &[],
            &[("a", "url = 'https://h'\nsecret_env = 'NOTHING'")],
            "the variable NOTHING is not set or empty",
        ),
        (
            &[],
            &[("a", "url = 'https://h'\nmax_in_flight = 0")],
            "expected 1–4096",
        ),
    ];
    fails(cases);
}

#[test]
fn invalid_values_are_refused_with_their_place_and_no_secret() {
    let listen = ("worker.listen", "127.0.0.1:0");
    let secret = ("worker.secret_env", "SECRET");
    let cases: &[Case<'_>] = &[
        (&[("token_key_file", "short")], &[], "at least 32 bytes"),
        (
            &[
                ("token_key_file", "key"),
                ("previous_token_key_file", "short"),
            ],
            &[],
            "at least 32 bytes",
        ),
        (
            &[("token_key_file", "key"), ("token_key_env", "KEY")],
            &[],
            "conflicts with",
        ),
        (&[("previous_token_key_file", "key")], &[], "no current key"),
        (
            &[("heartbeat_timeout_ms", "59999")],
            &[],
            "at least twice the interval",
        ),
        (
            &[("heartbeat_interval_ms", "45001")],
            &[],
            "at least twice the interval",
        ),
        (&[("token_ttl_seconds", "7201")], &[], "expected 60–7200"),
        (&[("public_url", "http://h?x")], &[], "it has a query"),
        (&[listen], &[], "missing the secret"),
        (
            &[listen, secret],
            &[],
            "missing the origins that callbacks may go to",
        ),
        (
            &[listen, secret, ("worker.callback_origins", "http://h/path")],
            &[],
            "without a path",
        ),
        (
            &[
                listen,
                secret,
                ("worker.callback_origins", "http://api@evil"),
            ],
            &[],
            "user name",
        ),
        (
            &[("worker.listen", "0.0.0.0:9000")],
            &[],
            "is not a loopback address",
        ),
    ];
    fails(cases);
}

/// A control plane sends it again.
#[test]
fn only_a_dispatch_without_room_is_a_usual_refusal() {
    assert_eq!(WORKER_ROLE.usual_refusals, ["E_BUSY"]);
}
