//! A `PostgreSQL` server for this test process, with a schema for each test. It ends with the process, in
//! whatever way, and leaves nothing behind.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Where Debian installs its releases, and the oldest that hosts accept.
const RELEASES: &str = "/usr/lib/postgresql";
const RELEASE_MIN: u32 = 14;

/// A user without rights: a server refuses to run as root.
pub const NOBODY_UID: u32 = 65_534;

/// The default port of a server.
pub const PORT: u16 = 5_432;

/// How often to ask the server whether it is ready, and the pause between.
const ASKS_MAX: u32 = 1_200;
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Makes a cluster, serves it until standard input ends, and removes it. Nothing has to survive.
const SERVE: &str = r#"
trap 'rm -rf "$1"' EXIT
trap : INT TERM HUP
"$2/initdb" --pgdata "$1/data" --auth trust --username postgres --encoding UTF8 --locale C \
  --no-sync --no-instructions || exit 1
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c max_connections=300 -c fsync=off \
  -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=64MB &
read -r _
kill -QUIT $!
wait $!
"#;

/// A server. It ends when this process does, because its standard input then ends.
pub struct Database {
    pub folder: PathBuf,
    _serving: Child,
}

/// Returns the server of this process.
pub fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(start)
}

/// Returns the folder of the server's programs.
pub fn programs() -> PathBuf {
    let folders = std::fs::read_dir(RELEASES).into_iter().flatten().flatten();
    let releases = folders.filter_map(|folder| {
        let number: u32 = folder.file_name().to_str()?.parse().ok()?;
        Some((number, folder.path().join("bin")))
    });
    let usable = |(number, programs): &(u32, PathBuf)| {
        *number >= RELEASE_MIN && programs.join("initdb").exists()
    };
    let newest = releases.filter(usable).max();
    let (_, programs) = newest.expect("Debian's package postgresql is installed, 14 or later");
    programs
}

#[expect(clippy::disallowed_methods, reason = "polls a condition, with a bound")]
fn start() -> Database {
    // The serving process removes it.
    let folder = tempfile::Builder::new()
        .prefix("host-pg-")
        .tempdir()
        .expect("a folder can be made")
        .keep();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&folder, private).expect("a folder can be made private");
    let programs = programs();
    let log_path = folder.join("log");
    let log = std::fs::File::create(&log_path).expect("a log can be made");
    let mut serve = Command::new("sh");
    serve.args(["-c", SERVE, "sh"]).arg(&folder).arg(&programs);
    serve.current_dir("/").stdin(Stdio::piped());
    serve.stdout(log.try_clone().expect("a file can be shared"));
    serve.stderr(log);
    if rustix::process::getuid().is_root() {
        chown(&folder, Some(NOBODY_UID), Some(NOBODY_UID)).expect("root gives a folder away");
        serve.uid(NOBODY_UID).gid(NOBODY_UID);
    }
    let database = Database {
        _serving: serve.spawn().expect("sh starts"),
        folder,
    };
    for _ in 0..ASKS_MAX {
        if database.execute("SELECT 1") {
            return database;
        }
        std::thread::sleep(ASK_PAUSE);
    }
    let log = std::fs::read_to_string(log_path);
    panic!("the server does not start: {}", log.unwrap_or_default());
}

impl Database {
    /// Runs statements. Returns whether all succeeded.
    pub fn execute(&self, sql: &str) -> bool {
        Self::client(&self.folder, PORT, sql).is_some()
    }

    /// Runs statements on the server with a socket in `folder`. Returns their output if all succeed.
    pub fn client(folder: &Path, port: u16, sql: &str) -> Option<String> {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-qAtX", "-v", "ON_ERROR_STOP=1"]);
        psql.args(["-U", "postgres", "-d", "postgres", "-h"]);
        psql.arg(folder).args(["-p", &port.to_string()]);
        psql.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut psql = psql.spawn().expect("psql starts");
        let mut input = psql.stdin.take().expect("its input is a pipe");
        // A client without a server does not read.
        let _ = writeln!(input, "{sql}");
        drop(input);
        let output = psql.wait_with_output().expect("psql ends");
        let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(answer)
    }

    /// Returns the address, over the socket in `folder`, of a database with one schema.
    pub fn url(folder: &Path, schema: &str) -> String {
        let folder = folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}/postgres?options=-csearch_path%3D{schema}")
    }
}
