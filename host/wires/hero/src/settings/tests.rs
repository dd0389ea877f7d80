//! The values of the section, the origin of a bad value, and that no error shows a secret.

use host_wire_kit::section::TestSources;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn with(
    flags: Pairs<'_>,
    environment: Pairs<'_>,
    file: Pairs<'_>,
) -> Result<Option<HeroConfig>, ConfigError> {
    let line = |(key, text): &(&str, &str)| match text.parse::<u64>() {
        Ok(number) => format!("{key} = {number}\n"),
        Err(_) if *text == "true" => format!("{key} = true\n"),
        Err(_) => format!("{key} = '{text}'\n"),
    };
    let sources = TestSources {
        flags,
        environment,
        file: &format!(
            "[protocol.hero]\n{}",
            file.iter().map(line).collect::<String>()
        ),
        ..TestSources::default()
    };
    sources.read(&crate::HERO, HeroConfig::read)
}

fn resolve(environment: Pairs<'_>, file: Pairs<'_>) -> Result<Option<HeroConfig>, ConfigError> {
    with(&[], environment, file)
}

/// Returns the configuration from a file with these keys of the section.
pub(crate) fn parsed(file: Pairs<'_>) -> HeroConfig {
    resolve(&[], file).unwrap().unwrap()
}

#[test]
fn every_key_of_the_file_counts() {
    let file = [
        ("url", "redis://127.0.0.1:6379/0"),
        ("url_file", ""),
        ("worker_ids", "osis,reports"),
        ("concurrency", "5"),
        ("dispatch_in_flight", "6"),
        ("pop_side", "left"),
        ("log_dir", "/var/log/hero"),
        ("requeue_stale", "fo,*"),
        ("allow_plaintext", "true"),
        // Other tests cover the errors of these keys.
        ("ca_file", ""),
        ("cert_file", ""),
        ("key_file", ""),
    ];
    let expected = HeroConfig {
        url: RedisUrl::parse("redis://127.0.0.1:6379/0").unwrap(),
        worker_ids: vec!["osis".to_owned(), "reports".to_owned()],
        concurrency: 5,
        dispatch_in_flight: 6,
        pop_side: PopSide::Left,
        log_dir: Some(PathBuf::from("/var/log/hero")),
        requeue_stale: Workers {
            all: true,
            ids: ["fo", "*"].map(str::to_owned).into(),
        },
    };
    assert_eq!(resolve(&[], &file), Ok(Some(expected)));
    assert_eq!(Keys::SETTINGS.len(), file.len(), "all of them are above");
}

#[test]
fn jobs_are_taken_from_the_redis_that_is_named() {
    assert_eq!(resolve(&[], &[]), Ok(None));
    let file = [("url", "rediss://me:hush@cache/2"), ("worker_ids", "a,b.c")];
    let hero = resolve(&[("HOST_HERO_CONCURRENCY", "8")], &file)
        .unwrap()
        .unwrap();
    assert!(!format!("{hero:?}").contains("hush"));
    assert_eq!(hero.url.to_string(), "rediss://cache:6379/2");
    assert_eq!(
        (hero.worker_ids, hero.concurrency, hero.pop_side),
        (vec!["a".to_owned(), "b.c".to_owned()], 8, PopSide::Right)
    );
    assert_eq!(hero.dispatch_in_flight, 64);
    let env = [
        ("HOST_HERO_URL", "redis://127.0.0.1"),
        ("HOST_HERO_WORKER_IDS", "x, y"),
        ("HOST_HERO_POP_SIDE", "left"),
        ("HOST_HERO_LOG_DIR", "logs"),
    ];
    let hero = resolve(&env, &file).unwrap().unwrap();
    let logs = std::env::current_dir().unwrap().join("logs");
    assert_eq!(hero.log_dir, Some(logs), "jobs may name absolute paths");
    assert_eq!(
        (hero.worker_ids, hero.concurrency, hero.pop_side),
        (vec!["x".to_owned(), "y".to_owned()], 64, PopSide::Left)
    );
}

#[test]
fn a_password_goes_to_no_other_machine_in_plain_text() {
    let table = [
        ("redis://me:hush@cache", false),
        ("redis://:hush@10.0.0.7:7000/1", false),
        ("redis://:hush@localhost.evil.example", false),
        ("redis-sentinel://:hush@127.0.0.1,b/main", false),
        ("redis-sentinel://:hush@127.0.0.1,localhost/main", true),
        ("redis://:hush@127.0.0.1", true),
        ("redis://:hush@[::1]:7000", true),
        ("redis://:hush@localhost", true),
        ("rediss://:hush@cache", true),
        ("redis+unix:///run/redis.sock?pass=hush", true),
        ("redis://cache", true),
    ];
    for (url, is_taken) in table {
        let env = [("HOST_HERO_URL", url)];
        match resolve(&env, &[]) {
            Ok(_) => assert!(is_taken, "{url}"),
            Err(error) => {
                let message = error.to_string();
                assert!(
                    !is_taken && message.contains("allow_plaintext"),
                    "{url}: {message}"
                );
                assert!(!message.contains("hush"), "{message}");
            }
        }
        let allowed = [env[0], ("HOST_HERO_ALLOW_PLAINTEXT", "true")];
        assert!(resolve(&allowed, &[]).is_ok(), "{url}");
    }
}

