//! Connections from a host to a real `PostgreSQL` server: over TLS with each check of the certificate, and
//! through `PgBouncer`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host_tests::faulty::{Fault, Faulty};
use host_tests::processes::children;
use host_tests::server::host;
use host_tests::{Client, Cluster, Options, Server, Supervisor, eventually, guests};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::deploy;
use crate::nodes::knows;

/// Debian's path of the pooler.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// An authority that signs the certificates of servers.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// Signs a certificate for a name. Returns it with its key.
    fn sign(&self, name: &str) -> [String; 2] {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        [certificate.pem(), key.serialize_pem()]
    }
}

/// Makes the folder of the clusters, on disk rather than in a temporary folder.
fn folder() -> std::path::PathBuf {
    let folder = guests::folder().with_file_name("clusters");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a job on a host whose jobs are at `url`, and checks the store.
fn assert_works(url: &str, change: impl FnOnce()) {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_STORE_URL".to_owned(), url.to_owned()));
    let server = Server::start(&options);
    deploy(&server.client(), "basics");
    let echo = json!({"handler": "echo", "params": {"a": 5}});
    assert_eq!(server.client().run(&echo)["result"], echo["params"]);
    change();
    assert_eq!(server.stop(), Some(0));
    let (is_done, message) = store(&["check", "--store", url]);
    assert!(is_done, "{message}");
}

/// Runs `host store …`. Returns whether it succeeded, and its output.
fn store(args: &[&str]) -> (bool, String) {
    let output = Command::new(host())
        .arg("store")
        .args(args)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), message)
}

#[test]
fn a_certificate_is_checked_as_the_mode_says() {
    let (authority, other) = (Authority::new(), Authority::new());
    let files = TempDir::new().unwrap();
    let pem = |name: &str, authority: &Authority| {
        let path = files.path().join(name);
        std::fs::write(&path, &authority.pem).unwrap();
        path.display().to_string()
    };
    let (known, wrong) = (pem("known.pem", &authority), pem("wrong.pem", &other));
    let [certificate, key] = authority.sign("localhost");
    let cluster = Cluster::with_tls(&folder(), &certificate, &key);
    let url = |name: &str, mode: &str, roots: &str| {
        let port = cluster.port();
        format!("postgres://postgres@{name}:{port}/postgres?sslmode={mode}&sslrootcert={roots}")
    };
    assert_works(&url("localhost", "verify-full", &known), || {
        let plain = "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
                     WHERE application_name = 'host' AND NOT ssl";
        assert_eq!(cluster.ask(plain), "0", "each connection is over TLS");
    });
    for (name, mode, roots, reason) in [
        ("127.0.0.1", "verify-ca", &known, None),
        ("127.0.0.1", "require", &known, None),
        (
            "127.0.0.1",
            "verify-full",
            &known,
            Some("invalid peer certificate"),
        ),
        (
            "localhost",
            "verify-full",
            &wrong,
            Some("invalid peer certificate"),
        ),
        (
            "localhost",
            "verify-ca",
            &wrong,
            Some("invalid peer certificate"),
        ),
        (
            "localhost",
            "require",
            &wrong,
            Some("invalid peer certificate"),
        ),
    ] {
        let (is_done, message) = store(&["migrate", "--store", &url(name, mode, roots)]);
        match reason {
            None => assert!(is_done, "{mode} {name}: {message}"),
            Some(reason) => assert!(
                !is_done && message.contains(reason),
                "{mode} {name}: {message}"
            ),
        }
    }
}

/// A pooler in front of a server. It ends when dropped.
struct Pooler {
    child: Child,
    folder: TempDir,
}

