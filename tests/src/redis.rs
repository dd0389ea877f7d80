//! A Redis server for one test, on a free port. It is killed when dropped.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::redis::Connection;
use tempfile::TempDir;

use crate::{eventually, ports};

/// How long to wait for the server.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// A running server.
pub struct Redis {
    child: Child,
    port: u16,
    args: Vec<String>,
    data: TempDir,
}

impl Redis {
    /// Starts a server that writes nothing to disk, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server that syncs each change to disk before it answers (`appendfsync always`).
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn durable() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a server that syncs its append-only file once a second (`appendfsync everysec`).
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn logged() -> Self {
        Self::with(&["--save", "", "--appendonly", "yes"])
    }

    /// Starts a server that also accepts TLS, on the next port, with the PEM files `server.pem`,
    /// `server.key` and `ca.pem` in `folder`. With `mutual` it requires a certificate from clients.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn with_tls(folder: &Path, mutual: bool) -> Self {
        let port = ports::free(2);
        let (tls_port, path) = ((port + 1).to_string(), |name| folder.join(name));
        let (certificate, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
        let mut args = vec!["--save", "", "--appendonly", "no", "--tls-port", &tls_port];
        args.extend(["--tls-auth-clients", if mutual { "yes" } else { "no" }]);
        for (name, path) in [
            ("--tls-cert-file", &certificate),
            ("--tls-key-file", &key),
            ("--tls-ca-cert-file", &ca),
        ] {
            args.extend([name, path.to_str().expect("the path is UTF-8")]);
        }
        Self::at(port, &std::env::temp_dir(), &args)
    }

    /// Starts a node of a cluster, whose bus is on the next port.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn of_cluster(args: &[&str]) -> Self {
        let port = ports::free(2);
        let bus = (port + 1).to_string();
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        Self::at(port, &std::env::temp_dir(), &[args, &cluster].concat())
    }

    /// Starts a server with these options.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn with(args: &[&str]) -> Self {
        Self::below(&std::env::temp_dir(), args)
    }

    /// Starts a server with these options, whose data is in a folder below `folder`.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn below(folder: &Path, args: &[&str]) -> Self {
        Self::at(ports::free(1), folder, args)
    }

    fn at(port: u16, folder: &Path, args: &[&str]) -> Self {
        let data = TempDir::new_in(folder).expect("a folder can be made");
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = launch(port, data.path(), &args);
        let redis = Self {
            child,
            port,
            args,
            data,
        };
        redis.answers();
        redis
    }

    /// Kills the server with SIGKILL.
    ///
    /// # Panics
    ///
    /// If the server cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("redis-server can be killed");
        self.child.wait().expect("redis-server ends");
    }

    /// Starts the server again on the same port with its data on disk, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    pub fn start_again(&mut self) {
        self.child = launch(self.port, self.data.path(), &self.args);
        self.answers();
    }

    /// Returns the commands in the append-only file, as they are on the wire. The file is not rewritten while
    /// it has less than 64 MB.
    ///
    /// # Panics
    ///
    /// If the server keeps no such file.
    pub fn append_only_file(&self) -> Vec<u8> {
        let path = self
            .data
            .path()
            .join("appendonlydir/appendonly.aof.1.incr.aof");
        std::fs::read(path).expect("the server keeps an append-only file")
    }

    fn answers(&self) {
        eventually("redis-server to answer", WAIT_MAX, || {
            ::redis::cmd("PING")
                .query::<String>(&mut self.connect().ok()?)
                .ok()
        });
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Returns its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a connection to the server.
    ///
    /// # Panics
    ///
    /// If the connection fails.
    pub fn connection(&self) -> Connection {
        self.connect().expect("redis-server takes connections")
    }

    /// Opens a connection to a server that may be down, or may close it immediately.
    ///
    /// # Errors
    ///
    /// If the connection fails.
    pub fn connect(&self) -> ::redis::RedisResult<Connection> {
        ::redis::Client::open(self.url())?.get_connection_with_timeout(WAIT_MAX)
    }
}

fn launch(port: u16, data: &Path, args: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(args)
        .arg("--dir")
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is missing: run `cargo xtask test peers` first")
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Sentinel that watches one Redis and its replicas. It is killed when dropped.
pub struct Sentinel {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel that knows the Redis at this port as `name`, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If Redis is not installed. The message names the command that installs it.
    pub fn start(master_port: u16, name: &str) -> Self {
        let (folder, port) = (
            TempDir::new().expect("a folder can be made"),
            ports::free(1),
        );
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {master_port} 1\n\
             sentinel down-after-milliseconds {name} 10000\nsentinel failover-timeout {name} 3000\n"
        );
        std::fs::write(&config, text).expect("the folder can be written to");
        let child = Command::new("redis-server")
            .arg(&config)
            .arg("--sentinel")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is missing: run `cargo xtask test peers` first");
        let sentinel = Self {
            child,
            port,
            _folder: folder,
        };
        eventually("the Sentinel to answer", WAIT_MAX, || {
            sentinel.connect().ok()
        });
        sentinel
    }

    /// Returns its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many replicas of `name` it has seen that follow their master.
    ///
    /// # Panics
    ///
    /// If the Sentinel does not answer.
    pub fn replicas(&self, name: &str) -> usize {
        let mut connection = self.connect().expect("the Sentinel takes connections");
        let mut ask = ::redis::cmd("SENTINEL");
        let found: Vec<std::collections::HashMap<String, String>> = ask
            .arg("REPLICAS")
            .arg(name)
            .query(&mut connection)
            .expect("the Sentinel answers");
        let follows = |it: &&std::collections::HashMap<String, String>| {
            it.get("master-link-status")
                .is_some_and(|status| status == "ok")
        };
        found.iter().filter(follows).count()
    }

    /// Opens a connection to a server that may be down, or may close it immediately.
    ///
    /// # Errors
    ///
    /// If the connection fails.
    pub fn connect(&self) -> ::redis::RedisResult<Connection> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        ::redis::Client::open(url)?.get_connection_with_timeout(WAIT_MAX)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
