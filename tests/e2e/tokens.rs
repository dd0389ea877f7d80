//! Tokens and the audit, with the whole program: from the first token to its end, on one host and on two.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use host_tests::client::Answer;
use host_tests::secrets::{has, is_below};
use host_tests::server::host;
use host_tests::{Client, Options, Redis, Server, eventually, guests, postgres, raw};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;
use crate::grants;
use crate::nodes::Node;
use crate::pages;

/// How many characters a token has.
const TOKEN_CHARS: usize = 66;

/// How long to wait for another node before a test fails.
const PATIENCE: Duration = Duration::from_secs(40);

fn first_token(data: &Path) -> String {
    token_in(&data.join("admin.token"))
}

fn token_in(path: &Path) -> String {
    assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Runs a command of the user whose folder this is.
fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(host());
    command
        .args(args)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder)
        .env_remove("HOST_SERVER")
        .stdin(Stdio::null());
    command
}

fn done(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    assert_eq!(output.status.code(), Some(0), "{args:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_host_with_tokens_is_closed_and_its_audit_tells_who_did_what() {
    let (data, user) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut options = Options::new(data.path());
    let export = user.path().join("audit.jsonl");
    let first = user.path().join("first.token");
    let env = [
        ("HOST_AUTH_MODE", "tokens"),
        ("HOST_AUTH_ADMIN_TOKEN_FILE", first.to_str().unwrap()),
        ("HOST_AUDIT_EXPORT_FILE", export.to_str().unwrap()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env.extend(env);
    let server = Server::start(&options);
    assert!(!data.path().join("admin.token").exists());
    let admin = token_in(&first);
    let log = std::fs::read_to_string(data.path().join("serve.log")).unwrap();
    assert!(log.contains(first.to_str().unwrap()), "{log}");
    let client = server.client().with_token(&admin);
    deploy(&client, "basics");

    // Contexts: each names a host and the file of its token.
    let (url, user) = (format!("http://{}", server.address()), user.path());
    std::fs::write(user.join("admin"), &admin).unwrap();
    let add = ["context", "add", "admin", "--server", &url];
    done(user, &[&add[..], &["--token-file", "admin"]].concat());
    let kept = user.join("host/contexts.toml");
    assert_eq!(std::fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
    let none = run(user, &["queue", "ls", "--server", &url]);
    assert_eq!(none.status.code(), Some(1), "another server gets no token");
    let create = [
        "token", "create", "ci", "--role", "producer", "--queue", "mail-*",
    ];
    let made = done(user, &create);
    let token = made.trim_end();
    assert_eq!((token.len(), made.lines().count()), (TOKEN_CHARS, 1));
    std::fs::write(user.join("ci"), token).unwrap();
    let add = [
        "context",
        "add",
        "ci",
        "--server",
        &url,
        "--token-file",
        "ci",
    ];
    done(user, &add);

    let mail = [
        "job",
        "enqueue",
        "echo",
        "--queue",
        "mail-eu",
        "--context",
        "ci",
    ];
    let id = done(user, &mail);
    let shown = done(user, &["job", "show", id.trim(), "-o", "json"]);
    assert!(
        shown.contains(&format!("token:{}", &token[4..16])),
        "{shown}"
    );
    let hidden = done(user, &["job", "enqueue", "echo"]);
    let missing = run(user, &["job", "show", hidden.trim(), "--context", "ci"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("job_not_found"));
    let other = run(user, &["job", "enqueue", "echo", "--context", "ci"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("out_of_scope"));
    let paused = run(user, &["queue", "pause", "mail-eu", "--context", "ci"]);
    assert!(String::from_utf8_lossy(&paused.stderr).contains("the verb operate"));
    done(user, &["queue", "pause", "mail-eu"]);
    done(user, &["token", "revoke", &token[4..16]]);
    let after = run(user, &mail);
    assert!(String::from_utf8_lossy(&after.stderr).contains("unauthenticated"));

    let listed = audited(user);
    let exported = eventually("the export", PATIENCE, || {
        let exported = std::fs::read_to_string(&export).unwrap_or_default();
        (exported.lines().count() >= listed.lines().count()).then_some(exported)
    });
    assert!(exported.starts_with("{\"number\":1,"), "{exported}");
    contexts(user, &admin);
    let cookie = pages::log_in(&server, &admin);
    let session = cookie.split_once('=').unwrap().1;
    put_everywhere(&server, &admin, session);
    let masked = [&admin, session].map(|it| format!("jobs/{}_***", &it[..16]));
    let exported = eventually("the export of denials", PATIENCE, || {
        let exported = std::fs::read_to_string(&export).unwrap();
        masked
            .iter()
            .all(|it| exported.contains(it))
            .then_some(exported)
    });
    server.stop();
    for text in [&admin[17..], &token[17..], &session[17..]] {
        assert_eq!(is_below(data.path(), text), None, "a token was kept");
        assert!(!has(&exported, text) && !has(&listed, text));
    }
}

/// Lists the audit, which has what was done and what was denied.
fn audited(user: &Path) -> String {
    // Denials are recorded within a second.
    let listed = eventually("the denial to be recorded", PATIENCE, || {
        let listed = done(user, &["audit", "ls", "-o", "jsonl"]);
        let all = ["unauthenticated", "forbidden", "out of scope"];
        all.iter().all(|it| listed.contains(it)).then_some(listed)
    });
    for part in [
        "\"verb\":\"start\"",
        "auth.mode",
        "queue mail-eu",
        "revoked",
        "forbidden",
        "component basics",
    ] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    assert!(done(user, &["audit", "verify"]).contains("entries verified"));
    listed
}

/// Sends a token and a session where they do not belong, with requests that are denied and with some that are not.
fn put_everywhere(server: &Server, token: &str, session: &str) {
    let address = server.address();
    for secret in [token, session] {
        let misplaced = format!(
            "x-request-id: {secret}\r\nuser-agent: {secret}\r\nreferer: http://{address}/{secret}"
        );
        for path in [
            format!("jobs/{secret}/cancel?x={secret}"),
            "queues/mail-eu/resume".to_owned(),
        ] {
            for proof in [
                "accept: */*".to_owned(),
                format!("authorization: Bearer {token}"),
            ] {
                let request = format!(
                    "POST /api/v1/{path} HTTP/1.1\r\nhost: {address}\r\n{proof}\r\n{misplaced}\r\n\
                     content-length: 0\r\nconnection: close\r\n\r\n"
                );
                let answer = raw::ask(address, request.as_bytes());
                let is_done = proof.starts_with("auth") && path.starts_with("queues");
                assert_eq!(answer.status == Some(200), is_done, "{answer:?}");
            }
        }
    }
}

/// Another context becomes the current one, and one is removed. A token of the environment comes before theirs.
fn contexts(user: &Path, admin: &str) {
    let named = |args: &[&str]| {
        let listed = done(user, args);
        let mut lines = listed.lines();
        let found = lines.find(|line| line.starts_with('*'));
        found.map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
    };
    let (ls, ls_queues) = (["context", "ls"], ["queue", "ls"]);
    assert_eq!(named(&ls).as_deref(), Some("admin"));
    done(user, &["context", "use", "ci"]);
    assert_eq!(named(&ls).as_deref(), Some("ci"));
    let refused = run(user, &["queue", "ls"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unauthenticated"));
    let given = command(user, &["queue", "ls"])
        .env("HOST_TOKEN", admin)
        .output()
        .unwrap();
    assert_eq!(given.status.code(), Some(0), "{given:?}");
    // A file that is named comes before a variable with a token, and an option before a variable.
    std::fs::write(user.join("wrong"), "wrong").unwrap();
    let option = |file: &'static str| ["queue", "ls", "--token-file", file];
    for (args, file, token, code) in [
        (&ls_queues[..], "admin", "", 0),
        (&option("admin"), "", "", 0),
        (&option("admin"), "wrong", "wrong", 0),
        (&option("wrong"), "admin", admin, 1),
        (&ls_queues, "admin", "wrong", 0),
        (&ls_queues, "wrong", admin, 1),
    ] {
        let mut given = command(user, args);
        given.env("HOST_TOKEN_FILE", file).env("HOST_TOKEN", token);
        let output = given.output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?} {file} {output:?}"
        );
    }
    done(user, &["context", "rm", "ci"]);
    let left = done(user, &ls);
    assert!(!left.split_whitespace().any(|word| word == "ci"), "{left}");
}

#[test]
fn a_token_is_not_sent_to_another_machine_without_tls() {
    let user = TempDir::new().unwrap();
    std::fs::write(user.path().join("token"), "hst_x").unwrap();
    let far = "http://192.0.2.1:7700";
    for args in [
        &["queue", "ls", "--server", far, "--token-file", "token"][..],
        &[
            "context",
            "add",
            "far",
            "--server",
            far,
            "--token-file",
            "token",
        ],
    ] {
        let output = run(user.path(), args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("without TLS"), "{error}");
    }
}

/// Starts a host that may grant a variable and a folder, with tokens of these roles or verbs.
fn granting(
    data: &TempDir,
    folder: &TempDir,
    two_people: bool,
    allowed: &[&[&str]],
) -> (Server, Vec<Client>) {
    let mut options = Options::new(data.path());
    options.args = vec![
        format!("--grant-read={}", folder.path().display()),
        "--grant-env=GRANTED".to_owned(),
    ];
    let two_people = two_people.to_string();
    let env = [
        ("HOST_AUTH_MODE", "tokens"),
        ("HOST_AUTH_TWO_PEOPLE_FOR_GRANTS", two_people.as_str()),
        ("GRANTED", "yes"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env.extend(env);
    let server = Server::start(&options);
    let admin = server.client().with_token(&first_token(data.path()));
    let client = |verbs: &&[&str]| {
        let body = json!({"name": "one", "allow": verbs});
        let made = admin.post("/api/v1/tokens", &body).unwrap().body;
        server.client().with_token(made["token"].as_str().unwrap())
    };
    let clients = allowed.iter().map(client).collect();
    (server, clients)
}

const DEPLOYS: &[&str] = &["read", "deploy"];
const GRANTS: &[&str] = &["read", "deploy", "grant"];

#[test]
fn grants_are_accepted_with_the_verb_grant() {
    let (data, folder) = (TempDir::new().unwrap(), grants::folder());
    let (server, clients) = granting(&data, &folder, false, &[DEPLOYS, GRANTS]);
    let hostile = std::fs::read(guests::component("hostile")).unwrap();
    let manifest = grants::manifest(&folder);
    let [deployer, operator] = &clients[..] else {
        panic!("two clients");
    };
    let code = |answer: &Answer| answer.body["code"].as_str().unwrap_or_default().to_owned();
    let deploy = deployer.deploy("hostile", &hostile, Some(&manifest));
    assert_eq!(code(&deploy.unwrap()), "grants_not_accepted");
    let forced = deployer
        .deploy_accepted("hostile", &hostile, Some(&manifest))
        .unwrap();
    assert_eq!((forced.status, code(&forced).as_str()), (403, "forbidden"));
    assert!(
        forced.body["detail"]
            .as_str()
            .unwrap()
            .contains("verb grant")
    );
    let accepted = operator.deploy_accepted("hostile", &hostile, Some(&manifest));
    assert_eq!(accepted.unwrap().status, 201);
    let admin = server.client().with_token(&first_token(data.path()));
    let audit = admin.get("/api/v1/audit?verb=deploy").unwrap().body;
    let entries = audit["items"].as_array().unwrap();
    let detail = |entry: &Value| entry["record"]["detail"].to_string();
    let accepts: Vec<String> = entries
        .iter()
        .filter(|it| detail(it).contains("accepts grants"))
        .map(detail)
        .collect();
    assert_eq!(accepts.len(), 1, "{audit}");
    assert!(accepts[0].contains("GRANTED"), "{audit}");

    // A deploy takes them away, and a rollback would bring them back.
    let without = deployer.deploy("hostile", &hostile, None);
    assert_eq!(without.unwrap().status, 201);
    let back = roll_back(deployer, false);
    assert_eq!(code(&back), "grants_not_accepted");
    let forced = roll_back(deployer, true);
    assert_eq!((forced.status, code(&forced).as_str()), (403, "forbidden"));
    assert_eq!(roll_back(operator, true).status, 200);
}

/// Goes back to the first revision.
fn roll_back(client: &Client, accept_grants: bool) -> Answer {
    let body = json!({"revision": 1, "accept_grants": accept_grants});
    let path = "/api/v1/components/hostile/rollback";
    client.post(path, &body).unwrap()
}

#[test]
fn two_principals_are_needed_for_new_grants() {
    let (data, folder) = (TempDir::new().unwrap(), grants::folder());
    let (_server, clients) = granting(&data, &folder, true, &[DEPLOYS, GRANTS, GRANTS]);
    let hostile = std::fs::read(guests::component("hostile")).unwrap();
    let manifest = grants::manifest(&folder);
    let [deployer, one, two] = &clients[..] else {
        panic!("three clients");
    };
    let accept = |client: &Client| {
        let answer = client
            .deploy_accepted("hostile", &hostile, Some(&manifest))
            .unwrap();
        (answer.status, answer.body["code"].clone())
    };
    let needed = (409, json!("second_person_needed"));
    assert_eq!(accept(one), needed, "no attempt so far");
    let tried = one.deploy("hostile", &hostile, Some(&manifest)).unwrap();
    assert_eq!(tried.body["code"], "grants_not_accepted");
    assert_eq!(accept(one), needed, "it has tried itself");
    assert_eq!(accept(two).0, 201, "another has tried");
    let again = deployer.deploy("hostile", &hostile, Some(&manifest));
    assert_eq!(again.unwrap().status, 200, "it has no new grants");

    let without = deployer.deploy("hostile", &hostile, None);
    assert_eq!(without.unwrap().status, 201);
    let accept = |client: &Client| {
        let answer = roll_back(client, true);
        (answer.status, answer.body["code"].clone())
    };
    assert_eq!(accept(one), needed, "no rollback so far");
    let tried = roll_back(one, false);
    assert_eq!(tried.body["code"], "grants_not_accepted");
    assert_eq!(accept(one), needed, "it has tried itself");
    assert_eq!(accept(two).0, 200, "another has tried");
}

#[test]
fn who_is_refused_reads_why_also_after_a_long_body() {
    let (data, folder) = (TempDir::new().unwrap(), grants::folder());
    let (server, clients) = granting(&data, &folder, false, &[&["read"]]);
    let long = vec![0; 20 << 20];
    for client in [&clients[0], &server.client()] {
        let answer = client.deploy("long", &long, None).unwrap();
        assert!([401, 403].contains(&answer.status), "{answer:?}");
    }
}

/// Two nodes of one database: what one makes and revokes holds at the other, also for a wait that is open.
#[test]
fn a_revocation_holds_on_all_nodes() {
    let node = Node::new("tokens");
    let env = [("HOST_AUTH_MODE", "tokens")];
    let one = node.start_with(&env);
    let admin = first_token(node.data());
    let admin_at_one = one.client().with_token(&admin);
    deploy(&admin_at_one, "basics");
    let body = json!({"name": "w", "role": "operator"});
    let made = admin_at_one.post("/api/v1/tokens", &body).unwrap();
    let token = made.body["token"].as_str().unwrap().to_owned();
    // A node knows at its start the tokens that there are.
    let other = node.another();
    let two = other.start_with(&env);
    assert!(!other.data().join("admin.token").exists(), "one is enough");
    let at_two = two.client().with_token(&token);
    // What one node has just made, another one looks up.
    for _ in 0..3 {
        let made = admin_at_one.post("/api/v1/tokens", &body).unwrap();
        let new = two
            .client()
            .with_token(made.body["token"].as_str().unwrap());
        assert_eq!(new.get("/api/v1/jobs").unwrap().status, 200);
    }
    rate_is_shared(&admin_at_one);
    // A browser logs in at one node and continues at both.
    let session = pages::log_in(&one, &token);
    for server in [&two, &one] {
        let (status, page) = pages::get_with(server, "/queues", &session);
        assert_eq!(status, Some(200), "{page}");
    }
    let status = |client: &Client| client.get("/api/v1/jobs").unwrap().status;
    assert_eq!(status(&at_two), 200);
    let path = format!("/api/v1/tokens/{}", &token[4..16]);
    let revoked = admin_at_one.call("DELETE", &path, None).unwrap();
    assert_eq!(revoked.status, 200, "{revoked:?}");
    eventually("the revocation at the other node", PATIENCE, || {
        (status(&at_two) == 401).then_some(())
    });
    for server in [&one, &two] {
        let (status, page) = pages::get_with(server, "/queues", &session);
        assert_eq!(status, Some(401), "the session has ended with it: {page}");
    }
    assert_eq!(status(&one.client().with_token(&token)), 401);
    let cookie = session.split_once('=').unwrap().1;
    let written = postgres::dump("tokens");
    for text in [&admin, &token, cookie] {
        assert!(!has(&written, &text[17..]), "the database has it");
        assert!(has(&written, &text[4..16]), "it has the id");
        for node in [&node, &other] {
            let kept = node.data().join("admin.token");
            if kept.exists() && text == admin {
                std::fs::remove_file(kept).unwrap();
            }
            assert_eq!(is_below(node.data(), &text[17..]), None);
        }
    }
}

/// One of two nodes lets in half of a token's rate: 50 at a time, and 50 a second from then on. A slow machine may not get
/// to more in the time that it needs.
fn rate_is_shared(admin_at_one: &Client) {
    eventually("the nodes to share the rate", PATIENCE, || {
        let body = json!({"name": "r", "role": "viewer", "rate": 100});
        let made = admin_at_one.post("/api/v1/tokens", &body).unwrap().body;
        let at_one = admin_at_one
            .clone()
            .with_token(made["token"].as_str().unwrap());
        let begun = Instant::now();
        let ask = |_| at_one.get("/api/v1/queues").unwrap().status == 200;
        let let_in: u128 = (0..100).map(ask).map(u128::from).sum();
        let most = 51 + begun.elapsed().as_millis() / 20;
        (50..=most).contains(&let_in).then_some(())
    });
}

/// Opens an answer that continues. A stream has begun when this returns.
fn open(server: &Server, path: &str, proof: &str) -> TcpStream {
    let mut stream = raw::connect(server.address());
    let address = server.address();
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n{proof}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    if !path.contains("/wait") {
        let mut head = [0; 13];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head[9..], b"200 ", "{path}");
    }
    stream
}

/// Makes a token, opens every answer that lasts, with it and with a session of it, at each node, and revokes the token. Returns
/// how long afterwards the last of them ended.
fn last_end(admin: &Client, servers: [&Server; 2], waits: &[String]) -> Duration {
    let body = json!({"name": "w", "role": "operator"});
    let made = admin.post("/api/v1/tokens", &body).unwrap();
    let token = made.body["token"].as_str().unwrap();
    let cookie = format!("cookie: {}", pages::log_in(servers[0], token));
    let bearer = format!("authorization: Bearer {token}");
    let mut open_ones = Vec::new();
    for server in servers {
        for path in waits {
            open_ones.push((path.clone(), open(server, path, &bearer)));
        }
        for (path, proof) in [("/api/v1/events", &bearer), ("/live", &cookie)] {
            open_ones.push((path.to_owned(), open(server, path, proof)));
        }
        let (status, page) = pages::get_with(server, "/queues", &cookie["cookie: ".len()..]);
        assert_eq!(status, Some(200), "{page}");
    }
    let path = format!("/api/v1/tokens/{}", &token[4..16]);
    let revoked = admin.call("DELETE", &path, None).unwrap();
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ending: Vec<_> = open_ones
            .into_iter()
            .map(|(path, mut stream)| {
                scope.spawn(move || {
                    let mut rest = String::new();
                    stream.read_to_string(&mut rest).unwrap();
                    let is_refused = !path.contains("/wait") || rest.contains(" 401 ");
                    assert!(is_refused, "{path}: {rest}");
                    begun.elapsed()
                })
            })
            .collect();
        let ends = ending.into_iter().map(|it| it.join().unwrap());
        let last = ends.max().unwrap();
        for server in servers {
            let (status, _) = pages::get_with(server, "/queues", &cookie["cookie: ".len()..]);
            assert_eq!(status, Some(401), "the session");
        }
        last
    })
}

/// A loaded machine may need longer for one of some revocations, but not for each.
#[test]
fn a_revocation_ends_what_is_open_on_all_nodes_within_a_second() {
    let (node, redis) = (Node::new("revoked"), Redis::start());
    let url = redis.url();
    let env = [
        ("HOST_AUTH_MODE", "tokens"),
        ("HOST_HERO_URL", url.as_str()),
    ];
    let one = node.start_with(&env);
    let admin = one.client().with_token(&first_token(node.data()));
    let other = node.another();
    let two = other.start_with(&env);
    deploy(&admin, "basics");
    let id = admin.enqueue(&json!({"handler": "echo", "delay_seconds": 3_600}));
    let body = json!({"worker_id": "missing", "script": "1"});
    let of_hero = admin.post("/api/v1/hero/jobs", &body).unwrap();
    assert_eq!(of_hero.status, 201, "{of_hero:?}");
    let of_hero = of_hero.body["id"].as_str().unwrap();
    let waits = [format!("jobs/{id}"), format!("hero/jobs/{of_hero}")]
        .map(|it| format!("/api/v1/{it}/wait?timeout_seconds=60"));
    let mut rounds = (0..10).map(|_| last_end(&admin, [&one, &two], &waits));
    let within = rounds.find(|last| *last < Duration::from_secs(1));
    assert!(within.is_some(), "none of ten ended within a second");
}
