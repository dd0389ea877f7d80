//! The options of a worker and the orchestrators of a host, where a bad value stands, and that no error shows
//! a token.

use host_wire_kit::section::TestSources;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(flags: Pairs<'_>, table: &str) -> Result<WorkerSettings, String> {
    let flags: Vec<(String, &str)> = flags
        .iter()
        .map(|(key, text)| match *key {
            "allow_plaintext" => ("protocol.delta.allow_plaintext".to_owned(), *text),
            key => (format!("protocol.delta.worker.{key}"), *text),
        })
        .collect();
    let flags: Vec<(&str, &str)> = flags.iter().map(|(key, text)| (&**key, *text)).collect();
    let table = match table {
        "" => String::new(),
        keys => format!("[protocol.delta.orchestrators.up]\n{keys}"),
    };
    let sources = TestSources {
        flags: &flags,
        environment: &[
            ("TOKEN", "secret"),
            ("TWO", "secret-a\nsecret-b"),
            ("ODD", "secret b"),
        ],
        file: &table,
        ..TestSources::default()
    };
    let section = sources.read(&crate::DELTA, |section| {
        WorkerSettings::read(section, section.table("protocol.delta")?)
    });
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
            "up.url: invalid URL: ",
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
