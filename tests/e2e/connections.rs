//! Connections of handlers to databases and other servers: what a manifest grants, signed in by the broker.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use host_tests::certificates::{Authority, VALID};
use host_tests::database_server::DatabaseServer;
use host_tests::names::Names;
use host_tests::reflector::{SECRET, SOON};
use host_tests::{Client, Options, Redis, Server, eventually, guests, projects};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The name of all servers, as grants have it.
pub(crate) const NAME: &str = "db.internal";

/// A host whose handlers may be granted connections to `servers`, all of which are on this machine.
pub(crate) struct Fixture {
    _data: TempDir,
    pub(crate) names: Names,
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Fixture {
    pub(crate) fn start(authority: &Authority, servers: &[String]) -> Self {
        let (data, names) = (TempDir::new().unwrap(), Names::start());
        names.set(NAME, &[&["127.0.0.1"]]);
        let file = data.path().join("host.toml");
        let quoted: Vec<String> = servers.iter().map(|it| format!("\"{it}\"")).collect();
        let text = format!(
            "[grants]\ntcp = [{}]\nnetworks = [\"127.0.0.1/32\"]\n\
             [egress]\nnameservers = [\"{}\"]\nca_file = \"{}\"\n\
             [secrets.db]\nenv = \"DB_PASSWORD\"\n",
            quoted.join(", "),
            names.address(),
            authority.text("ca.pem"),
        );
        fs::write(&file, text).unwrap();
        let mut options = Options::new(&data.path().join("data"));
        options.args = vec!["--config".to_owned(), file.display().to_string()];
        options.env = vec![("DB_PASSWORD".to_owned(), SECRET.to_owned())];
        let server = Server::start(&options);
        let client = server.client();
        Self {
            _data: data,
            names,
            server,
            client,
        }
    }

    /// Deploys the handlers with these grants.
    pub(crate) fn deploy(&self, manifest: &str) {
        let hostile = fs::read(guests::component("hostile")).unwrap();
        let answer = self
            .client
            .deploy_accepted("hostile", &hostile, Some(manifest))
            .unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Runs a handler that completes, and returns its result.
    pub(crate) fn run(&self, handler: &str, params: &Value) -> Value {
        let job = self
            .client
            .run(&json!({"handler": handler, "params": params, "max_attempts": 1}));
        assert_eq!(job["state"], "completed", "{job}");
        job["result"].clone()
    }

    /// Runs `queries` in a connection of their own.
    pub(crate) fn queries(&self, to: &str, queries: &[&str]) -> Value {
        self.run(
            "queries",
            &json!({"to": to, "queries": queries, "end": "bye"}),
        )
    }
}

pub(crate) fn authority() -> Authority {
    let authority = Authority::default();
    authority.sign("server", &[NAME, "localhost"], VALID);
    authority
}

pub(crate) fn port(endpoint: &str) -> &str {
    let last = endpoint.rsplit(':').next().unwrap();
    last.split('/').next().unwrap()
}

/// A server with the roles and the table that the tests use.
pub(crate) fn shop(authority: &Authority) -> DatabaseServer {
    let database = DatabaseServer::start(authority);
    let roles = format!(
        "CREATE ROLE report LOGIN PASSWORD '{SECRET}'; CREATE ROLE old;\n\
         SET password_encryption = 'md5'; CREATE ROLE elder LOGIN PASSWORD '{SECRET}' IN ROLE old;\n\
         SET password_encryption = 'scram-sha-256'; CREATE ROLE plain LOGIN PASSWORD '{SECRET}';\n\
         CREATE TABLE prices (name text, price numeric); GRANT ALL ON prices TO report;"
    );
    database.run(&roles).unwrap();
    database
}

#[test]
fn a_handler_queries_a_database_whose_password_it_never_sees() {
    let authority = authority();
    let database = shop(&authority);
    let to = format!("{NAME}:{}", port(&database.endpoint()));
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    let grant = |more: &str| {
        format!(
            "[defaults]\ntimeout_seconds = 20\n[[handlers.queries.tcp]]\nto = \"{to}\"\ntls = \"postgres\"\n\
             login = {{ protocol = \"postgres\", user = \"report\", password = \"{{secret:db}}\", database = \"postgres\" }}\n{more}"
        )
    };
    host.deploy(&grant("pool = 1\nmax_connections = 1\n"));
    let who = ["SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"];
    assert_eq!(host.queries(&to, &who), json!([["report", "t"]]));
    // What one attempt leaves behind, the next one on the same connection does not find.
    let left = [
        "SELECT pg_backend_pid()",
        "CREATE TEMP TABLE leftover (a int)",
        "PREPARE leftover AS SELECT 1",
        "LISTEN leftover",
        "SELECT pg_advisory_lock(7)",
        "SET search_path = nowhere",
    ];
    let first = host.queries(&to, &left);
    let found = host.queries(
        &to,
        &[
            "SELECT pg_backend_pid()",
            "SELECT count(*) FROM pg_class WHERE relname = 'leftover'",
            "SELECT count(*) FROM pg_prepared_statements",
            "SELECT count(*) FROM pg_listening_channels()",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
            "SHOW search_path",
        ],
    );
    assert_eq!(found[0], first[0], "the connection is kept");
    assert_eq!(
        found.as_array().unwrap()[1..],
        json!([["0"], ["0"], ["0"], ["0"], ["\"$user\", public"]])
            .as_array()
            .unwrap()[..]
    );
    // A transaction that is left open ends with its attempt, and its connection.
    let open = [
        "BEGIN",
        "INSERT INTO prices VALUES ('a', 1)",
        "SELECT pg_backend_pid()",
    ];
    let open = host.run(
        "queries",
        &json!({"to": to, "queries": open, "end": "close"}),
    );
    let after = host.queries(
        &to,
        &["SELECT count(*) FROM prices", "SELECT pg_backend_pid()"],
    );
    assert_eq!(after[0], json!(["0"]));
    assert_ne!(after[1], open[2]);
    // A cancelled job's query ends in the database too.
    let hanging = host
        .client
        .enqueue(&json!({"handler": "queries", "max_attempts": 1, "params": {
            "to": to, "queries": ["SELECT pg_sleep(3600)"], "end": "hang",
        }}));
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
    let at_work = |count: &str| (database.run(sleeping)? == count).then_some(());
    eventually("the query runs", SOON, || at_work("1"));
    let path = format!("/api/v1/jobs/{hanging}/cancel");
    assert_eq!(host.client.post(&path, &json!({})).unwrap().status, 200);
    eventually("the query ends", SOON, || at_work("0"));
    assert_eq!(
        host.queries(&to, &who)[0][0],
        "report",
        "its place is free again"
    );
    // The attempt's connections are shown.
    let job = host
        .client
        .run(&json!({"handler": "queries", "params": {"to": to, "queries": [], "end": "bye"}}));
    let attempts = host.client.items(&format!(
        "/api/v1/jobs/{}/attempts",
        job["id"].as_str().unwrap()
    ));
    let shown = &attempts[0]["requests"]["first"][0];
    assert_eq!(shown["origin"], format!("tcp://{to}"), "{attempts:?}");
    drop(host.server);
}

#[test]
fn a_login_is_refused_in_words_and_never_in_the_clear() {
    let authority = authority();
    let database = shop(&authority);
    let to = format!("{NAME}:{}", port(&database.endpoint()));
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    for (user, tls, more, result) in [
        ("elder", "none", "", Err("asks for an MD5 hash")),
        ("elder", "none", ", md5 = true", Ok("elder")),
        ("plain", "none", "", Err("asks for the password itself")),
        ("report", "none", "", Err("no pg_hba.conf entry")),
        (
            "stranger",
            "postgres",
            "",
            Err("password authentication failed"),
        ),
        ("report", "direct", "", Err("no TLS with")),
    ] {
        host.deploy(&format!(
            "[[handlers.queries.tcp]]\nto = \"{to}\"\ntls = \"{tls}\"\n\
             login = {{ protocol = \"postgres\", user = \"{user}\", password = \"{{secret:db}}\", database = \"postgres\"{more} }}\n"
        ));
        let params = json!({"to": to, "queries": ["SELECT current_user"], "end": "bye"});
        let job = host
            .client
            .run(&json!({"handler": "queries", "params": params, "max_attempts": 1}));
        match result {
            Ok(user) => assert_eq!(job["result"], json!([[user]]), "{job}"),
            Err(reason) => {
                assert_eq!(job["state"], "discarded", "{user}: {job}");
                let path = format!("/api/v1/jobs/{}/logs", job["id"].as_str().unwrap());
                let log = json!(host.client.items(&path)).to_string();
                assert!(log.contains(reason), "{user}: {log}");
            }
        }
    }
}

#[test]
fn a_handler_uses_a_redis_that_it_cannot_sign_in_to() {
    let redis = Redis::start();
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("requirepass").arg(SECRET);
    set.exec(&mut redis.connection()).unwrap();
    let to = format!("{NAME}:{}", port(&redis.url()));
    let authority = authority();
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    host.deploy(&format!(
        "[[handlers.talk.tcp]]\nto = \"{to}\"\npool = 1\nmax_connections = 1\n\
         login = {{ protocol = \"redis\", password = \"{{secret:db}}\", database = \"3\" }}\n"
    ));
    let talk =
        |send: &[&str]| host.run("talk", &json!({"to": to, "send": send}))["answers"].clone();
    let first = talk(&["SET a 1\r\n", "CLIENT ID\r\n", "MULTI\r\n", "SET a 2\r\n"]);
    assert_eq!(
        (&first[0], &first[2]),
        (&json!("+OK\r\n"), &json!("+OK\r\n"))
    );
    let next = talk(&["GET a\r\n", "CLIENT ID\r\n", "CLIENT INFO\r\n"]);
    assert_eq!(next[0], "$1\r\n1\r\n");
    assert_eq!(next[1], first[1], "the connection is kept");
    assert!(next[2].as_str().unwrap().contains(" db=3 "), "{next}");
    for command in [
        "AUTH x\r\n",
        "CONFIG GET requirepass\r\n",
        "*2\r\n$4\r\nauth\r\n$1\r\nx\r\n",
    ] {
        assert_eq!(talk(&[command])[0], "", "the connection is cut");
    }
}

#[test]
fn only_what_a_manifest_grants_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut room = vec![0; 64 << 10];
                while let Ok(count @ 1..) = stream.read(&mut room) {
                    if stream.write_all(&room[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let to = format!("{NAME}:{port}");
    let authority = authority();
    let host = Fixture::start(&authority, &[to.clone(), format!("other.internal:{port}")]);
    host.deploy(&format!(
        "[[handlers.talk.tcp]]\nto = \"{to}\"\n[[handlers.stream.tcp]]\nto = \"{to}\"\nmax_total_mib = 4\n\
         [[handlers.many.tcp]]\nto = \"{to}\"\nmax_connections = 128\n"
    ));
    let talk = |to: &str| {
        host.run(
            "talk",
            &json!({"to": to, "send": ["a", "b"], "whole": true}),
        )
    };
    assert_eq!(
        talk(&to),
        json!({"answers": ["a", "b", ""], "peer": format!("100.64.0.1:{port}")})
    );
    assert_eq!(talk(&format!("100.64.0.1:{port}"))["answers"][0], "a");
    for other in [
        format!("{NAME}:{}", port - 1),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("other.internal:{port}"),
        format!("100.64.0.2:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
    ] {
        assert!(talk(&other)["refused"].is_string(), "{other}");
    }
    assert_eq!(host.run("stream", &json!({"to": to, "mib": 1})), 1 << 20);
    let all = host
        .run("stream", &json!({"to": to, "mib": 8}))
        .as_u64()
        .unwrap();
    assert!(all <= 2 << 20, "both ways count: {all}");
    let many = host.run("many", &json!({"to": to, "count": 100}));
    assert_eq!(many["open"], 64, "{many}");
    // A grant that the configuration does not have is refused before it is used.
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let manifest = "[[handlers.talk.tcp]]\nto = \"elsewhere:1\"\n";
    let answer = host
        .client
        .deploy_accepted("hostile", &hostile, Some(manifest))
        .unwrap();
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("connections to elsewhere:1, which is not in grants.tcp"),
        "{detail}"
    );
}

/// A host whose handler `statements` may query the database.
struct Shop {
    /// The host reads its certificate when it begins to connect.
    _authority: Authority,
    host: Fixture,
    database: DatabaseServer,
}

impl Shop {
    fn open() -> Self {
        let authority = authority();
        let database = shop(&authority);
        let to = format!("{NAME}:{}", port(&database.endpoint()));
        let host = Fixture::start(&authority, std::slice::from_ref(&to));
        host.deploy(&format!(
            "[defaults]\ntimeout_seconds = 20\n[[handlers.statements.sql]]\nname = \"shop\"\nto = \"{to}\"\ntls = \"postgres\"\npool = 2\n\
             login = {{ protocol = \"postgres\", user = \"report\", password = \"{{secret:db}}\", database = \"postgres\" }}\n"
        ));
        Self {
            _authority: authority,
            host,
            database,
        }
    }

    fn run(&self, together: bool, statements: &Value) -> Value {
        let params = json!({"database": "shop", "statements": statements, "together": together});
        self.host.run("statements", &params)
    }

    fn alone(&self, statement: &str, params: &Value) -> Value {
        self.run(false, &json!([[statement, params]]))[0].clone()
    }
}

/// The example `examples/database`: `pg8000` opens a connection, and statements are in the SDK.
#[test]
fn a_library_of_python_has_a_database() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/database");
    let files = projects::files(&top);
    let component = fs::read(projects::component("database", "python", &files)).unwrap();
    let authority = authority();
    let database = shop(&authority);
    let number = port(&database.endpoint()).to_owned();
    let to = format!("{NAME}:{number}");
    let host = Fixture::start(&authority, std::slice::from_ref(&to));
    let manifest = fs::read_to_string(top.join("database.toml"))
        .unwrap()
        .replace("db.internal:5432", &to);
    let answer = host
        .client
        .deploy_accepted("database", &component, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let prices = json!([{"name": "milk", "price": "0.95"}, {"name": "tea", "price": "1.10"}]);
    assert_eq!(host.run("prices/set", &prices), 2);
    assert_eq!(
        host.run(
            "prices/ls",
            &json!({"port": number.parse::<u16>().unwrap()})
        ),
        prices
    );
}

#[test]
fn values_arrive_with_all_their_digits() {
    let shop = Shop::open();
    let params = json!([9_007_199_254_740_993_i64, "12345678901234567890.10", "say \"a\"", {"a": [1]}, ["x", null, "y,}"], [1, "b"], true, null, 1.5]);
    let typed = shop.alone(
        "SELECT $1::int8, $2::numeric, $3::text, $4::jsonb, $5::text[], $6::jsonb, $7::bool, $8::int, $9::float8, \
         '2026-01-02 03:04:05.678901+00'::timestamptz AS at, ARRAY[[1,2],[3,4]] AS grid",
        &params,
    );
    let mut values = params.as_array().unwrap().clone();
    values.push(json!("2026-01-02 03:04:05.678901+00"));
    values.push(json!([[1, 2], [3, 4]]));
    assert_eq!(typed["values"], json!([values]), "{typed}");
    assert_eq!(typed["columns"][9], "at");
    let inserted = shop.alone(
        "INSERT INTO prices VALUES ($1, $2), ('b', 2)",
        &json!(["a", "1.10"]),
    );
    assert_eq!(inserted["affected"], 2, "{inserted}");
}

#[test]
fn a_refused_statement_harms_no_other() {
    let shop = Shop::open();
    let none = json!([]);
    for (statement, params, kind, code) in [
        ("SELEC 1", &none, "Refused", Some("42601")),
        ("SELECT 1; SELECT 2", &none, "Refused", Some("42601")),
        ("SELECT $1::int", &json!(["x"]), "Refused", Some("22P02")),
        ("SELECT $1::int", &none, "Refused", Some("08P01")),
        ("DROP TABLE prices", &none, "Refused", Some("42501")),
        ("COPY prices FROM STDIN", &none, "InvalidRequest", None),
        ("COPY prices TO STDOUT", &none, "InvalidRequest", None),
        ("BEGIN", &none, "InvalidRequest", None),
        ("SELECT repeat('x', 9000000)", &none, "TooLarge", None),
        (
            "SELECT repeat('x', 1000) FROM generate_series(1, 10000)",
            &none,
            "TooLarge",
            None,
        ),
    ] {
        let refused = shop.alone(statement, params);
        let found = (&refused["kind"], refused["code"].as_str());
        assert_eq!(found, (&json!(kind), code), "{statement}: {refused}");
        let next = shop.alone("SELECT 1", &none);
        assert_eq!(next["values"], json!([[1]]), "after {statement}");
    }
    let other = json!({"database": "other", "statements": [["SELECT 1", []]]});
    let other = shop.host.run("statements", &other);
    assert_eq!(other[0]["kind"], "NotGranted", "{other}");
}

#[test]
fn statements_of_a_transaction_take_effect_together() {
    let shop = Shop::open();
    let count = "SELECT count(*)::int FROM prices";
    let kept = shop.run(
        true,
        &json!([["INSERT INTO prices VALUES ('c', 3)", []], [count, []]]),
    );
    assert_eq!(kept[1]["values"][0][0], 1, "{kept}");
    assert_eq!(kept[2], json!(null), "{kept}");
    let lost = shop.run(
        true,
        &json!([
            ["INSERT INTO prices VALUES ('d', 4)", []],
            ["SELECT 1 / 0", []]
        ]),
    );
    assert_eq!(lost[1]["code"], "22012", "{lost}");
    assert!(lost[2].as_str().unwrap().contains("rolled back"), "{lost}");
    let ended = shop.run(true, &json!([["COMMIT", []], ["SELECT 1", []]]));
    assert_eq!(ended[1]["kind"], "InvalidRequest", "{ended}");
    assert_eq!(shop.alone(count, &json!([]))["values"], json!([[1]]));
}

#[test]
fn attempts_wait_for_a_connection() {
    let shop = Shop::open();
    let client = &shop.host.client;
    let params = json!({"database": "shop", "statements": [["SELECT pg_sleep(0.01)", []]]});
    let job = json!({"handler": "statements", "params": params});
    let jobs: Vec<String> = (0..40).map(|_| client.enqueue(&job)).collect();
    for job in jobs {
        assert_eq!(client.wait(&job)["result"][0]["affected"], 1);
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'report'";
    let open = shop.database.run(open).unwrap();
    assert!(open.parse::<u32>().unwrap() <= 8, "{open}");
}

/// Twelve attempts hold more rows than a component may have in the broker's memory at a time.
#[test]
fn large_rows_wait_for_room() {
    let shop = Shop::open();
    let client = &shop.host.client;
    let statement = "SELECT length($1), repeat('x', 7000000)";
    let params = json!({"database": "shop", "statements": [[statement, ["ab"]]], "shown": false});
    let job = json!({"handler": "statements", "params": params});
    let jobs: Vec<String> = (0..12).map(|_| client.enqueue(&job)).collect();
    for job in jobs {
        let ended = client.wait(&job);
        assert_eq!(ended["result"][0]["affected"], 1, "{}", ended["failure"]);
    }
}
