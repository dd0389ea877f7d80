//! A `PostgreSQL` server for one test that listens on 127.0.0.1, with TLS and passwords. It ends with the test.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host_testing::database::{Database, NOBODY_UID, programs};
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::{eventually, ports};

/// How long to wait for the server.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// Who may connect, and how. Over TCP only with a password; users of the group `old` with an MD5 hash, without TLS.
const RULES: &str = "\
local all all trust\n\
host all +old 127.0.0.1/32 md5\n\
host all plain 127.0.0.1/32 password\n\
hostssl all all 127.0.0.1/32 scram-sha-256\n";

/// Makes a cluster, serves it until standard input ends, and removes nothing: the folder is the test's.
const SERVE: &str = r#"
"$2/initdb" --pgdata "$1/data" --auth trust --username postgres --encoding UTF8 --locale C \
  --no-sync --no-instructions || exit 1
cp "$1/pg_hba.conf" "$1/data/pg_hba.conf"
"$2/postgres" -D "$1/data" -k "$1" -p "$3" -c listen_addresses=127.0.0.1 -c fsync=off \
  -c ssl=on -c ssl_cert_file="$1/server.pem" -c ssl_key_file="$1/server.key" &
read -r _
kill -QUIT $!
wait $!
"#;

/// A running server.
pub struct DatabaseServer {
    folder: TempDir,
    port: u16,
    #[expect(dead_code, reason = "its standard input ends with it")]
    serving: Child,
}

impl DatabaseServer {
    /// Starts one with the certificate `server` of the authority, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If there is no server to start. The message names the package.
    pub fn start(authority: &Authority) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let port = ports::free(1);
        std::fs::write(folder.path().join("pg_hba.conf"), RULES).expect("room for files");
        for name in ["server.pem", "server.key"] {
            let copy = folder.path().join(name);
            std::fs::copy(authority.path(name), &copy).expect("room for files");
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&copy, private).expect("the file is ours");
        }
        let mut serve = Command::new("sh");
        serve.args(["-c", SERVE, "sh"]).arg(folder.path());
        serve.arg(programs()).arg(port.to_string());
        serve.current_dir("/").stdin(Stdio::piped());
        serve.stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::getuid().is_root() {
            for name in ["", "pg_hba.conf", "server.pem", "server.key"] {
                let path = folder.path().join(name);
                chown(path, Some(NOBODY_UID), Some(NOBODY_UID)).expect("root gives a file away");
            }
            serve.uid(NOBODY_UID).gid(NOBODY_UID);
        }
        let serving = serve.spawn().expect("sh starts");
        let server = Self {
            folder,
            port,
            serving,
        };
        eventually("PostgreSQL answers", WAIT_MAX, || server.run("SELECT 1"));
        server
    }

    /// Runs statements as its owner. Returns their output if all succeed.
    pub fn run(&self, sql: &str) -> Option<String> {
        Database::client(self.folder.path(), self.port, sql)
    }

    /// Returns its name and port.
    pub fn endpoint(&self) -> String {
        format!("localhost:{}", self.port)
    }
}
