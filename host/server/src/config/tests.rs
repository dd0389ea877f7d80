//! Which source wins, and which values are rejected, as tables.

use host_cells::sandbox::broker::SecretSource;
use host_http::door::Door;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::*;
use crate::published;
use host_cells::pool::Isolation;
use host_cells::sandbox::roots::ReadRoots;
use host_core::policy::Retention;

const MACHINE: Machine = Machine {
    cores: 8,
    memory_mib: 16_384,
};

pub(super) fn resolve(
    flags: &[(&'static str, &str)],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<Config, ConfigError> {
    let flags = flags
        .iter()
        .map(|(key, text)| ((*key).to_owned(), Stated::by_flag(key, *text)));
    let environment = environment
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::resolve(
        &flags.collect(),
        environment.collect(),
        file::parse(Path::new("host.toml"), file)?,
        MACHINE,
    )
}

/// Returns the address of `http.listen`.
fn address(config: &Config) -> Option<SocketAddr> {
    config.http.main.as_ref().map(|main| main.address)
}

#[test]
fn the_first_source_that_has_a_value_wins() {
    let flag = [("cells.slots", "1")];
    let env = [("HOST_CELLS_SLOTS", "2")];
    let file = "[cells]\nslots = 3";
    #[rustfmt::skip]
    let table: &[(&[_], &[_], &str, u32)] = &[
        (&flag, &env,                       file, 1),
        (&[],   &env,                       file, 2),
        (&[],   &[("HOST_CELLS_SLOTS", "")], file, 3),
        (&[],   &[],                        file, 3),
        (&[],   &[],                        "",   256),
        (&[],   &[], "[cells]\nisolation = \"component\"", 64),
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
    assert_eq!(address(&config), Some("127.0.0.1:7700".parse().unwrap()));
    assert_eq!((config.drain_ms, config.log_bytes_max), (30_000, 1 << 30));
    let small = Machine {
        cores: 1,
        memory_mib: 100,
    };
    let (flags, environment) = (BTreeMap::new(), Environment::new());
    let config = Config::resolve(&flags, environment, Document::default(), small).unwrap();
    assert_eq!((config.cells, config.memory_mib), (2, 256));
}

fn check_access(config: &Config) {
    let auth = AuthConfig {
        mode: AuthMode::Tokens,
        admin_token_file: Some(PathBuf::from("/t")),
        two_people_for_grants: true,
    };
    assert_eq!(config.auth, auth);
    let audit = AuditConfig {
        export_file: Some(PathBuf::from("/e")),
        retention_ms: 2 * 24 * 3_600_000,
    };
    assert_eq!(config.audit, audit);
    assert!(config.trust.requires_signatures());
}

/// Checks the section `http` of the file in the test below.
fn check_http(config: &Config) {
    assert_eq!(address(config), Some("[::1]:0".parse().unwrap()));
    assert_eq!(config.http.allowed_hosts, ["jobs.example", "10.0.0.7"]);
    let main = config.http.main.as_ref().unwrap();
    assert!(!main.serves.contains(&Door::Pages));
    assert_eq!(config.http.socket, Some(PathBuf::from("/s")));
}

/// What requests may reach with every key.
fn every_reach() -> Reach {
    let origins = ["https://a.example", "https://*.b.example:8443"];
    Reach {
        origins: origins.map(|it| it.parse().unwrap()).to_vec(),
        endpoints: vec!["db.internal:5432".parse().unwrap()],
        networks: ["10.2.0.0/16", "10.1.0.0/16"]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        nameservers: vec!["10.0.0.53:53".parse().unwrap()],
        authorities: Some(PathBuf::from("/ca.pem")),
        secrets: BTreeMap::from([
            (
                "one".to_owned(),
                SecretSource::File(PathBuf::from("/run/one")),
            ),
            ("two".to_owned(), SecretSource::Value("x".to_owned())),
        ]),
        visible: BTreeSet::from(["two".to_owned()]),
    }
}

#[test]
fn the_host_of_a_public_url_is_allowed_at_every_listener() {
    let file = "http.allowed_hosts = [\"proxy.example\"]\n\
                [protocol.arco]\npublic_url = \"https://jobs.example:8443\"";
    let config = resolve(&[], &[], file).unwrap();
    assert_eq!(config.hosts(), ["proxy.example", "jobs.example"]);
}

#[test]
fn every_key_can_be_set_in_the_file() {
    let file = "
data = \"/d\"
handlers = \"/h\"
http.listen = \"[::1]:0\"
http.dashboard = false
http.allowed_hosts = [\"jobs.example\", \"10.0.0.7\"]
http.socket = \"/s\"
http.tls_cert_file = \"/c.pem\"
http.tls_key_file = \"/c.key\"
http.client_ca_file = \"/ca.pem\"
http.client_names = [\"*.ci.example\", \"spiffe://example/**\"]
http.trusted_proxies = [\"10.2.0.0/16\"]
shutdown.grace_seconds = 1.5
logs.max_mib = 7
artifacts.max_mib = 8
artifacts.token_max_mib = 9
audit.export_file = \"/e\"
audit.retention_days = 2
deploy.trusted_keys = [\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]
[cells]
count = 3
slots = 4
memory_mib = 512
isolation = \"component\"
user = 4000000000
allow_weak = true
[auth]
mode = \"tokens\"
admin_token_file = \"/t\"
two_people_for_grants = true
[limits]
queues = 2
waiting_jobs = 3
components = 4
attempts = 6
cache_mib = 5
[grants]
read_roots = [\"/srv/a\", \"/srv/b\"]
env = [\"LANG\", \"UNSET\"]
http = [\"https://a.example\", \"https://*.b.example:8443\"]
tcp = [\"db.internal:5432\"]
networks = [\"10.2.0.0/16\"]
http_networks = [\"10.1.0.0/16\"]
secrets = [\"two\"]
[egress]
nameservers = [\"10.0.0.53:53\"]
ca_file = \"/ca.pem\"
[secrets.one]
file = \"/run/one\"
[secrets.two]
env = \"OTHER\"
[store]
url = \"postgres://u:p@db/jobs\"
allow_unsafe = true
poll = true
direct_url = \"postgres://u:p@direct/jobs\"
";
    let config = resolve(&[], &[("LANG", "C"), ("OTHER", "x")], file).unwrap();
    let confined = &config.confinement;
    assert_eq!((confined.user, confined.allow_weak), (4_000_000_000, true));
    let roots = ["/srv/a", "/srv/b"].map(PathBuf::from).to_vec();
    assert_eq!(confined.read_roots, ReadRoots::new(roots));
    let granted = Environment::from([("LANG".to_owned(), "C".to_owned())]);
    assert_eq!(config.grantable, granted);
    assert_eq!(config.reach, every_reach());
    assert_eq!(config.data, PathBuf::from("/d"));
    assert_eq!(config.handlers, Some(PathBuf::from("/h")));
    check_http(&config);
    assert_eq!((config.drain_ms, config.log_bytes_max), (1_500, 7 << 20));
    assert_eq!(config.artifact_bytes_max, 8 << 20);
    assert_eq!(config.token_upload_bytes_max, 9 << 20);
    assert_eq!((config.cells, config.slots, config.memory_mib), (3, 4, 512));
    assert_eq!(config.isolation, Isolation::Component);
    check_access(&config);
    let capacity = Capacity {
        queues_max: 2,
        jobs_max: 3,
        components_max: 4,
        attempts_max: 6,
        deliveries: Retention::default(),
    };
    assert_eq!(config.capacity, capacity);
    assert_eq!(config.cache_bytes_max, 5 << 20);
    let store = config.store.unwrap();
    assert_eq!(store.target.to_string(), "postgres://db:5432/jobs");
    assert!(store.allow_unsafe && !store.listen);
    let hints = store.hints.map(|target| target.to_string());
    assert_eq!(hints.as_deref(), Some("postgres://direct:5432/jobs"));
    let own = OWN_SETTINGS
        .iter()
        .copied()
        .flatten()
        .filter(|setting| !setting.is_in_table())
        .count();
    assert_eq!(own, 46, "all of them but store.url_file are above");
}

#[test]
fn jobs_are_routed_to_executors_of_any_wire() {
    let file = "[protocol.hero]\nurl = 'redis://cache'\n[protocol.rrq]\ndefault_runner = 'hero-a'\n\
                [protocol.rrq.runners.python]\ncmd = ['x']\n\
                [queues.\"a.b/c\"]\nrunner = 'python'\n[queues.night]\nrunner = 'hero-b.c'";
    let name = |name: &str| name.parse::<Name>().unwrap();
    let config = resolve(&[], &[], file).unwrap();
    assert_eq!(config.routes.default, Some(name("hero-a")));
    let queues = [
        (name("a.b/c"), name("python")),
        (name("night"), name("hero-b.c")),
    ];
    assert_eq!(config.routes.queues, queues.into());
    let unnamed = file.replace("hero-a", "hero-");
    assert!(resolve(&[], &[], &unnamed).is_err(), "a worker has an id");
}

#[test]
fn jobs_of_a_queue_are_kept_as_it_says() {
    let file = "[queues.a]\nretention_seconds = 3600\n\
                [queues.b]\nretention_seconds = 1.5\nretention_discarded_seconds = 7776000";
    let config = resolve(&[], &[], file).unwrap();
    let of = |queue: &str| config.retentions.choose(&queue.parse().unwrap(), None);
    let choice = |ms, discarded_ms| RetentionChoice { ms, discarded_ms };
    assert_eq!(of("a"), choice(Some(3_600_000), None));
    assert_eq!(of("b"), choice(Some(1_500), Some(7_776_000_000)));
    assert_eq!(of("c"), RetentionChoice::default());
    for (key, value) in [
        ("retention_seconds", "0"),
        ("retention_seconds", "'7d'"),
        ("retention_discarded_seconds", "1e9"),
    ] {
        let message = resolve(&[], &[], &format!("[queues.q]\n{key} = {value}"))
            .unwrap_err()
            .to_string();
        let place = format!("queues.q.{key}");
        assert!(message.contains(&place), "{message}");
        assert!(message.contains("expected 1–31536000 seconds"), "{message}");
    }
}

#[test]
fn routes_that_lead_nowhere_and_names_of_two_wires_are_refused_with_their_place() {
    #[rustfmt::skip]
    let table = [
        ("protocol.rrq.default_runner = \"hero-a\"", "default_runner: ",  "no runner is named `hero-a`"),
        ("protocol.rrq.default_runner = \"p\"",      "default_runner: ",  "no runner is named `p`"),
        ("[queues.q]\nrunner = \"p\"",              "queues.q.runner: ", "no runner is named `p`"),
        ("[queues.\"a b\"]\nrunner = \"p\"",      "queues.a b: ",      "expected a name"),
        ("[protocol.hero]\nurl = 'redis://x'\n[protocol.rrq.runners.hero-a]\ncmd = [\"x\"]",
                                                       "runners.hero-a",    "choose another name"),
    ];
    for (text, place, says) in table {
        let message = resolve(&[], &[], text).unwrap_err().to_string();
        assert!(
            message.contains(place) && message.contains(says),
            "{text}: {message}"
        );
    }
}

#[test]
fn an_unknown_key_is_named_with_a_similar_known_one() {
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
        let line = text.lines().count();
        let expected = format!("host.toml:{line}: unknown key `{key}`; did you mean `{nearest}`?");
        assert_eq!(resolve(&[], &[], text).unwrap_err().to_string(), expected);
    }
    let far = resolve(&[], &[], "[protocol.arco]\nnope = 1").unwrap_err();
    assert!(
        far.to_string()
            .ends_with("unknown key `protocol.arco.nope`"),
        "{far}"
    );
    for (text, key) in [
        ("color = 1", "color"),
        ("[color]", "color"),
        ("[protocol.bead]", "protocol.bead"),
    ] {
        let message = resolve(&[], &[], text).unwrap_err().to_string();
        assert_eq!(message, format!("host.toml:1: unknown key `{key}`"));
    }
    let large = "[cells]\ncount = 99999999999999999999";
    let message = resolve(&[], &[], large).unwrap_err().to_string();
    assert!(
        message.ends_with("line 2: a number is too large"),
        "{message}"
    );
}

#[test]
fn what_is_not_taken_is_named_with_its_place() {
    #[rustfmt::skip]
    let table = [
        ("cells.count", "0",             "expected 1–256"),
        ("cells.count", "many",          "expected 1–256"),
        ("cells.slots", "-1",            "expected 1–1024"),
        ("http.listen", "7700",          "127.0.0.1:7700"),
        ("http.listen", "localhost:1",   "127.0.0.1:7700"),
        ("http.allowed_hosts", "a.example,*.b.example", "without scheme, port and `*`"),
        ("http.allowed_hosts", "https://a.example", "without scheme, port and `*`"),
        ("http.allowed_hosts", "a.example:443", "without scheme, port and `*`"),
        ("cells.user", "0",              "expected 1–"),
        ("cells.allow_weak", "yes",      "true or false"),
        ("cells.isolation",  "handler",  "`shared` or `component`"),
        ("grants.read_roots", "/a,b",    "absolute paths"),
        ("grants.env", "LANG, HOST_DATA", "own variables"),
        ("grants.http", "example.com",   "like https://api.example.com"),
        ("grants.http", "https://a.b/c", "like https://api.example.com"),
        ("grants.http_networks", "10.1", "like 10.1.0.0/16"),
        ("grants.networks", "10.1", "like 10.1.0.0/16"),
        ("grants.tcp", "db.internal", "like db.internal:5432"),
        ("grants.secrets", "missing", "and missing has none"),
        ("egress.nameservers", "10.0.0.53", "addresses with ports"),
        ("shutdown.grace_seconds", "-1", "expected 0–31536000 seconds"),
        ("shutdown.grace_seconds", "NaN", "expected 0–31536000 seconds"),
    ];
    for (key, text, says) in table {
        let message = resolve(&[(key, text)], &[], "").unwrap_err().to_string();
        assert!(message.contains(key) && message.contains(says), "{message}");
    }
    let message = resolve(&[], &[("HOST_CELLS_COUNT", "x")], "")
        .unwrap_err()
        .to_string();
    assert_eq!(message, "HOST_CELLS_COUNT: expected 1–256");
    for (table, says) in [
        ("", "either `file` or `env`"),
        ("file = \"/a\"\nenv = \"A\"", "either `file` or `env`"),
        ("env = \"UNSET\"", "the variable UNSET is not set"),
        ("file = 7", "expected a string"),
        ("value = \"x\"", "unknown key"),
    ] {
        let file = format!("[secrets.key]\n{table}\n");
        let message = resolve(&[], &[], &file).unwrap_err().to_string();
        assert!(
            message.contains("secrets.key") && message.contains(says),
            "{message}"
        );
    }
    let message = resolve(&[], &[], "[cells").unwrap_err().to_string();
    assert!(message.contains("host.toml: line 1: "), "{message}");
    let off = resolve(&[("http.listen", "off")], &[], "").unwrap();
    assert_eq!(address(&off), None);
}

#[test]
fn a_value_of_another_type_is_refused_and_not_shown() {
    #[rustfmt::skip]
    let table = [
        ("data = true",                      "data: expected a string, got a boolean"),
        ("data = ['s3cret']",                "data: expected a string, got an array"),
        ("data = 7",                         "data: expected a string, got an integer"),
        ("data = { x = 's3cret' }",           "data: expected a string, got a table"),
        ("cells.count = 's3cret'",           "cells.count: expected 1–256, got a string"),
        ("cells.count = [1]",                "cells.count: expected 1–256, got an array"),
        ("cells.count = 1.5",                "cells.count: invalid value `1.5`: expected 1–256"),
        ("cells.count = 0",                  "cells.count: invalid value `0`: expected 1–256"),
        ("cells.allow_weak = 's3cret'",      "cells.allow_weak: expected true or false, got a string"),
        ("shutdown.grace_seconds = 's3cret'", "shutdown.grace_seconds: expected 0–31536000 seconds, got a string"),
        ("grants.env = 1",                   "grants.env: expected an array of strings, got an integer"),
        ("grants.env = [1]",                 "grants.env[1]: expected a string, got an integer"),
        ("[queues.q]\nrunner = 53",          "queues.q.runner: expected a string, got an integer"),
        ("[queues.q]\nretention_seconds = 's3cret'",
            "queues.q.retention_seconds: expected 1–31536000 seconds, got a string"),
        // Hero is off without an address.
        ("protocol.hero.worker_ids = true",  "protocol.hero.worker_ids: expected an array of strings, got a boolean"),
    ];
    for (text, expected) in table {
        let message = resolve(&[], &[], text).unwrap_err().to_string();
        let line = text.lines().count();
        assert_eq!(message, format!("host.toml:{line}: {expected}"), "{text}");
    }
    let syntax = resolve(&[], &[], "token = s3cret").unwrap_err().to_string();
    assert!(!syntax.contains("s3cret"), "{syntax}");
}

#[test]
fn keys_of_wires_that_are_off_are_checked_too() {
    let keys = WIRES
        .iter()
        .flat_map(|wire| wire.keys())
        .filter(|setting| !setting.is_in_table());
    let numbers: Vec<_> = keys
        .filter_map(|setting| {
            let values = setting.values();
            let (_, most) = values.split_once('–')?;
            Some((setting, most.parse::<u64>().ok()?))
        })
        .collect();
    assert!(numbers.len() > 10);
    for (setting, most) in numbers {
        let (key, env) = (setting.key, setting.env());
        let most = most + 1;
        for message in [
            resolve(&[], &[], &format!("{key} = {most}")),
            resolve(&[], &[(&env, &most.to_string())], ""),
        ] {
            let message = message.unwrap_err().to_string();
            assert!(message.contains("expected "), "{key}: {message}");
        }
    }
}

const INTRO: &str = "\
# Configuration

`host serve` takes each value from the first of these that has it: its option on the command line,
its variable of the environment, the file that `--config` or `HOST_CONFIG` names, its default. An
unknown key is an error; a similar known key is suggested. All paths are relative to the folder in which
the host is started, also those in the file, so write them from `/` where a supervisor starts it.
Generated from the keys of the host and of its wires; `cargo xtask test docs --update` updates it.

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

| key | variable | values | default | what it is |
|---|---|---|---|---|
";

const NAMED: &str = "
These are keys of the file alone; you choose `NAME`. A job goes to the runner that its handler names
(`python#send_email`; `hero-osis#report` is a worker of Hero, which needs no table), else to the
runner of its queue, else to the component that has its handler, else to the default runner. Where several
hosts share a store, `queues` and the default runner of the host that accepts a job hold for it.

| key | default | what it is |
|---|---|---|
";

const OUTRO: &str = "
`HOST_LOG` says how much the host writes about itself to standard error: `error`, `warn`, `info`
(the default), `debug` or `trace`, for all or for some parts (`info,host_cells=debug`).
";

#[test]
fn the_published_keys_are_those_of_the_code() {
    let mut doc = INTRO.to_owned();
    let rows = |is_in_table| settings().filter(move |it| it.is_in_table() == is_in_table);
    for setting in rows(false) {
        let Setting { key, about, .. } = setting;
        let (env, values, default) = (setting.env(), setting.values(), (setting.default)());
        writeln!(
            doc,
            "| `{key}` | `{env}` | {values} | {default} | {about} |"
        )
        .unwrap();
    }
    doc.push_str(NAMED);
    for setting in rows(true) {
        let Setting { key, about, .. } = setting;
        writeln!(doc, "| `{key}` | {} | {about} |", (setting.default)()).unwrap();
    }
    doc.push_str(OUTRO);
    published::check("config.md", &doc);
    let example = INTRO.split("```").nth(1).unwrap();
    let config = resolve(&[], &[], example.strip_prefix("toml").unwrap()).unwrap();
    assert_eq!((config.cells, config.memory_mib), (4, 1_024));
}

/// What a panic could print.
#[test]
fn debug_output_shows_no_secret() {
    const SECRET: &str = "pl4nted-s3cret";
    let url = format!("postgres://u:{SECRET}@127.0.0.1/x");
    let values = BTreeMap::from([("store.url".to_owned(), Stated::by_flag("store", &url))]);
    let flags = Flags {
        values,
        ..Flags::default()
    };
    let environment = [("HOST_STORE_URL", url.as_str()), ("TOKEN", SECRET)];
    let config = resolve(&[], &environment, "").unwrap();
    for shown in [format!("{flags:?}"), format!("{config:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_file_without_an_end_is_refused() {
    let refused = super::file::read(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(
        refused.to_string().contains("larger than 4 MiB"),
        "{refused}"
    );
}
