//! A PostgreSQL server of this test process: one for all tests, each of which gets a schema of its own.
//! It ends with the process, however that ends.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::proxy::Proxy;

/// How many schemas there are.
const SCHEMAS: u32 = 1_000;

/// The user `nobody`: a server refuses to run as root.
const NOBODY: u32 = 65_534;

/// How often the server is asked whether it is ready, and the pause between.
const ASKS_MAX: u32 = 600;
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Makes a cluster, serves it until standard input ends, and removes it. Nothing here has to survive.
const SERVE: &str = r#"
set -e
trap 'rm -rf "$1"' EXIT
"$2/initdb" --pgdata "$1/data" --auth trust --username postgres --encoding UTF8 --locale C \
  --no-sync --no-instructions
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c max_connections=300 -c fsync=off \
  -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=64MB &
read -r _ || true
kill -QUIT $!
wait $! || true
"#;

struct Server {
    folder: PathBuf,
    programs: PathBuf,
    /// The server ends when this process does, because its standard input then ends.
    _serving: Child,
}

/// Returns the folder of the server's programs.
///
/// # Panics
///
/// If there is no server.
fn programs() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| {
            let version = version.ok()?;
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(number, programs)| *number >= 14 && programs.join("initdb").exists())
        .collect();
    found.sort();
    let newest = found.pop();
    newest
        .expect("install Debian's package postgresql, 14 or later")
        .1
}

#[expect(
    clippy::disallowed_methods,
    reason = "between looks at a condition, with a bound"
)]
fn start() -> Server {
    let folder = tempfile::Builder::new()
        .prefix("host-pg-")
        .tempdir()
        .unwrap();
    // The script removes it.
    let folder = folder.keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let programs = programs();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut serve = Command::new("sh");
    serve.args(["-c", SERVE, "sh"]).arg(&folder).arg(&programs);
    serve.current_dir("/").stdin(Stdio::piped());
    serve.stdout(log.try_clone().unwrap()).stderr(log);
    if rustix::process::getuid().is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        serve.uid(NOBODY).gid(NOBODY);
    }
    let server = Server {
        _serving: serve.spawn().unwrap(),
        programs,
        folder,
    };
    let schemas = format!(
        "SELECT format('CREATE SCHEMA t%s', n) FROM generate_series(1, {SCHEMAS}) AS n \\gexec"
    );
    for _ in 0..ASKS_MAX {
        if server.tell(&schemas) {
            return server;
        }
        std::thread::sleep(ASK_PAUSE);
    }
    let log = std::fs::read_to_string(server.folder.join("log"));
    panic!("the server does not start: {}", log.unwrap_or_default());
}

impl Server {
    /// Runs statements. Returns whether all succeeded.
    fn tell(&self, sql: &str) -> bool {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
        ]);
        psql.arg("-h").arg(&self.folder).stdin(Stdio::piped());
        psql.stdout(Stdio::null()).stderr(Stdio::null());
        let mut psql = psql.spawn().unwrap();
        let mut input = psql.stdin.take().unwrap();
        // A server that is not there does not read.
        let _refused = writeln!(input, "{sql}");
        drop(input);
        psql.wait().unwrap().success()
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(start)
}

/// An empty schema, which no other test uses.
pub(crate) struct Schema {
    number: u32,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(number <= SCHEMAS, "more schemas are needed");
        Self { number }
    }

    /// Returns the address of a database in which the schema is the only one.
    pub(crate) fn url(&self) -> String {
        self.url_in(&server().folder)
    }

    /// Puts a proxy before the server, and returns it with the address there.
    pub(crate) fn proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::before(&server().folder);
        let url = self.url_in(proxy.folder.path());
        (proxy, url)
    }

    fn url_in(&self, folder: &Path) -> String {
        let folder = folder_in_url(folder);
        let number = self.number;
        format!("postgres://postgres@{folder}/postgres?options=-csearch_path%3Dt{number}")
    }

    /// Runs statements in the schema.
    pub(crate) fn run(&self, sql: &str) {
        let number = self.number;
        assert!(
            server().tell(&format!("SET search_path = t{number}; {sql}")),
            "{sql}"
        );
    }
}

fn folder_in_url(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}