#[test]
fn options_of_a_worker_come_before_variables() {
    let flags = [("protocol.hero.worker_ids", "w1,w2")];
    let env = [
        ("HOST_HERO_URL", "redis://x"),
        ("HOST_HERO_WORKER_IDS", "x"),
    ];
    let hero = with(&flags, &env, &[]).unwrap().unwrap();
    assert_eq!(hero.worker_ids, ["w1", "w2"]);
    let message = with(&flags, &[], &[]).unwrap_err().to_string();
    assert!(message.contains("worker_ids") && message.contains("no Redis"));
    assert!(WORKER_ROLE.flags.iter().all(|flag| !flag.is_required));
}

#[test]
fn jobs_go_to_workers_where_a_redis_is_named() {
    let configured = |environment: Pairs<'_>| {
        let sources = TestSources {
            environment,
            ..TestSources::default()
        };
        let read = sources.read(&crate::HERO, crate::configure);
        read.unwrap().wire
    };
    let hero = configured(&[("HOST_HERO_URL", "redis://cache")]);
    assert!(hero.has_executor("hero-a") && hero.has_executor("hero-b.c"));
    assert!(!hero.has_executor("hero-"), "a worker has an id");
    assert!(!hero.has_executor("python"));
    assert!(!configured(&[]).has_executor("hero-a"));
    assert!(configured(&[]).checks().is_empty());
}

#[test]
fn what_is_not_taken_is_refused_without_its_secrets() {
    let ids = ("HOST_HERO_WORKER_IDS", "a");
    #[rustfmt::skip]
    let table: &[(Pairs<'_>, &str)] = &[
        (&[ids],                                                         "no Redis"),
        (&[ids, ("HOST_HERO_URL", "rediss://:hush@x/#insecure")],         "always checked"),
        (&[ids, ("HOST_HERO_URL", "http://:hush@x")],                    "write redis://"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a,\tb\tc")], "worker ids"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a,a")],  "each worker id once"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a b")],  "worker ids"),
        (&[ids, ("HOST_HERO_URL", "redis://x"), ("HOST_HERO_POP_SIDE", "up")], "`left`"),
        (&[ids, ("HOST_HERO_URL", "redis://x"), ("HOST_HERO_CONCURRENCY", "0")], "expected 1–1024"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_DISPATCH_IN_FLIGHT", "5000")], "expected 1–4096"),
        (&[("HOST_HERO_URL", "rediss://x"), ("HOST_HERO_KEY_FILE", "k")],        "requires protocol.hero.cert_file"),
        (&[("HOST_HERO_URL", "rediss://x"), ("HOST_HERO_CERT_FILE", "c")],       "requires protocol.hero.key_file"),
    ];
    for (environment, wanted) in table {
        let message = resolve(environment, &[]).unwrap_err().to_string();
        assert!(
            message.contains(wanted) && !message.contains("hush"),
            "{message}"
        );
    }
}

#[test]
fn the_address_may_be_in_a_file() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("url");
    let path = file.to_str().unwrap();
    std::fs::write(path, "rediss://:hush@cache/3\n").unwrap();
    let flags = [("protocol.hero.url_file", path)];
    let hero = with(&flags, &[], &[]).unwrap().unwrap();
    assert_eq!(hero.url.to_string(), "rediss://cache:6379/3");
    let both = with(&flags, &[("HOST_HERO_URL", "redis://:hush@x")], &[]);
    std::fs::write(path, "http://:hush@cache").unwrap();
    let wrong = with(&flags, &[], &[]);
    std::fs::remove_file(path).unwrap();
    let missing = with(&flags, &[], &[]);
    for (message, expected) in [
        (
            both,
            "HOST_HERO_URL: conflicts with --protocol.hero.url_file",
        ),
        (wrong, "url_file: invalid Redis address"),
        (missing, "url_file: cannot read"),
    ] {
        let message = message.unwrap_err().to_string();
        assert!(
            message.contains(expected) && !message.contains("hush"),
            "{message}"
        );
    }
}

#[test]
fn certificates_are_read_when_the_configuration_is() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ca.pem");
    let load = |scheme: &str| {
        let url = format!("{scheme}://:hush@cache");
        let file = [("url", url.as_str()), ("ca_file", path.to_str().unwrap())];
        resolve(&[], &file).unwrap_err().to_string()
    };
    let missing = load("rediss");
    assert!(missing.contains("protocol.hero.ca_file: cannot read") && missing.contains("ca.pem"));
    std::fs::write(&path, "no certificate").unwrap();
    let none = load("rediss");
    assert!(
        none.contains("no readable certificates") && !none.contains("hush"),
        "{none}"
    );
    let plain = load("redis");
    assert!(plain.contains("write rediss://"), "{plain}");
}
