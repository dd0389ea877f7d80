//! Which source wins, and which values are rejected, as tables.

use host_wire_kit::Configured as _;
use host_wire_kit::section::TestSources;

use super::*;

const LISTEN: &str = "protocol.rrq.listen";

/// Reads the section from flags, variables and the section's part of a file.
fn read(
    flags: &[(&str, &str)],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<RrqConfig, ConfigError> {
    let file = file.replace("[runners.", "[protocol.rrq.runners.");
    let sources = TestSources {
        flags,
        environment,
        file: &format!("[protocol.rrq]\n{file}"),
        ..TestSources::default()
    };
    sources.read(&crate::RRQ, RrqConfig::read)
}

#[test]
fn without_a_word_nothing_listens() {
    let expected = RrqConfig {
        listen: None,
        rules: Rules::default(),
        default_runner: None,
        origins: Vec::new(),
        pools: BTreeMap::new(),
    };
    assert_eq!(read(&[], &[], "").unwrap(), expected);
}

#[test]
fn every_key_can_be_set_in_the_file() {
    let file = "
listen = \"[::1]:0\"
deadline_margin_ms = 40
idle_seconds = 60
cancels_for_all = true
default_runner = \"there\"
[runners.python]
cmd = [\"python3\", \"-m\", \"runner\"]
pool_size = 2
max_in_flight = 3
tcp_port = 7801
cwd = \"/srv\"
env = { A = \"b\" }
inherit_env = [\"C\"]
dialect = \"documented\"
[runners.there]
external = \"localhost:7900\"
";
    let config = read(&[], &[("C", "d")], file).unwrap();
    let python = PoolConfig {
        name: "python".parse().unwrap(),
        source: Source::Launched(Launch {
            command: ["python3", "-m", "runner"].map(str::to_owned).into(),
            pool_size: 2,
            tcp_port: Some(7801),
            cwd: Some(PathBuf::from("/srv")),
            env: [("A", "b"), ("C", "d")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }),
        in_flight_max: 3,
        dialect: Dialect::Documented,
    };
    let there = PoolConfig {
        name: "there".parse().unwrap(),
        source: Source::External("127.0.0.1:7900".parse().unwrap()),
        in_flight_max: 10,
        dialect: Dialect::Current,
    };
    let pools = [python, there].map(|pool| (pool.name.clone(), pool));
    let expected = RrqConfig {
        listen: Some("[::1]:0".parse().unwrap()),
        rules: Rules {
            margin_ms_min: 40,
            idle_ms: 60_000,
            cancels_for_all: true,
        },
        default_runner: Some((
            "host.toml:7: protocol.rrq.default_runner".to_owned(),
            "there".to_owned(),
        )),
        pools: pools.into(),
        origins: [("python", 8), ("there", 17)]
            .map(|(name, line)| {
                let origin = format!("host.toml:{line}: protocol.rrq.runners.{name}");
                (origin, name.to_owned())
            })
            .into(),
    };
    assert_eq!(config, expected);
    assert_eq!(
        (Keys::SETTINGS.len(), Runner::SETTINGS.len()),
        (5, 9),
        "all of them are above"
    );
    assert!(config.has_executor("there") && !config.has_executor("missing"));
}

#[test]
fn the_first_source_that_has_an_address_wins() {
    let flag: &[_] = &[(LISTEN, "localhost:1")];
    let env: &[_] = &[("HOST_RRQ_LISTEN", "127.0.0.1:2")];
    let file = "listen = \"127.0.0.1:3\"";
    #[rustfmt::skip]
    let table: &[(&[_], &[_], &str, Option<u16>)] = &[
        (flag,               env,                       file, Some(1)),
        (&[],                env,                       file, Some(2)),
        (&[],                &[("HOST_RRQ_LISTEN", "")], file, Some(3)),
        (&[(LISTEN, "off")], env,                       file, None),
    ];
    for (flags, environment, file, port) in table {
        let config = read(flags, environment, file).unwrap();
        let address = config.listen;
        assert_eq!(address.map(|address| address.port()), *port);
        assert!(address.is_none_or(|address| address.ip().is_loopback()));
    }
}

#[test]
fn addresses_that_are_not_taken_are_named_with_their_place() {
    #[rustfmt::skip]
    let table = [
        ("0.0.0.0:0",       "not a loopback address"),
        ("[::]:0",          "not a loopback address"),
        ("192.0.2.1:7701",  "not a loopback address"),
        ("7701",            "127.0.0.1:7701"),
        ("localhost",       "127.0.0.1:7701"),
        ("localhost:99999", "127.0.0.1:7701"),
        ("example.org:1",   "127.0.0.1:7701"),
    ];
    for (text, says) in table {
        let message = read(&[(LISTEN, text)], &[], "").unwrap_err().to_string();
        assert!(
            message.contains(LISTEN) && message.contains(says),
            "{message}"
        );
    }
    for text in ["19", "251", "many"] {
        let env = [("HOST_RRQ_DEADLINE_MARGIN_MS", text)];
        let message = read(&[], &env, "").unwrap_err().to_string();
        assert!(message.contains("expected 20–250"), "{message}");
    }
}

#[test]
fn runners_inherit_what_everybody_needs_and_what_is_named() {
    let file = "[runners.p]\ncmd = [\"x\"]\n\
        env = { TZ = \"UTC\" }\ninherit_env = [\"TOKEN\", \"ABSENT\"]";
    let environment = [
        ("PATH", "/bin"),
        ("TZ", "CET"),
        ("TOKEN", "t"),
        ("REDIS_URL", "redis://:hush@127.0.0.1"),
        ("OTHER", "o"),
    ];
    let config = read(&[], &environment, file).unwrap();
    let pool = config.pools.values().next().unwrap();
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
        ("[runners.p]\npool_size = 2",              "runners.p: ",        "missing `cmd` or `external`"),
        ("[runners.p]\ncmd = \"x\"",                "p.cmd: ",            "an array of strings, the program first, got a string"),
        ("[runners.p]\ncmd = []",                   "p.cmd: ",            "the program first"),
        ("[runners.p]\ncmd = [1]",                  "p.cmd[1]: ",         "expected a string, got an integer"),
        ("[runners.p]\ncmd = [\"x\"]\npool_size = 0", "p.pool_size: ",    "expected 1–64"),
        ("[runners.p]\ncmd = [\"x\"]\nmax_in_flight = 65", "p.max_in_flight: ", "expected 1–64"),
        ("[runners.p]\ncmd = [\"x\"]\npool_size = 2\ntcp_port = 65535", "p.tcp_port: ", "–65534"),
        ("[runners.p]\ncmd = [\"x\"]\nenv = { A = 1 }", "p.env.A: ",      "expected a string, got an integer"),
        ("[runners.p]\ncmd = [\"x\"]\ninherit_env = \"A\"", "p.inherit_env: ", "expected an array, got a string"),
        ("[runners.p]\ncmd = [\"x\"]\ndialect = \"9\"", "p.dialect: ",    "`documented`"),
        ("[runners.p]\ncmd = [\"x\"]\nexternal = \"127.0.0.1:1\"", "p.cmd: ", "mutually exclusive"),
        ("[runners.p]\nexternal = \"127.0.0.1:1\"\ncwd = \"/\"", "p.cwd: ", "requires `cmd`"),
        ("[runners.p]\nexternal = \"10.0.0.1:1\"",  "p.external: ",       "not a loopback address"),
        ("[runners.p]\nexternal = \"x\"",           "p.external: ",       "an address with a port"),
        ("[runners.\"a/b\"]\ncmd = [\"x\"]",        "runners.a/b: ",      "without `/`"),
    ];
    for (text, place, says) in table {
        let message = read(&[], &[], text).unwrap_err().to_string();
        assert!(
            message.contains(place) && message.contains(says),
            "{text}: {message}"
        );
    }
}
