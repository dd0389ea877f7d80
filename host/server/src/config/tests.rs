//! Which source wins, and what is refused, as tables.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

const MACHINE: Machine = Machine {
    cores: 8,
    memory_mib: 16_384,
};

fn resolve(
    flags: &[(&'static str, &str)],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<Config, ConfigError> {
    let flags = flags.iter().map(|(key, text)| (*key, (*text).to_owned()));
    let environment = environment
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::resolve(
        &flags.collect(),
        environment.collect(),
        &file::parse(Path::new("host.toml"), file)?,
        MACHINE,
    )
}

#[test]
fn the_first_source_that_has_a_value_wins() {
    let flag = [("cells.slots", "1")];
    let env = [("HOST_CELL_SLOTS", "2")];
    let file = "[cells]\nslots = 3";
    #[rustfmt::skip]
    let table: &[(&[_], &[_], &str, u32)] = &[
        (&flag, &env,                       file, 1),
        (&[],   &env,                       file, 2),
        (&[],   &[("HOST_CELL_SLOTS", "")], file, 3),
        (&[],   &[],                        file, 3),
        (&[],   &[],                        "",   64),
        (&flag, &[],                        "",   1),
    ];
    for (flags, environment, file, slots) in table {
        let config = resolve(flags, environment, file).unwrap();
        assert_eq!(config.slots, *slots, "{flags:?} {environment:?} {file}");
    }
}

#[test]
fn defaults_fit_the_machine() {
    let config = resolve(&[], &[], "").unwrap();
    assert_eq!((config.cells, config.memory_mib), (8, 512));
    assert_eq!(config.listen, Some("127.0.0.1:7700".parse().unwrap()));
    assert_eq!(config.rrq_listen, Some("127.0.0.1:7701".parse().unwrap()));
    assert_eq!((config.drain_ms, config.log_bytes_max), (30_000, 1 << 30));
    let small = Machine {
        cores: 1,
        memory_mib: 100,
    };
    let none = (BTreeMap::new(), Environment::new(), BTreeMap::new());
    let config = Config::resolve(&none.0, none.1, &none.2, small).unwrap();
    assert_eq!((config.cells, config.memory_mib), (2, 256));
}

#[test]
fn every_key_can_be_set_in_the_file() {
    let file = "
data = \"/d\"
handlers = \"/h\"
http.listen = \"[::1]:0\"
protocol.rrq.listen = \"off\"
shutdown.grace_seconds = 1.5
logs.max_mib = 7
[cells]
count = 3
slots = 4
memory_mib = 512
";
    let config = resolve(&[], &[], file).unwrap();
    let expected = Config {
        data: PathBuf::from("/d"),
        handlers: Some(PathBuf::from("/h")),
        listen: Some("[::1]:0".parse().unwrap()),
        rrq_listen: None,
        cells: 3,
        slots: 4,
        memory_mib: 512,
        drain_ms: 1_500,
        log_bytes_max: 7 << 20,
        environment: Environment::new(),
    };
    assert_eq!(config, expected);
    assert_eq!(SETTINGS.len(), 9, "all of them are above");
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    #[rustfmt::skip]
    let table = [
        ("dta = 1",                "dta",            "data"),
        ("listen = \"x\"",         "listen",         "http.listen"),
        ("[http]\nlisten_on = 1",  "http.listen_on", "http.listen"),
        ("[cell]\nslots = 1",      "cell.slots",     "cells.slots"),
        ("memory_mb = 1",          "memory_mb",      "cells.memory_mib"),
    ];
    for (text, key, nearest) in table {
        let expected = ConfigError::UnknownKey {
            path: PathBuf::from("host.toml"),
            key: key.to_owned(),
            nearest,
        };
        assert_eq!(resolve(&[], &[], text), Err(expected));
    }
}

#[test]
fn what_is_not_taken_is_named_with_its_place() {
    #[rustfmt::skip]
    let table = [
        ("cells.count", "0",             "a number from 1 to 256"),
        ("cells.count", "many",          "a number from 1 to 256"),
        ("cells.slots", "-1",            "a number from 1 to 1024"),
        ("http.listen", "7700",          "127.0.0.1:7700"),
        ("http.listen", "localhost:1",   "127.0.0.1:7700"),
        ("http.listen", "0.0.0.0:7700",  "not a loopback address"),
        ("http.listen", "[::]:7700",     "not a loopback address"),
        ("http.listen", "192.0.2.1:80",  "not a loopback address"),
        ("shutdown.grace_seconds", "-1", "a number of seconds"),
        ("shutdown.grace_seconds", "NaN", "a number of seconds"),
    ];
    for (key, text, says) in table {
        let said = resolve(&[(key, text)], &[], "").unwrap_err().to_string();
        assert!(said.contains(key) && said.contains(says), "{said}");
    }
    let said = resolve(&[], &[("HOST_CELLS", "x")], "")
        .unwrap_err()
        .to_string();
    assert!(said.starts_with("HOST_CELLS: `x`"), "{said}");
    let said = resolve(&[], &[], "[cells]\ncount = [1]")
        .unwrap_err()
        .to_string();
    assert!(said.starts_with("host.toml: cells.count: `[1]`"), "{said}");
    let said = resolve(&[], &[], "[cells").unwrap_err().to_string();
    assert!(
        said.contains("host.toml") && said.contains("line 1"),
        "{said}"
    );
    assert_eq!(
        resolve(&[("http.listen", "off")], &[], "").unwrap().listen,
        None
    );
}

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");

const INTRO: &str = "\
# Configuration

`host serve` takes each value from the first of these that has it: its option on the command line,
its variable of the environment, the file that `--config` or `HOST_CONFIG` names, its default. A key
that there is not is an error that names the nearest one. Generated from `host/server/src/config.rs`;
`UPDATE_DOCS=1 cargo test -p host-server` writes it anew.

```toml
# host.toml
data = \"/var/lib/host\"
handlers = \"/srv/handlers\"

[http]
listen = \"127.0.0.1:7700\"

[protocol.rrq]
listen = \"127.0.0.1:7701\"

[cells]
count = 4
slots = 64
memory_mib = 1024

[shutdown]
grace_seconds = 30

[logs]
max_mib = 1024
```

| key | variable | default | what it is |
|---|---|---|---|
";

const OUTRO: &str = "
`HOST_LOG` says how much the host writes about itself to standard error: `error`, `warn`, `info`
(the default), `debug` or `trace`, for all or for some parts (`info,host_server::cells=debug`).
";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "goldens are written when a variable asks for it"
)]
fn the_published_keys_are_those_of_the_code() {
    let mut doc = INTRO.to_owned();
    for setting in SETTINGS {
        let Setting {
            key,
            env,
            default,
            about,
        } = setting;
        writeln!(doc, "| `{key}` | `{env}` | {default} | {about} |").unwrap();
    }
    doc.push_str(OUTRO);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOC, &doc).unwrap();
    }
    let published = std::fs::read_to_string(DOC).unwrap_or_default();
    assert!(
        published == doc,
        "docs/config.md is out of date: UPDATE_DOCS=1 cargo test -p host-server"
    );
    let example = INTRO.split("```").nth(1).unwrap();
    let config = resolve(&[], &[], example.strip_prefix("toml").unwrap()).unwrap();
    assert_eq!((config.cells, config.memory_mib), (4, 1_024));
}