impl Pooler {
    fn before(cluster: &Cluster, mode: &str) -> Self {
        let folder = TempDir::new().unwrap();
        cluster.give(folder.path());
        let shown = folder.path().display();
        let settings = format!(
            "[databases]\n* = host={}\n[pgbouncer]\nlisten_port = 5432\nunix_socket_dir = {shown}\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = 20\n\
             ignore_startup_parameters = extra_float_digits\n",
            cluster.folder().display()
        );
        let path = folder.path().join("pgbouncer.ini");
        std::fs::write(
            &path,
            settings.replace("* = host", "* = user=postgres host"),
        )
        .unwrap();
        cluster.give(&path);
        let mut command = cluster.command(Path::new(PGBOUNCER));
        command.arg("--quiet").arg(&path).stdin(Stdio::null());
        let child = command
            .spawn()
            .expect("Debian's package pgbouncer is installed");
        eventually("the pooler to listen", Duration::from_secs(30), || {
            folder.path().join(".s.PGSQL.5432").exists().then_some(())
        });
        Self { child, folder }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's connections of hosts.
const HELD: &str = "FROM pg_stat_activity WHERE application_name LIKE 'host%'";

#[test]
fn a_host_works_behind_a_pooler_in_session_mode() {
    let cluster = Cluster::start(&folder(), &[]);
    let pooler = Pooler::before(&cluster, "session");
    assert_works(&Cluster::url_at(pooler.folder.path()), || {
        let direct = format!("SELECT count(DISTINCT backend_start) > 1 {HELD}");
        assert_eq!(cluster.ask(&direct), "t");
    });
}

/// In transaction mode no statement or setting stays on a connection: two hosts share a few connections, and
/// lose them at any time.
#[test]
fn hosts_share_connections_behind_a_pooler_in_transaction_mode() {
    let cluster = Cluster::start(&folder(), &[]);
    let pooler = Pooler::before(&cluster, "transaction");
    let url = Cluster::url_at(pooler.folder.path());
    let folders = [(); 2].map(|()| TempDir::new().unwrap());
    let start = |data: &TempDir, past: Option<String>| {
        let mut options = Options::new(data.path());
        let past = past.map(|url| ("HOST_STORE_DIRECT_URL".to_owned(), url));
        let env = [("HOST_STORE_URL".to_owned(), url.clone())];
        options.env.extend(env.into_iter().chain(past));
        Server::start(&options)
    };
    // One polls for the other's changes, the other listens past the pooler.
    let [asks, listens] = [
        start(&folders[0], None),
        start(&folders[1], Some(cluster.url())),
    ];
    let (one, other) = (asks.client(), listens.client());
    deploy(&one, "basics");
    knows(&other);
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    eventually("one connection to listen", Duration::from_secs(30), || {
        (cluster.ask(listening) == "1").then_some(())
    });
    let echo =
        |n: u32| json!({"handler": "echo", "params": {"n": n}, "unique_key": format!("k{n}")});
    for n in 0..200 {
        let (enqueues, waits) = if n % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        let job = enqueues.enqueue(&echo(n));
        if n % 20 == 10 {
            // Some of them are in the middle of a batch.
            cluster.execute(&format!("SELECT pg_terminate_backend(pid) {HELD}"));
        }
        // An interrupted read is refused.
        let ended = eventually("a job to end", Duration::from_secs(30), || {
            let asked = format!("/api/v1/jobs/{job}/wait?timeout_seconds=5");
            let answer = waits.get(&asked).ok()?;
            (answer.body["state"] == "completed").then_some(answer.body)
        });
        assert_eq!(ended["result"], json!({"n": n}));
    }
    let kept = format!("SELECT count(*) <= 20 {HELD}");
    assert_eq!(cluster.ask(&kept), "t", "the pooler has no more than that");
    assert_eq!([asks, listens].map(Server::stop), [Some(0); 2]);
    for command in ["check", "status"] {
        let (is_done, message) = store(&[command, "--store", &url]);
        assert!(is_done, "{message}");
    }
    let (is_done, message) = store(&[
        "status",
        "--store",
        &format!("{url}?options=-csearch_path%3Dother"),
    ]);
    assert!(
        !is_done && message.contains("does not pass options on"),
        "{message}"
    );
}

/// A host waits for its database as long as it takes. Its supervisor must not consider it dead.
#[test]
fn a_host_whose_database_is_away_says_so_and_stays_alive() {
    let mut cluster = Cluster::start(&folder(), &[]);
    let data = TempDir::new().unwrap();
    let supervisor = Supervisor::start(data.path());
    let mut options = Options::new(&data.path().join("data"));
    supervisor.supervise(&mut options, Duration::from_millis(300));
    let url = ("HOST_STORE_URL".to_owned(), cluster.url());
    options.env.push(url);
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    cluster.crash();
    let away = eventually("the host to report it", Duration::from_secs(30), || {
        let answer = client.get("/readyz").unwrap();
        (answer.status == 503).then_some(answer.body)
    });
    assert_eq!(away["code"], "store_away");
    refuses_jobs(&client);
    assert_eq!(client.get("/metrics").unwrap().status, 200);
    supervisor.forget();
    for _ in 0..3 {
        assert_eq!(supervisor.next(), "WATCHDOG=1");
    }
    cluster.serve();
    takes_jobs(&client);
    assert_eq!(server.stop(), Some(0));
}

/// After a failover, the server that was the primary accepts no writes.
#[test]
fn a_host_whose_database_accepts_no_writes_is_not_ready() {
    let cluster = Cluster::start(&folder(), &[]);
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let url = ("HOST_STORE_URL".to_owned(), cluster.url());
    options.env.push(url);
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    let end_sessions = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE pid <> pg_backend_pid() AND datname = current_database()";
    assert!(cluster.execute("ALTER DATABASE postgres SET default_transaction_read_only = on"));
    cluster.execute(end_sessions);
    let away = eventually("the host to report it", Duration::from_mins(1), || {
        let answer = client.get("/readyz").unwrap();
        (answer.status == 503).then_some(answer.body)
    });
    assert_eq!(away["code"], "store_away");
    refuses_jobs(&client);
    let reset = "SET default_transaction_read_only = off; ALTER DATABASE postgres RESET ALL";
    assert!(cluster.execute(reset));
    cluster.execute(end_sessions);
    takes_jobs(&client);
    assert_eq!(client.get("/readyz").unwrap().status, 200);
    assert_eq!(server.stop(), Some(0));
}

/// Connections stay open, and nothing comes from them.
#[test]
fn a_host_whose_database_hangs_refuses_jobs_and_goes_on_afterwards() {
    let cluster = Cluster::start(&folder(), &[]);
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_STORE_URL".to_owned(), cluster.url()));
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    takes_jobs(&client);
    let signal = |signal| {
        for pid in children(cluster.pid()).into_iter().chain([cluster.pid()]) {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            // It may just have ended.
            let _ = kill_process(pid, signal);
        }
    };
    signal(Signal::STOP);
    refuses_jobs(&client);
    refuses_jobs(&client);
    signal(Signal::CONT);
    takes_jobs(&client);
    let kept = client.items("/api/v1/jobs");
    assert_eq!(kept.len(), 2, "what was refused is not kept: {kept:?}");
    assert_eq!(server.stop(), Some(0));
}

/// The server commits an enqueue, and its answer never comes. A client that repeats it gets the same job.
#[test]
fn a_job_whose_commit_is_not_confirmed_is_kept_once() {
    let cluster = Cluster::start(&folder(), &[]);
    let proxy = Faulty::before(cluster.folder());
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_STORE_URL".to_owned(), Cluster::url_at(proxy.folder())));
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    let job = json!({"handler": "noop", "unique": {"key": "once", "scope": "retained"}});
    // Another commit of the host may be the next one; then nothing of the enqueue is kept.
    let unknown = eventually("an unconfirmed commit", Duration::from_mins(2), || {
        takes_jobs(&client);
        proxy.inject(Fault::DeafAfterCommit);
        let answer = client.post("/api/v1/jobs", &job).unwrap();
        proxy.heal();
        if answer.status == 503 {
            assert_eq!(answer.body["code"], "store_away", "{answer:?}");
            return None;
        }
        Some(answer)
    });
    assert_eq!(
        (unknown.status, &unknown.body["code"]),
        (504, &json!("outcome_unknown")),
        "{unknown:?}"
    );
    let next = unknown.body["next"].as_str().unwrap();
    assert!(next.contains("unique"), "{next}");
    let repeat = || client.post("/api/v1/jobs", &job).ok();
    let kept = eventually("the database to be back", Duration::from_mins(1), || {
        repeat().filter(|answer| answer.status < 300)
    });
    assert_eq!(kept.status, 200, "it was committed: {kept:?}");
    assert_eq!(repeat().unwrap().body["id"], kept.body["id"]);
    assert_eq!(server.stop(), Some(0));
}

/// How long an answer may take on a busy machine while the database is away. On a quiet one it is two seconds.
const ANSWER_MAX: Duration = Duration::from_secs(10);

fn refuses_jobs(client: &Client) {
    let begun = Instant::now();
    let answer = client
        .post("/api/v1/jobs", &json!({"handler": "noop"}))
        .unwrap();
    assert!(begun.elapsed() < ANSWER_MAX, "{:?}", begun.elapsed());
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (503, &json!("store_away")),
        "{}",
        answer.body
    );
}

/// Waits until the host takes a job, and until that has ended.
fn takes_jobs(client: &Client) {
    let accepted = eventually("the host to take a job", Duration::from_mins(1), || {
        let answer = client.post("/api/v1/jobs", &json!({"handler": "noop"}));
        answer.ok().filter(|answer| answer.status == 201)
    });
    let job = client.wait(accepted.body["id"].as_str().unwrap());
    assert_eq!(job["state"], "completed", "{job}");
}
