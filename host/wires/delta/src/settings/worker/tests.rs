//! The options of a worker and the orchestrators of a host, where a bad value stands, and that no error shows
//! a token.

use std::collections::BTreeMap;
use std::io;

use host_testing::Log;
use host_wire_kit::section::{Sources, Stated, Tables};

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(flags: Pairs<'_>, table: &str) -> Result<WorkerSettings, String> {
    let flags = flags.iter();
    let flags = flags.map(|(key, text)| {
        let key = match *key {
            "allow_plaintext" => ALLOW_PLAINTEXT.key.to_owned(),
            key if IGNORED.iter().any(|it| it.key == key) => key.to_owned(),
            key => format!("protocol.delta.worker.{key}"),
        };
        let stated = Stated::by_flag(&key, *text);
        (key, stated)
    });
    let environment = [
        ("TOKEN", "secret"),
        ("TWO", "secret-a\nsecret-b"),
        ("ODD", "secret b"),
    ];
    let environment = environment.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let mut tables = Tables::default();
    if !table.is_empty() {
        let table = NamedTable::new("up".to_owned(), toml::from_str(table).unwrap());
        tables.insert("up".parse().unwrap(), table);
    }
    let sources = Sources {
        flags: &flags.collect(),
        environment: &environment.into_iter().collect(),
        values: &BTreeMap::new(),
        tables: &BTreeMap::from([(ORCHESTRATORS.to_owned(), tables)]),
        read: &|_| Err(io::ErrorKind::NotFound.into()),
    };
    let section = WorkerSettings::read(&Section::new(sources));
    section.map_err(|error| error.to_string())
}

#[test]
fn every_option_and_key_counts() {
    assert_eq!(read(&[], ""), Ok(WorkerSettings::default()));
    let flags = [
        ("orchestrator", "http://127.0.0.1:7700"),
        ("runner_id", "r1"),
        ("token_env", "TOKEN"),
        ("capabilities", "os:linux,gpu"),
        ("concurrency", "3"),
        ("lease", "l.json"),
        ("log", "l.log"),
    ];
    let section = read(&flags, "").unwrap();
    let peer = section.peer.clone().unwrap();
    assert_eq!(peer.url.to_string(), "http://127.0.0.1:7700");
    assert_eq!((peer.runner_id.as_str(), peer.concurrency), ("r1", 3));
    assert_eq!(peer.token, Some(Secret("secret".to_owned())));
    assert_eq!(peer.capabilities.len(), 2);
    let file = section.file.clone().unwrap();
    assert_eq!(
        (file.lease.to_str(), file.log.unwrap().to_str()),
        (Some("l.json"), Some("l.log"))
    );
    assert!(!format!("{section:?}").contains("secret"));
    let table =
        "url = \"https://h:1/x\"\nrunner_id = \"r\"\ntoken_env = \"TOKEN\"\ncapabilities = [\"a\"]";
    let section = read(&[], table).unwrap();
    assert_eq!(section.peers[0].concurrency, 1);
    assert_eq!(section.peers[0].url.to_string(), "https://h:1/x");
    assert_eq!(section.peer, None);
}

/// Its orchestrator may pass them, and must not take them for done.
#[test]
fn what_the_runner_does_not_do_is_logged() {
    let (log, _guard) = Log::of_this_thread();
    let flags = IGNORED.map(|it| (it.key, "x"));
    assert_eq!(read(&flags, ""), Ok(WorkerSettings::default()));
    for key in ["s3-bucket", "s3-prefix", "s3-region", "cache-dir"] {
        let message = log.lines_with(&format!("{key} is ignored"));
        assert_eq!(message.len(), 1, "{key}: {message:?}");
    }
}

#[test]
fn nothing_goes_to_another_machine_in_plain_text() {
    let allowed = ("allow_plaintext", "true");
    for (url, is_exposed) in [
        ("http://127.0.0.1:7700", false),
        ("http://[::1]:7700", false),
        ("http://localhost:7700", false),
        ("https://ci.example", false),
        ("http://ci.example", true),
        ("http://192.0.2.1:7700", true),
        ("http://0.0.0.0:7700", true),
    ] {
        let flags = [("orchestrator", url), ("runner_id", "r")];
        let table = format!("url = \"{url}\"\nrunner_id = \"r\"\ntoken_env = \"TOKEN\"");
        for (flags, table) in [(&flags[..], ""), (&[], table.as_str())] {
            let refused = read(flags, table).err();
            assert_eq!(refused.is_some(), is_exposed, "{url}: {refused:?}");
            let message = refused.unwrap_or_default();
            assert!(
                !is_exposed || message.contains("allow_plaintext"),
                "{message}"
            );
            let with = [flags, &[allowed]].concat();
            read(&with, table).unwrap();
        }
    }
}

#[test]
fn a_bad_value_is_named_and_no_token_is_shown() {
    let url = ("orchestrator", "http://127.0.0.1:1");
    let id = ("runner_id", "r");
    for (flags, table, expected) in [
        (&[url][..], "", "the runner requires a name"),
        (
            &[("orchestrator", "ftp://h"), id],
            "",
            "it is not an http:// or https:// URL",
        ),
        (
            &[("orchestrator", "http://u:secret@h"), id],
            "",
            "user name or password",
        ),
        (&[url, ("runner_id", "a b")], "", "invalid value `a b`"),
        (
            &[url, id, ("token_env", "NONE")],
            "",
            "the variable NONE is not set",
        ),
        (&[url, id, ("token_env", "TWO")], "", "expected one token"),
        (&[url, id, ("token_env", "ODD")], "", "token 1 is not"),
        (
            &[url, id, ("capabilities", "a b")],
            "",
            "invalid value `a b`",
        ),
        (&[url, id, ("concurrency", "0")], "", "expected 1–256"),
        (&[], "url = \"http://h\"", "missing token"),
        (
            &[],
            "token_env = \"TOKEN\"",
            "up.url: the orchestrator up requires it",
        ),
        (
            &[],
            "token_env = \"TOKEN\"\nurl = \"https://h\"",
            "up.runner_id: the orchestrator up requires it",
        ),
        (
            &[],
            "token_env = \"TOKEN\"\nurl = \"ftp://h\"\nrunner_id = \"r\"",
            "up.url: invalid orchestrator URL",
        ),
        (
            &[],
            "token_env = \"TOKEN\"\nurl = \"https://h\"\nrunner_id = \"r\"\nconcurrency = 257",
            "up.concurrency",
        ),
    ] {
        let error = read(flags, table).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
