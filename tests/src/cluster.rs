//! A `PostgreSQL` server for one test or bench, on disk and with its default durability: it can be killed and
//! started again.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::ports;
use crate::wait::eventually;
use host_testing::database::{Database, NOBODY_UID, PORT, programs};

/// How long a server may take to answer: after a crash it first recovers.
const START_BOUND: Duration = Duration::from_mins(3);

/// Serves a cluster until standard input ends. Then the server ends immediately, as after a crash.
const SERVE: &str = r#"
trap : INT TERM HUP
folder=$1 programs=$2
shift 2
"$programs/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= "$@" >> "$folder/log" 2>&1 &
read -r _
kill -QUIT $!
wait $!
"#;

/// A server that belongs to its owner alone.
pub struct Cluster {
    folder: TempDir,
    settings: Vec<String>,
    port: u16,
    serving: Option<(Child, ChildStdin)>,
}

impl Cluster {
    /// Makes a cluster in a folder below `parent`, and starts its server with `settings`, such as
    /// `fsync=off`.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    pub fn start(parent: &Path, settings: &[&str]) -> Self {
        let mut cluster = Self::make(parent);
        cluster.settings = settings.iter().map(|it| (*it).to_owned()).collect();
        cluster.serve();
        cluster
    }

    /// Makes one that listens on a TCP port of the loopback address as well, with TLS, a certificate and
    /// its key.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    pub fn with_tls(parent: &Path, certificate: &str, key: &str) -> Self {
        let mut cluster = Self::make(parent);
        cluster.port = ports::free(1);
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = cluster.data().join(name);
            std::fs::write(&path, text).expect("a file can be written");
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, private).expect("a file can be made private");
            cluster.give(&path);
        }
        let port = format!("port={}", cluster.port);
        cluster.settings = ["listen_addresses=127.0.0.1", "ssl=on", &port]
            .map(str::to_owned)
            .into();
        cluster.serve();
        cluster
    }

    fn make(parent: &Path) -> Self {
        let folder = TempDir::new_in(parent).expect("a folder can be made");
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).expect("a folder can be opened");
        let cluster = Self {
            folder,
            settings: Vec::new(),
            port: PORT,
            serving: None,
        };
        cluster.give(cluster.folder());
        let mut initdb = cluster.command(&programs().join("initdb"));
        initdb.arg("--pgdata").arg(cluster.data());
        initdb.args(["--auth", "trust", "--username", "postgres"]);
        initdb.args(["--encoding", "UTF8", "--locale", "C", "--no-instructions"]);
        let made = initdb
            .stdout(Stdio::null())
            .status()
            .expect("initdb starts");
        assert!(made.success(), "initdb ended with {made}");
        cluster
    }

    /// Gives a file or a folder to the user of the server.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn give(&self, path: &Path) {
        if rustix::process::getuid().is_root() {
            chown(path, Some(NOBODY_UID), Some(NOBODY_UID)).expect("root gives a file away");
        }
    }

    /// Returns the TCP port that it listens on, if it does.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn serve(&mut self) {
        let mut serve = self.command(Path::new("sh"));
        serve
            .args(["-c", SERVE, "sh"])
            .arg(self.folder.path())
            .arg(programs());
        for setting in &self.settings {
            serve.args(["-c", setting]);
        }
        let mut child = serve.stdin(Stdio::piped()).spawn().expect("sh starts");
        let input = child.stdin.take().expect("its input is a pipe");
        self.serving = Some((child, input));
        eventually("the server of PostgreSQL", START_BOUND, || {
            self.execute("SELECT 1").then_some(())
        });
    }

    /// Ends the server like `pg_ctl stop -m immediate`, without writing anything more.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn crash(&mut self) {
        if let Some((mut child, input)) = self.serving.take() {
            drop(input);
            child.wait().expect("the server ends");
        }
    }

    /// Returns the folder of the server's socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the address, over the socket in `folder`, of the database.
    pub fn url(&self) -> String {
        Self::url_at(self.folder())
    }

    /// Returns the address of the database over another socket, which leads to it.
    pub fn url_at(folder: &Path) -> String {
        let folder = folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}/postgres")
    }

    /// Returns the parent of all processes of the server.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    pub fn pid(&self) -> u32 {
        let path = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(path).expect("the server runs");
        let first = text.lines().next().and_then(|line| line.parse().ok());
        first.expect("the file begins with a process")
    }

    /// Runs statements. Returns whether all succeeded.
    pub fn execute(&self, sql: &str) -> bool {
        Database::client(self.folder(), self.port, sql).is_some()
    }

    /// Runs a query with one result.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn ask(&self, sql: &str) -> String {
        Database::client(self.folder(), self.port, sql).unwrap_or_else(|| panic!("refused: {sql}"))
    }

    /// Returns a program that comes with the server.
    pub fn program(name: &str) -> PathBuf {
        programs().join(name)
    }

    /// Makes a command that runs in the folder, as its owner.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder());
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY_UID).gid(NOBODY_UID);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.crash();
    }
}
