//! A Redis server of a test's own, on a free port; it is killed when this is dropped.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::redis::Connection;
use tempfile::TempDir;

use crate::{eventually, ports};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server that keeps nothing on disk.
pub struct Redis {
    child: Child,
    port: u16,
    _data: TempDir,
}

impl Redis {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, with the command that installs it.
    pub fn start() -> Self {
        let data = TempDir::new().expect("a folder can be made");
        let port = ports::free(1);
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is missing: run `cargo xtask test peers` first");
        let redis = Self {
            child,
            port,
            _data: data,
        };
        eventually("redis-server to answer", PATIENCE, || {
            ::redis::cmd("PING")
                .query::<String>(&mut redis.connect().ok()?)
                .ok()
        });
        redis
    }

    /// Returns where it listens, as clients write it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Returns a connection to it.
    ///
    /// # Panics
    ///
    /// If it does not take one.
    pub fn connection(&self) -> Connection {
        self.connect().expect("redis-server takes connections")
    }

    fn connect(&self) -> ::redis::RedisResult<Connection> {
        ::redis::Client::open(self.url())?.get_connection_with_timeout(PATIENCE)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
