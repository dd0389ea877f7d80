//! Which source wins, and what is refused, as tables.

use std::fmt::Write as _;
use std::path::Path;

use host_protocols::hero::{PopSide, RedisUrl};
use host_protocols::rrq::{Dialect, Launch, RunnerConfig, Source};

use super::*;
use crate::published;

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
    let none = (BTreeMap::new(), Environment::new(), File::default());
    let config = Config::resolve(&none.0, none.1, &none.2, small).unwrap();
    assert_eq!((config.cells, config.memory_mib), (2, 256));
}

#[test]
fn every_key_can_be_set_in_the_file() {
    let file = "
data = \"/d\"
handlers = \"/h\"
http.listen = \"[::1]:0\"
shutdown.grace_seconds = 1.5
logs.max_mib = 7
[cells]
count = 3
slots = 4
memory_mib = 512
[protocol.rrq]
listen = \"off\"
deadline_margin_ms = 40
default_runner = \"there\"
[protocol.hero]
url = \"redis://127.0.0.1:6379/0\"
worker_ids = [\"osis\", \"reports\"]
concurrency = 5
dispatch_in_flight = 6
pop_side = \"left\"
log_dir = \"/var/log/hero\"
ca_file = \"/ca.pem\"
cert_file = \"/me.pem\"
key_file = \"/me.key\"

[protocol.rrq.runners.python]
cmd = [\"python3\", \"-m\", \"runner\"]
pool_size = 2
max_in_flight = 3
tcp_port = 7801
cwd = \"/srv\"
env = { A = \"b\" }
dialect = \"documented\"
[protocol.rrq.runners.there]
external = \"localhost:7900\"
[queues.\"a.b/c\"]
runner = \"python\"
";
    let config = resolve(&[], &[], file).unwrap();
    let expected = Config {
        data: PathBuf::from("/d"),
        handlers: Some(PathBuf::from("/h")),
        listen: Some("[::1]:0".parse().unwrap()),
        rrq_listen: None,
        rrq_margin_ms: 40,
        runners: runners(),
        hero: Some(HeroConfig {
            url: RedisUrl::parse("redis://127.0.0.1:6379/0").unwrap(),
            worker_ids: vec!["osis".to_owned(), "reports".to_owned()],
            concurrency: 5,
            dispatch_in_flight: 6,
            pop_side: PopSide::Left,
            log_dir: Some(PathBuf::from("/var/log/hero")),
            certificates: CertificateFiles {
                authorities: Some(PathBuf::from("/ca.pem")),
                client: Some((PathBuf::from("/me.pem"), PathBuf::from("/me.key"))),
            },
        }),
        cells: 3,
        slots: 4,
        memory_mib: 512,
        drain_ms: 1_500,
        log_bytes_max: 7 << 20,
        environment: Environment::new(),
    };
    assert_eq!(config, expected);
    assert_eq!(SETTINGS.len(), 20, "all of them are above");
    assert_eq!(runners::SETTINGS.len(), 10, "and of these too");
}

fn runners() -> RunnersConfig {
    let python = RunnerConfig {
        name: "python".to_owned(),
        source: Source::Launched(Launch {
            command: ["python3", "-m", "runner"].map(str::to_owned).into(),
            pool_size: 2,
            tcp_port: Some(7801),
            cwd: Some(PathBuf::from("/srv")),
            env: [("A".to_owned(), "b".to_owned())].into(),
        }),
        in_flight_max: 3,
        dialect: Dialect::Documented,
    };
    let there = RunnerConfig {
        name: "there".to_owned(),
        source: Source::External("127.0.0.1:7900".parse().unwrap()),
        in_flight_max: 10,
        dialect: Dialect::Current,
    };
    let name = |text: &str| text.parse().unwrap();
    RunnersConfig {
        pools: [(name("python"), python), (name("there"), there)].into(),
        queues: [(name("a.b/c"), name("python"))].into(),
        default: Some(name("there")),
    }
}

#[test]
fn runners_inherit_what_everybody_needs_and_what_is_named() {
    let file = "[protocol.rrq.runners.p]\ncmd = [\"x\"]\n\
        env = { TZ = \"UTC\" }\ninherit_env = [\"TOKEN\", \"ABSENT\"]";
    let environment = [
        ("PATH", "/bin"),
        ("TZ", "CET"),
        ("TOKEN", "t"),
        ("HOST_HERO_URL", "redis://:hush@127.0.0.1"),
        ("OTHER", "o"),
    ];
    let config = resolve(&[], &environment, file).unwrap();
    let pool = config.runners.pools.values().next().unwrap();
    let Source::Launched(launch) = &pool.source else {
        panic!("{pool:?}")
    };
    let env: Vec<(&str, &str)> = launch
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(env, [("PATH", "/bin"), ("TOKEN", "t"), ("TZ", "UTC")]);
}

#[test]
fn runners_that_make_no_sense_are_refused_with_their_place() {
    #[rustfmt::skip]
    let table = [
        ("[protocol.rrq.runners.p]\npool_size = 2",              "runners.p: ",        "a `cmd` or is `external`"),
        ("[protocol.rrq.runners.p]\ncmd = \"x\"",              "p.cmd: ",            "an array of strings"),
        ("[protocol.rrq.runners.p]\ncmd = []",                   "p.cmd: ",            "the program first"),
        ("[protocol.rrq.runners.p]\ncmd = [1]",                  "p.cmd: ",            "an array of strings"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\npool_size = 0", "p.pool_size: ", "from 1 to 64"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\nmax_in_flight = 65", "p.max_in_flight: ", "from 1 to 64"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\npool_size = 2\ntcp_port = 65535", "p.tcp_port: ", "to 65534"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\nenv = { A = 1 }", "p.env: ",   "a table of strings"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\ninherit_env = \"A\"", "p.inherit_env: ", "an array of names"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\ndialect = \"9\"", "p.dialect: ", "`documented`"),
        ("[protocol.rrq.runners.p]\ncmd = [\"x\"]\nexternal = \"127.0.0.1:1\"", "p.cmd: ", "exclude each other"),
        ("[protocol.rrq.runners.p]\nexternal = \"127.0.0.1:1\"\ncwd = \"/\"", "p.cwd: ", "goes with `cmd`"),
        ("[protocol.rrq.runners.p]\nexternal = \"10.0.0.1:1\"",  "p.external: ",       "not a loopback address"),
        ("[protocol.rrq.runners.p]\nexternal = \"x\"",          "p.external: ",       "an address with a port"),
        ("[protocol.rrq.runners.\"a b\"]\ncmd = [\"x\"]",      "a b",                "a name is"),
        ("[protocol.rrq.runners.\"a/b\"]\ncmd = [\"x\"]",      "a/b",                "without `/`"),
        ("[protocol.rrq.runners.hero-a]\ncmd = [\"x\"]",         "runners.hero-a: ",   "those are Hero's"),
        ("protocol.rrq.default_runner = \"hero-a\"",            "default_runner: ",   "with protocol.hero.url"),
        ("protocol.rrq.default_runner = \"p\"",                 "default_runner: ",   "no runner is named `p`"),
        ("[queues.q]\nrunner = \"p\"",                         "queues.q.runner: ",  "no runner is named `p`"),
    ];
    for (text, place, says) in table {
        let said = resolve(&[], &[], text).unwrap_err().to_string();
        assert!(
            said.contains(place) && said.contains(says),
            "{text}: {said}"
        );
    }
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
        ("[queues.q]\nruner = 1", "queues.q.runer", "queues.NAME.runner"),
        ("[protocol.rrq.runners.p]\npool_sizes = 1", "protocol.rrq.runners.p.pool_sizes", "protocol.rrq.runners.NAME.pool_size"),
        ("[protocol.rrq.runner.p]\ncmd = 1", "protocol.rrq.runner.p.cmd", "protocol.rrq.runners.NAME.cmd"),
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

#[test]
fn jobs_of_hero_are_taken_from_the_redis_that_is_named() {
    assert_eq!(resolve(&[], &[], "").unwrap().hero, None);
    let file = "[protocol.hero]\nurl = 'redis://me:hush@cache/2'\nworker_ids = ['a', 'b.c']";
    let config = resolve(&[], &[("HOST_HERO_CONCURRENCY", "8")], file).unwrap();
    assert!(!format!("{:?}", config.hero).contains("hush"));
    let hero = config.hero.unwrap();
    assert_eq!(hero.url.to_string(), "redis://cache:6379/2");
    assert_eq!(
        (hero.worker_ids, hero.concurrency, hero.pop_side),
        (vec!["a".to_owned(), "b.c".to_owned()], 8, PopSide::Right)
    );
    let env = [
        ("HOST_HERO_URL", "redis://127.0.0.1"),
        ("HOST_HERO_WORKER_IDS", "x, y"),
        ("HOST_HERO_POP_SIDE", "left"),
        ("HOST_HERO_LOG_DIR", "logs"),
    ];
    let hero = resolve(&[], &env, file).unwrap().hero.unwrap();
    let logs = std::env::current_dir().unwrap().join("logs");
    assert_eq!(hero.log_dir, Some(logs), "jobs may name absolute paths");
    assert_eq!(
        (hero.worker_ids, hero.concurrency, hero.pop_side),
        (vec!["x".to_owned(), "y".to_owned()], 64, PopSide::Left)
    );
}

#[test]
fn jobs_go_to_workers_of_hero_where_its_redis_is_named() {
    let file = "[protocol.hero]\nurl = 'redis://cache'\n[protocol.rrq]\ndefault_runner = 'hero-a'\n\
                [queues.night]\nrunner = 'hero-b.c'";
    let config = resolve(&[], &[], file).unwrap();
    let name = |name: &str| name.parse().unwrap();
    assert_eq!(config.runners.default, Some(name("hero-a")));
    assert_eq!(
        config.runners.queues,
        [(name("night"), name("hero-b.c"))].into()
    );
    assert_eq!(config.hero.unwrap().dispatch_in_flight, 64);
    let nobody = file.replace("hero-a", "hero-");
    assert!(resolve(&[], &[], &nobody).is_err(), "a worker has an id");
}

#[test]
fn what_hero_does_not_take_is_refused_without_its_secrets() {
    let ids = ("HOST_HERO_WORKER_IDS", "a");
    #[rustfmt::skip]
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[ids],                                                         "no Redis"),
        (&[ids, ("HOST_HERO_URL", "rediss://:hush@x/#insecure")],         "always checked"),
        (&[ids, ("HOST_HERO_URL", "http://:hush@x")],                    "write redis://"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a,,b")], "worker ids"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a,a")],  "twice"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_WORKER_IDS", "a b")],  "worker ids"),
        (&[ids, ("HOST_HERO_URL", "redis://x"), ("HOST_HERO_POP_SIDE", "up")], "`left`"),
        (&[ids, ("HOST_HERO_URL", "redis://x"), ("HOST_HERO_CONCURRENCY", "0")], "1 to 1024"),
        (&[("HOST_HERO_URL", "redis://x"), ("HOST_HERO_DISPATCH_IN_FLIGHT", "5000")], "1 to 4096"),
        (&[("HOST_HERO_URL", "rediss://x"), ("HOST_HERO_KEY_FILE", "k")],        "cert_file goes with it"),
        (&[("HOST_HERO_URL", "rediss://x"), ("HOST_HERO_CERT_FILE", "c")],       "key_file goes with it"),
    ];
    for (environment, wanted) in table {
        let said = resolve(&[], environment, "").unwrap_err().to_string();
        assert!(said.contains(wanted) && !said.contains("hush"), "{said}");
    }
}

#[test]
fn certificates_are_read_when_the_configuration_is() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ca.pem");
    let load = |scheme: &str| {
        let file = format!(
            "[protocol.hero]\nurl = '{scheme}://:hush@cache'\nca_file = '{}'",
            path.display()
        );
        let mut hero = resolve(&[], &[], &file).unwrap().hero.unwrap();
        hero.read_certificates().unwrap_err().to_string()
    };
    let missing = load("rediss");
    assert!(missing.contains("protocol.hero.ca_file: cannot read") && missing.contains("ca.pem"));
    std::fs::write(&path, "no certificate").unwrap();
    let none = load("rediss");
    assert!(
        none.contains("no certificates") && !none.contains("hush"),
        "{none}"
    );
    let plain = load("redis");
    assert!(plain.contains("write rediss://"), "{plain}");
}

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

[protocol.hero]
url = \"redis://127.0.0.1:6379/0\"
worker_ids = [\"osis\", \"reports\"]

[protocol.rrq.runners.python]
cmd = [\"rrq-runner\", \"--settings\", \"jobs.settings\"]
pool_size = 2

[queues.mail]
runner = \"python\"

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

const NAMED: &str = "
These stand in the file only; `NAME` is one of your own. A job goes to the runner that its handler
names (`python#send_email`; `hero-osis#report` is a worker of Hero, which needs no table), else to that of its queue, else to the component that has its handler,
else to the default runner.

| key | default | what it is |
|---|---|---|
";

const OUTRO: &str = "
`HOST_LOG` says how much the host writes about itself to standard error: `error`, `warn`, `info`
(the default), `debug` or `trace`, for all or for some parts (`info,host_server::cells=debug`).
";

#[test]
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
    doc.push_str(NAMED);
    for setting in runners::SETTINGS {
        let runners::NamedSetting {
            key,
            default,
            about,
        } = setting;
        writeln!(doc, "| `{key}` | {default} | {about} |").unwrap();
    }
    doc.push_str(OUTRO);
    published::check("config.md", &doc);
    let example = INTRO.split("```").nth(1).unwrap();
    let config = resolve(&[], &[], example.strip_prefix("toml").unwrap()).unwrap();
    assert_eq!((config.cells, config.memory_mib), (4, 1_024));
}
